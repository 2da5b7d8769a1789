import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { startGraceTimer } from './grace-timer.ts';

beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
afterEach(() => mock.timers.reset());

function setUp(ms: number) {
  const state = { now: 0, gaveUpAt: [] as number[] };
  const stop = startGraceTimer(
    ms,
    () => state.now,
    () => state.gaveUpAt.push(state.now),
  );
  /** Time goes by while this process runs. */
  const run = (length: number) => {
    for (let left = length; left > 0; left -= 10) {
      state.now += 10;
      mock.timers.tick(10);
    }
  };
  /** Time goes by while it does not: the timer fires once, afterwards. */
  const sleep = (length: number) => {
    state.now += length;
    mock.timers.tick(ms / 4);
  };
  return { state, stop, run, sleep };
}

test('gives up once when the time is over', () => {
  const { state, run } = setUp(1000);
  run(5000);
  assert.deepEqual(state.gaveUpAt, [1000]);
});

test('does not give up once it was told to stop', () => {
  const { state, run, stop } = setUp(1000);
  run(900);
  stop();
  run(5000);
  assert.deepEqual(state.gaveUpAt, []);
});

for (const before of [0, 500, 990]) {
  test(`waits the whole time again after a pause of its own process that began after ${before} ms`, () => {
    const { state, run, sleep } = setUp(1000);
    run(before);
    sleep(10_000);
    const woke = state.now;
    run(5000);
    assert.deepEqual(state.gaveUpAt, [woke + 1000]);
  });
}
