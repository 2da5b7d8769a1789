import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { PoisonMemory } from './poison.ts';

const call = (name: string) => ({ fingerprint: () => name });

test('a call that took the actor down twice, alone, is refused; others are not', () => {
  const memory = new PoisonMemory();
  memory.died([call('bad')]);
  assert.equal(memory.refuses(call('bad')), false);
  memory.died([call('bad')]);
  assert.equal(memory.refuses(call('bad')), true);
  assert.equal(memory.refuses(call('good')), false);
});

test('a death with several calls in flight blames none, but makes the actor careful', () => {
  const memory = new PoisonMemory();
  for (let n = 0; n < 3; n++) memory.died([call('a'), call('b')]);
  assert.equal(memory.refuses(call('a')), false);
  assert.equal(memory.careful, true);
});

test('an actor is careful until enough calls have ended well', () => {
  const memory = new PoisonMemory();
  memory.died([call('a')]);
  let survived = 0;
  while (memory.careful) {
    memory.survived();
    survived++;
  }
  assert.ok(survived > 1 && survived < 1000);
});

test('a new version starts with a clean slate', () => {
  const memory = new PoisonMemory();
  memory.died([call('bad')]);
  memory.died([call('bad')]);
  memory.forget();
  assert.equal(memory.refuses(call('bad')), false);
  assert.equal(memory.careful, false);
});

test('the memory is bounded: the oldest death is forgotten first', () => {
  const memory = new PoisonMemory();
  for (let n = 0; n <= LIMITS.poisonCalls; n++) {
    memory.died([call(`call-${n}`)]);
    memory.died([call(`call-${n}`)]);
  }
  assert.equal(memory.refuses(call('call-0')), false);
  assert.equal(memory.refuses(call(`call-${LIMITS.poisonCalls}`)), true);
});
