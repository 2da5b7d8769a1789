import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { CrashRecord } from './crash-record.ts';

const MiB = 1024 * 1024;
const call = (name: string) => ({ settled: false, fingerprint: () => name });
const record = () => new CrashRecord(() => 0);
const now = () => 0;
const died = (memory: CrashRecord, ...names: string[]) => memory.suspect({ stuck: false, openCalls: names.map(call) });

test('a call that took the actor down twice, alone, is refused; others are not', () => {
  const memory = record();
  died(memory, 'bad');
  assert.equal(memory.refuses(call('bad')), false);
  died(memory, 'bad');
  assert.equal(memory.refuses(call('bad')), true);
  assert.equal(memory.refuses(call('good')), false);
});

test('a death with several calls in flight blames none, but makes the actor careful', () => {
  const memory = record();
  for (let n = 0; n < 3; n++) died(memory, 'a', 'b');
  assert.equal(memory.refuses(call('a')), false);
  assert.equal(memory.careful, true);
});

test('an actor is careful until enough calls have ended well', () => {
  const memory = record();
  died(memory, 'a');
  let survived = 0;
  while (memory.careful) {
    memory.succeeded(0, now);
    survived++;
  }
  assert.ok(survived > 1 && survived < 1000);
});

test('a new version starts with a clean slate', () => {
  const memory = record();
  died(memory, 'bad');
  died(memory, 'bad');
  memory.reset();
  assert.equal(memory.refuses(call('bad')), false);
  assert.equal(memory.careful, false);
});

test('the memory is bounded: the oldest death is forgotten first', () => {
  const memory = record();
  for (let n = 0; n <= LIMITS.crashingCalls; n++) {
    died(memory, `call-${n}`);
    died(memory, `call-${n}`);
  }
  assert.equal(memory.refuses(call('call-0')), false);
  assert.equal(memory.refuses(call(`call-${LIMITS.crashingCalls}`)), true);
});

test('the larger the results, the fewer calls at a time; never none', () => {
  const memory = record();
  assert.equal(memory.callsAtOnce(LIMITS.actorConcurrency, now), LIMITS.actorConcurrency);
  memory.succeeded(1000, now);
  assert.equal(memory.callsAtOnce(LIMITS.actorConcurrency, now), LIMITS.actorConcurrency);
  memory.succeeded(8 * MiB, now);
  assert.equal(memory.callsAtOnce(LIMITS.actorConcurrency, now), LIMITS.actorResultsBytes / (8 * MiB));
  memory.succeeded(1 * MiB, now);
  assert.equal(memory.callsAtOnce(LIMITS.actorConcurrency, now), LIMITS.actorResultsBytes / (8 * MiB));
  memory.succeeded(72 * MiB, now);
  assert.equal(memory.callsAtOnce(LIMITS.actorConcurrency, now), 1);
});

test('large results are forgotten when none has come for the time that deaths count', () => {
  let time = 0;
  const now = () => time;
  const memory = record();
  memory.succeeded(8 * MiB, now);
  time = LIMITS.restartWindowMs;
  assert.ok(memory.callsAtOnce(LIMITS.actorConcurrency, now) < LIMITS.actorConcurrency, 'it is remembered');
  memory.succeeded(5 * MiB, now);
  time += LIMITS.restartWindowMs;
  assert.ok(
    memory.callsAtOnce(LIMITS.actorConcurrency, now) < LIMITS.actorConcurrency,
    'one of about that size counts',
  );
  time += 1;
  assert.equal(memory.callsAtOnce(LIMITS.actorConcurrency, now), LIMITS.actorConcurrency);
});
