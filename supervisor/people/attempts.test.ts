import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Attempts } from './attempts.ts';

const { attemptsOfPerson, attemptsOfAddress, attemptWaitMs, attemptsWindowMs, attemptsKept } = LIMITS;
const refused = { code: 'RATE_LIMITED' };

function setUp() {
  const clock = { now: 0 };
  return { clock, attempts: new Attempts(() => clock.now) };
}

test('a name is refused after so many failures, from any address, and then for twice as long each time', () => {
  const { clock, attempts } = setUp();
  for (let tries = 0; tries < attemptsOfPerson; tries++) attempts.begin('ada', `192.0.2.${tries}`);
  for (let wait = attemptWaitMs; wait < attemptsWindowMs; wait *= 2) {
    assert.throws(() => attempts.begin('ada', '198.51.100.1'), refused);
    clock.now += wait - 1;
    assert.throws(() => attempts.begin('ada', '198.51.100.1'), refused);
    clock.now += 1;
    attempts.begin('ada', '198.51.100.1');
  }
  attempts.begin('eve', '198.51.100.1');
  clock.now += attemptsWindowMs;
  attempts.begin('ada', '198.51.100.1');
  attempts.begin('ada', '198.51.100.1');
});

test('an address is refused after so many failures with any name', () => {
  const { attempts } = setUp();
  for (let tries = 0; tries < attemptsOfAddress; tries++) attempts.begin(`name${tries}`, '192.0.2.1');
  assert.throws(() => attempts.begin('another', '192.0.2.1'), refused);
  attempts.begin('another', '192.0.2.2');
});

test('who signs in forgets the failures of the name, and takes back one of the address', () => {
  const { attempts } = setUp();
  for (let tries = 0; tries < 100; tries++) {
    attempts.begin('ada', '192.0.2.1');
    attempts.succeeded('ada', '192.0.2.1');
  }
  for (let tries = 1; tries < attemptsOfAddress; tries++) attempts.begin(`name${tries}`, '192.0.2.1');
  attempts.begin('ada', '192.0.2.1');
  attempts.succeeded('ada', '192.0.2.1');
  attempts.begin('eve', '192.0.2.1');
  assert.throws(() => attempts.begin('eve', '192.0.2.1'), refused);
});

test('a refusal says how long to wait, in whole seconds', () => {
  const { attempts } = setUp();
  for (let tries = 0; tries < attemptsOfPerson; tries++) attempts.begin('ada', `192.0.2.${tries}`);
  assert.throws(
    () => attempts.begin('ada', '192.0.2.1'),
    (error: { headers?: Record<string, string> }) => error.headers?.['retry-after'] === String(attemptWaitMs / 1000),
  );
});

test('so many names and addresses are remembered, and no more', () => {
  const { attempts } = setUp();
  for (let tries = 0; tries < attemptsKept; tries++) attempts.begin(`name${tries}`, `address${tries}`);
  assert.equal(attempts.size <= attemptsKept, true);
});
