import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UsageError } from './command.ts';
import { parseOptions } from './options.ts';

const KNOWN = ['read', 'write', 'memory'];

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
  assert.deepEqual(parseOptions(['memory', 'read'], KNOWN).scenarios, ['read', 'memory']);
});

test('a seed draws every second scenario, and the next one the others', () => {
  assert.deepEqual(parseOptions(['--seed', '4'], KNOWN).scenarios, ['read', 'memory']);
  assert.deepEqual(parseOptions(['--seed', '5'], KNOWN).scenarios, ['write']);
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
