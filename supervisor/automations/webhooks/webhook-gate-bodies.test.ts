import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { type ArrivingBody, UnverifiedBodies } from './webhook-gate.ts';

function setUp() {
  const clock = { now: 1000 };
  const bodies = new UnverifiedBodies(() => clock.now);
  const cut: string[] = [];
  /** A body that has brought so many bytes, which are taken from the room. */
  const begin = (name: string, bytes = 0): ArrivingBody & { bring(more: number): boolean } => {
    let received = 0;
    const body = {
      received: () => received,
      cutOff: () => {
        cut.push(name);
        bodies.give(received);
        received = 0;
      },
      bring: (more: number) => {
        const isTaken = bodies.take(more);
        if (isTaken) received += more;
        return isTaken;
      },
    };
    bodies.enter(body);
    body.bring(bytes);
    return body;
  };
  const fill = (names: string, bytes: number) => {
    for (let i = bodies.size; i < LIMITS.webhookUnverified; i++) begin(`${names} ${i}`, bytes);
  };
  return { clock, bodies, cut, begin, fill };
}

test('where all places are taken the slowest goes, and not the one that has just begun', () => {
  const { clock, cut, begin, fill } = setUp();
  begin('slow', 10);
  fill('fast', 1000);
  clock.now += 5 * LIMITS.webhookYoungMs;
  begin('new');
  assert.deepEqual(cut, ['slow']);
  clock.now += LIMITS.webhookYoungMs - 1;
  begin('newer');
  assert.equal(cut.length, 2);
  assert.ok(!cut.includes('new'));
});

test('a body without bytes after its time is dropped first', () => {
  const { clock, cut, begin, fill } = setUp();
  fill('fast', 1000);
  clock.now += LIMITS.webhookYoungMs;
  begin('silent');
  clock.now += LIMITS.webhookYoungMs;
  cut.length = 0;
  begin('next');
  assert.deepEqual(cut, ['silent']);
});

test('of new bodies, the one with the fewest bytes is dropped, and of equal ones the oldest', () => {
  const { cut, begin, fill } = setUp();
  begin('first', 1);
  begin('second', 1);
  fill('other', 100);
  begin('next', 100);
  begin('last', 100);
  assert.deepEqual(cut, ['first', 'second']);
});

test('room for bytes is made in the same way, and refused only if no arriving body holds any', () => {
  const { clock, bodies, cut, begin } = setUp();
  const most = LIMITS.webhookUnverifiedBytes;
  const whole = begin('whole', most / 2);
  bodies.leave(whole);
  begin('slow', most / 4);
  clock.now += 2 * LIMITS.webhookYoungMs;
  const genuine = begin('genuine');
  assert.ok(genuine.bring(most / 2));
  assert.deepEqual(cut, ['slow']);
  assert.equal(bodies.held, most);
  bodies.leave(genuine);
  assert.equal(bodies.take(1), false);
  bodies.give(most);
  assert.equal(bodies.held, 0);
  assert.equal(bodies.size, 0);
});
