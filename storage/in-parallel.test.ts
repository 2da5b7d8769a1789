import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inParallel } from './in-parallel.ts';

test('after a failure none is begun, and it rejects once those under way have ended', async () => {
  const begun: number[] = [];
  let end = (): void => {};
  const slow = new Promise<void>((resolve) => {
    end = resolve;
  });
  let settled = false;
  const all = inParallel([1, 2, 3, 4], 2, async (n) => {
    begun.push(n);
    if (n === 1) return slow;
    throw new Error(`no ${n}`);
  });
  const watched = all.catch(() => {}).finally(() => (settled = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([begun, settled], [[1, 2], false]);
  end();
  await watched;
  await assert.rejects(all, /no 2/);
  assert.deepEqual(begun, [1, 2]);
});
