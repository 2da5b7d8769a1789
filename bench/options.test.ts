import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OptionError, parseOptions } from './options.ts';

const KNOWN = ['read', 'write', 'memory'];

test('without arguments everything runs, for five seconds each', () => {
  const { scenarios, seconds, connections, smoke, edge, durability } = parseOptions([], KNOWN);
  assert.deepEqual(
    { scenarios, seconds, connections, smoke, edge, durability },
    {
      scenarios: KNOWN,
      seconds: 5,
      connections: [1, 8, 64],
      smoke: false,
      edge: 'auto',
      durability: 'full',
    },
  );
});

test('named scenarios run in the order of the list', () => {
  assert.deepEqual(parseOptions(['memory', 'read'], KNOWN).scenarios, ['read', 'memory']);
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
    [['--edge', 'deno'], /--edge must be one of/],
    [['--fast'], /--fast/],
  ] as const) {
    assert.throws(
      () => parseOptions([...args], KNOWN),
      (error) => error instanceof OptionError && message.test(error.message),
    );
  }
});
