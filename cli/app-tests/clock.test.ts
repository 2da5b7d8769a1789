import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationOf, TestClock, timeOf } from './clock.ts';

test('durations are milliseconds or numbers with units', () => {
  const cases: [given: number | string, ms: number][] = [
    [0, 0],
    [1.4, 1],
    ['250ms', 250],
    ['1.5s', 1500],
    ['1h 30m', 5_400_000],
    ['2d3h', 183_600_000],
    [' 1 w ', 604_800_000],
  ];
  for (const [given, ms] of cases) assert.equal(durationOf(given), ms, String(given));
  for (const wrong of ['', '1', 'h', '1 hour', '-1h', -1, Number.NaN, Number.POSITIVE_INFINITY])
    assert.throws(() => durationOf(wrong), TypeError, String(wrong));
});

test('times are milliseconds, dates or texts', () => {
  assert.equal(timeOf('2026-01-05T18:00:00Z'), 1_767_636_000_000);
  assert.equal(timeOf(new Date(5)), 5);
  assert.throws(() => timeOf('tomorrow'), TypeError);
});

test('timers fire once, at their time, and not after they were cleared', () => {
  const clock = new TestClock(1000);
  const woken: string[] = [];
  clock.onChange(() => woken.push(`shows ${clock.now()}`));
  clock.setTimer(10, () => {
    woken.push('first');
    clock.setTimer(0, () => woken.push('second'));
  });
  clock.setTimer(10, () => woken.push('never'))();
  clock.moveTo(1009);
  clock.moveTo(1010);
  clock.moveTo(1010);
  clock.moveTo(1011);
  assert.deepEqual(woken, ['shows 1009', 'shows 1010', 'first', 'shows 1010', 'second', 'shows 1011']);
});
