import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UsageError } from './command.ts';
import { parseOptions } from './options.ts';

const KNOWN = ['read', 'write', 'memory'].map((name) => ({ name }));

test('without arguments everything runs, for three seconds each, with 1 and 64 in flight', () => {
  const { scenarios, seconds, connections, smoke, edge } = parseOptions([], KNOWN);
  assert.deepEqual(
    { scenarios, seconds, connections, smoke, edge },
    {
      scenarios: KNOWN,
      seconds: 3,
      connections: [1, 64],
      smoke: false,
      edge: 'auto',
    },
  );
});

test('named scenarios run in the order of the list', () => {
  assert.deepEqual(parseOptions(['memory', 'read'], KNOWN).scenarios, [{ name: 'read' }, { name: 'memory' }]);
});

test('a seed draws every fourth scenario, and four in a row draw all', () => {
  const many = Array.from({ length: 10 }, (_, i) => ({ name: `scenario-${i}` }));
  const drawn = (seed: number) => parseOptions(['--seed', String(seed)], many).scenarios.map(({ name }) => name);
  assert.deepEqual(drawn(5), ['scenario-1', 'scenario-5', 'scenario-9']);
  assert.deepEqual(
    [4, 5, 6, 7].flatMap(drawn).sort(),
    many.map(({ name }) => name),
  );
});

test('--smoke is short, and --seconds wins over it', () => {
  assert.ok(parseOptions(['--smoke'], KNOWN).seconds < 1);
  assert.equal(parseOptions(['--smoke', '--seconds', '2'], KNOWN).seconds, 2);
});

test('what cannot be understood is said', () => {
  for (const [args, message] of [
    [['reed'], /no scenario "reed"; there are: read, write, memory/],
    [['--seconds', 'two'], /--seconds must be/],
    [['--connections', '1,many'], /--connections must be/],
    [['--minutes', '0'], /--minutes must be/],
    [['--seed', 'x'], /--seed/],
    [['--edge', 'deno'], /--edge must be one of/],
    [['--fast'], /--fast/],
  ] as const) {
    assert.throws(
      () => parseOptions([...args], KNOWN),
      (error) => error instanceof UsageError && message.test(error.message),
    );
  }
});
