import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Begun } from './begun.ts';

test('the other thread reads how far each session has come, also one that has ended', () => {
  const clock = { now: () => 0 };
  const begun = new Begun(clock);
  const seen = new Begun(clock, begun.memory);
  assert.deepEqual(seen.read(), []);
  const [one, two] = [begun.open(11), begun.open(22)];
  begun.mark(one, 5);
  // Half of a group that failed runs again.
  begun.mark(one, 3);
  begun.mark(two, 1);
  begun.close(11, one);
  assert.deepEqual(seen.read(), [
    [11, 5],
    [22, 1],
  ]);
  assert.deepEqual([begun.knows(11), begun.knows(22), begun.knows(33)], [true, true, false]);
});

test('the place of a session that ended is free again once no client can ask for it any more', () => {
  let now = 0;
  const begun = new Begun({ now: () => now });
  for (let session = 1; session < LIMITS.writerSessions; session++) begun.open(session);
  const last = begun.open(LIMITS.writerSessions);
  begun.mark(last, 7);
  begun.close(LIMITS.writerSessions, last);
  now = LIMITS.handoverMs + 1;
  begun.mark(begun.open(9999), 2);
  assert.equal(begun.knows(LIMITS.writerSessions), false);
  assert.deepEqual(begun.read()?.at(-1), [9999, 2]);
});

test('with a session too many nothing is said of any', () => {
  const begun = new Begun({ now: () => 0 });
  for (let session = 1; session <= LIMITS.writerSessions + 1; session++) begun.mark(begun.open(session), 1);
  assert.equal(begun.read(), null);
  assert.equal(begun.knows(9_999_999), true);
});
