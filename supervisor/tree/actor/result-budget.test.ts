import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { ResultBudget } from './result-budget.ts';

const MiB = 1024 * 1024;

test('the larger the results, the fewer calls at a time; never none', () => {
  const now = () => 0;
  const room = new ResultBudget();
  assert.equal(room.calls(now), LIMITS.actorConcurrency);
  room.saw(1000, now);
  assert.equal(room.calls(now), LIMITS.actorConcurrency);
  room.saw(8 * MiB, now);
  assert.equal(room.calls(now), LIMITS.actorResultsBytes / (8 * MiB));
  room.saw(1 * MiB, now);
  assert.equal(room.calls(now), LIMITS.actorResultsBytes / (8 * MiB));
  room.saw(72 * MiB, now);
  assert.equal(room.calls(now), 1);
});

test('large results are forgotten when none has come for as long as deaths count', () => {
  let time = 0;
  const now = () => time;
  const room = new ResultBudget();
  room.saw(8 * MiB, now);
  time = LIMITS.restartWindowMs;
  assert.ok(room.calls(now) < LIMITS.actorConcurrency, 'it is remembered');
  room.saw(5 * MiB, now);
  time += LIMITS.restartWindowMs;
  assert.ok(room.calls(now) < LIMITS.actorConcurrency, 'one of about that size counts');
  time += 1;
  assert.equal(room.calls(now), LIMITS.actorConcurrency);
});
