import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RestartPolicy } from './restart.ts';

test('the first restart is immediate, later ones wait 100 ms, doubled up to 5 s', () => {
  const policy = new RestartPolicy(() => 1 - Number.EPSILON, 9);
  const at = Array.from({ length: 9 }, (_, n) => policy.exited(n));
  assert.deepEqual(at, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
});

test('by default more than 5 in 30 s escalate', () => {
  const escalating = new RestartPolicy(() => 0);
  const all = [0, 1, 2, 3, 4, 29_999].map((ms) => escalating.exited(ms));
  assert.deepEqual(all.slice(0, 5).includes(null), false);
  assert.equal(all[5], null);
  assert.notEqual(escalating.exited(60_000), null);
});

test('jitter takes away at most half of the wait', () => {
  const policy = new RestartPolicy(() => 0);
  assert.deepEqual(
    [0, 1, 2].map((at) => policy.exited(at)),
    [0, 50, 100],
  );
});

test('more restarts than the intensity within the window escalate', () => {
  const policy = new RestartPolicy(() => 0);
  for (let at = 0; at < 5; at++) assert.notEqual(policy.exited(at), null);
  assert.equal(policy.exited(5), null);
  policy.reset();
  assert.equal(policy.exited(6), 0);
});

test('restarts that are further apart than the window never escalate', () => {
  const policy = new RestartPolicy(() => 0);
  for (let n = 0; n < 50; n++) assert.equal(policy.exited(n * 30_000), 0);
});
