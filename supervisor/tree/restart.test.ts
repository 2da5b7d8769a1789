import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RestartPolicy } from './restart.ts';

const limits = { intensity: 5, windowMs: 30_000, backoffMs: 100, backoffMaxMs: 1000 };

test('the first restart is immediate, later ones back off and are capped', () => {
  const policy = new RestartPolicy(limits, () => 1 - Number.EPSILON);
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((at) => policy.exited(at)),
    [0, 100, 200, 400, 800],
  );
});

test('jitter takes away at most half of the wait', () => {
  const policy = new RestartPolicy(limits, () => 0);
  assert.deepEqual(
    [0, 1, 2].map((at) => policy.exited(at)),
    [0, 50, 100],
  );
});

test('more restarts than the intensity within the window escalate', () => {
  const policy = new RestartPolicy(limits, () => 0);
  for (let at = 0; at < 5; at++) assert.notEqual(policy.exited(at), null);
  assert.equal(policy.exited(5), null);
  policy.reset();
  assert.equal(policy.exited(6), 0);
});

test('restarts that are further apart than the window never escalate', () => {
  const policy = new RestartPolicy(limits, () => 0);
  for (let n = 0; n < 50; n++) assert.equal(policy.exited(n * 30_000), 0);
});
