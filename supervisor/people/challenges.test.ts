/** Challenges of passkeys: one answer each, of the browser that asked, in time, and not too many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Challenges, type Purpose } from './challenges.ts';

const SIGN_IN: Purpose = { to: 'sign-in' };
const ASKED = { browser: 'one', network: '192.0.2.1' };

test('a challenge is taken once, by the browser that got it, for what it was given', () => {
  const challenges = new Challenges(() => 0);
  const add: Purpose = { to: 'add', person: 'p_1', handle: 'AAAA' };
  const challenge = challenges.give(add, ASKED);
  assert.equal(challenges.take(challenge, 'another'), null);
  assert.equal(challenges.take(challenge, null), null);
  assert.deepEqual(challenges.take(challenge, 'one'), add);
  assert.equal(challenges.take(challenge, 'one'), null);
  assert.notEqual(challenges.give(add, ASKED), challenges.give(add, ASKED));
});

test('one that nobody answered in time is good no more, and is forgotten', () => {
  let now = 0;
  const challenges = new Challenges(() => now);
  const [first, second] = [challenges.give(SIGN_IN, ASKED), challenges.give(SIGN_IN, ASKED)];
  now = LIMITS.passkeyMs - 1;
  assert.deepEqual(challenges.take(first, 'one'), SIGN_IN);
  now = LIMITS.passkeyMs;
  assert.equal(challenges.take(second, 'one'), null);
  challenges.give(SIGN_IN, ASKED);
  now += LIMITS.passkeyMs;
  challenges.give(SIGN_IN, ASKED);
  assert.equal(challenges.size, 1);
});

test('who asks for very many takes none from others; all together have a limit', () => {
  const challenges = new Challenges(() => 0);
  const mine = challenges.give(SIGN_IN, ASKED);
  const flood = () => challenges.give(SIGN_IN, { browser: 'other', network: '198.51.100.1' });
  const oldest = flood();
  for (let count = 0; count < LIMITS.passkeyChallengesOfNetwork; count++) flood();
  assert.equal(challenges.size, LIMITS.passkeyChallengesOfNetwork + 1);
  assert.equal(challenges.take(oldest, 'other'), null);
  assert.deepEqual(challenges.take(mine, 'one'), SIGN_IN);
  for (let count = 0; count < LIMITS.passkeyChallenges; count++)
    challenges.give(SIGN_IN, { browser: 'one', network: `net ${count}` });
  assert.equal(challenges.size, LIMITS.passkeyChallenges);
});
