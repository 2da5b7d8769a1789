import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { WebhookGate } from './webhook-gate.ts';

const WRONG = new SvcError('UNAUTHORIZED', 'wrong');

function setUp() {
  const clock = { now: 1000 };
  const gate = new WebhookGate(() => clock.now);
  /** The code of what is thrown, and how many seconds later to come back; null when nothing is. */
  const refusal = (run: () => unknown): [code: string, retryAfter: string | undefined] | null => {
    try {
      run();
      return null;
    } catch (error) {
      assert.ok(error instanceof SvcError, String(error));
      return [error.code, error.headers?.['retry-after']];
    }
  };
  const fire = (slug = 'a') => gate.enter(slug).release();
  return { clock, gate, refusal, fire };
}

test('one turn at a time for each slug, given back once by its owner', () => {
  const { gate, refusal } = setUp();
  const first = gate.enter('a');
  assert.deepEqual(
    refusal(() => gate.enter('a')),
    ['CONFLICT', undefined],
  );
  gate.enter('b');
  first.release();
  const second = gate.enter('a');
  // The first one ends again: the second one's mark stays.
  first.release();
  assert.deepEqual(refusal(() => gate.enter('a'))?.[0], 'CONFLICT');
  second.release();
  gate.enter('a').release();
});

test('a window opens with its first fire, takes 60, and says when it is over', () => {
  const { clock, refusal, fire } = setUp();
  for (let i = 0; i < LIMITS.webhookFires; i++) {
    fire();
    clock.now += 10;
  }
  assert.deepEqual(refusal(fire), ['RATE_LIMITED', '60']);
  fire('b');
  clock.now = 1000 + LIMITS.webhookWindowMs - 1;
  assert.deepEqual(refusal(fire), ['RATE_LIMITED', '1']);
  clock.now += 1;
  for (let i = 0; i < LIMITS.webhookFires; i++) fire();
  assert.deepEqual(refusal(fire), ['RATE_LIMITED', '60']);
});

test('the window is checked before the turn, and refused requests are not counted', () => {
  const { gate, refusal, fire } = setUp();
  const held = gate.enter('a');
  for (let i = 0; i < 2 * LIMITS.webhookFires; i++) assert.equal(refusal(fire)?.[0], 'CONFLICT');
  held.release();
  for (let i = 2; i < LIMITS.webhookFires; i++) fire();
  gate.enter('a');
  assert.equal(refusal(fire)?.[0], 'RATE_LIMITED');
});

test('failures have a separate window, and never refuse a verified sender', () => {
  const { clock, gate, fire } = setUp();
  for (let i = 0; i < LIMITS.webhookFailures; i++) assert.equal(gate.fail('a', WRONG), WRONG);
  const refused = gate.fail('a', WRONG);
  assert.deepEqual([refused.code, refused.headers], ['RATE_LIMITED', { 'retry-after': '60' }]);
  assert.equal(gate.fail('b', WRONG), WRONG);
  fire();
  clock.now += LIMITS.webhookWindowMs;
  assert.equal(gate.fail('a', WRONG), WRONG);
});

test('slugs that are gone are forgotten, but not while their run is under way', () => {
  const { gate, refusal, fire } = setUp();
  const held = gate.enter('a');
  const arriving = { received: () => 0, cutOff: () => {} };
  gate.unverified('b').enter(arriving);
  gate.unverified('b').take(1);
  fire('c');
  fire('d');
  gate.retain((slug) => slug === 'd');
  assert.equal(gate.size, 3);
  // The version came back before the run had ended: still one at a time.
  assert.equal(refusal(() => gate.enter('a'))?.[0], 'CONFLICT');
  held.release();
  const { size } = gate;
  gate.unverified('b').leave(arriving);
  gate.retain((slug) => slug === 'd');
  assert.equal(gate.size, size - 1, 'b has bytes');
  gate.unverified('b').give(1);
  gate.retain((slug) => slug === 'd');
  assert.equal(gate.size, 1);
  gate.enter('a');
});

test('counts are dropped with their windows', () => {
  const { clock, gate, fire } = setUp();
  for (let i = 0; i < 1000; i++) fire(`slug-${i}`);
  const held = gate.enter('held');
  gate.fail('late', WRONG);
  assert.equal(gate.size, 1002);
  clock.now += LIMITS.webhookWindowMs - 1;
  gate.fail('later', WRONG);
  assert.equal(gate.size, 1003);
  clock.now += 1;
  fire('next');
  assert.equal(gate.size, 3, 'held, later and next are left');
  held.release();
  clock.now += LIMITS.webhookWindowMs;
  fire('next but one');
  assert.equal(gate.size, 1);
});
