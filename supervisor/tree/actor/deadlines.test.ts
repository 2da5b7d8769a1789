import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { Deadlines, type Due } from './deadlines.ts';

beforeEach(() => mock.timers.enable({ apis: ['setInterval'] }));
afterEach(() => mock.timers.reset());

function setUp() {
  const state = { now: 1000, expired: [] as string[] };
  const deadlines = new Deadlines(() => state.now);
  const add = (name: string, inMs: number) => {
    const expire = () => void state.expired.push(name);
    const due: Due = { deadline: state.now + inMs, expire, previous: null, next: null };
    deadlines.add(due);
    return due;
  };
  const look = (ms: number) => {
    state.now += ms;
    mock.timers.tick(20);
  };
  return { state, deadlines, add, look };
}

test('what is due expires at the next look, once, and the others wait', () => {
  const { state, add, look } = setUp();
  add('soon', 15);
  add('later', 100);
  look(20);
  look(20);
  assert.deepEqual(state.expired, ['soon']);
});

test('after a pause of this process answers that have arrived are read before anything expires', () => {
  const { state, deadlines, add, look } = setUp();
  const answered = add('answered', 5000);
  add('silent', 5000);
  look(10_000);
  assert.deepEqual(state.expired, []);
  deadlines.delete(answered);
  look(20);
  assert.deepEqual(state.expired, ['silent']);
});

test('a process that is late at every look still lets what is due expire', () => {
  const { state, add, look } = setUp();
  add('due', 100);
  look(1000);
  look(1000);
  assert.deepEqual(state.expired, ['due']);
});
