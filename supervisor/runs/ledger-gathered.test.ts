// Which writes of runs leave together, and that each keeps its own outcome.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatheredWrites } from './ledger.ts';

const MANY = 8;

function scene() {
  const gathered = new GatheredWrites();
  const left: number[] = [];
  const add = (n: number, runs: number) =>
    gathered.add(runs, async () => {
      left.push(n);
      if (n === 3) throw new Error('refused');
      return n;
    });
  return { gathered, left, add };
}

test('with few runs under way no store waits', async () => {
  const { left, add } = scene();
  const write = add(1, 2);
  assert.deepEqual(left, [1]);
  assert.equal(await write, 1);
});

test('half of many runs leave together and in order, and one that fails fails alone', async () => {
  const { left, add } = scene();
  const writes = [1, 2, 3].map((n) => add(n, MANY));
  assert.deepEqual(left, []);
  writes.push(add(4, MANY));
  assert.deepEqual(left, [1, 2, 3, 4]);
  const ends = await Promise.allSettled(writes);
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  );
});

test('waiting stores leave after a while without others, and at once when they are asked for', async () => {
  const { gathered, left, add } = scene();
  assert.equal(await add(1, MANY), 1);
  const write = add(2, MANY);
  assert.deepEqual(left, [1]);
  gathered.flush();
  assert.deepEqual(left, [1, 2]);
  assert.equal(await write, 2);
});

test('a store that comes when few runs are left does not overtake waiting ones', async () => {
  const { left, add } = scene();
  const writes = [add(1, MANY), add(2, 2)];
  assert.deepEqual(left, [1, 2]);
  assert.deepEqual(await Promise.all(writes), [1, 2]);
});
