/** Schedules as forms show them: each expression that a form can say comes back as it was, and others stay as they are. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exprOf, newSchedule, nextTimes, scheduleOf, triggerOf, withSchedules } from './schedule.ts';

const cron = (expr: string) => ({ kind: 'cron', expr }) as const;

test('an expression is shown by the frequency that says it, and stays the same', () => {
  const shown: [string, string, string?][] = [
    ['15 * * * *', 'hour'],
    ['30 7 * * *', 'day'],
    ['0 9 * * MON-FRI', 'week'],
    ['0 9 * * MON,WED', 'week'],
    ['5 18 * * 1-3,6', 'week', '5 18 * * MON-WED,SAT'],
    ['0 0 * * 0', 'week', '0 0 * * SUN'],
    ['*/15 * * * *', 'cron'],
    ['0 9 1 * *', 'cron'],
    ['0 9 * * MON#1', 'cron'],
    ['0 9 * * FRI-MON', 'cron'],
    ['0 * * * MON', 'cron'],
    ['0 24 * * *', 'cron'],
    ['0 0 9 * * *', 'cron'],
    ['@daily', 'cron'],
  ];
  for (const [expr, frequency, again = expr] of shown) {
    const schedule = scheduleOf(cron(expr));
    assert.equal(schedule.frequency, frequency, expr);
    assert.equal(exprOf(schedule), again);
  }
});

test('a trigger keeps its zone and whether it catches up, and an empty zone is left out', () => {
  const whole = { ...cron('0 9 * * *'), tz: 'Europe/Lisbon', catchUp: true };
  assert.deepEqual(triggerOf(scheduleOf(whole)), whole);
  assert.deepEqual(triggerOf({ ...newSchedule(' '), frequency: 'hour', minute: 5 }), cron('5 * * * *'));
});

test('the next times are those at which the gateway fires, also where the clocks change', () => {
  const from = Date.parse('2026-03-28T12:00:00Z');
  const shown = nextTimes({ expr: '30 2 * * *', tz: 'Europe/Berlin' }, from, 2).map((at) => new Date(at).toISOString());
  assert.deepEqual(shown, ['2026-03-29T01:00:00.000Z', '2026-03-30T00:30:00.000Z']);
  assert.throws(() => nextTimes({ expr: '0 9 * *' }, from, 5), /no cron expression/);
  assert.throws(() => nextTimes({ expr: '0 9 * * *', tz: 'Mars/Olympus' }, from, 5), /no time zone/);
  assert.throws(() => nextTimes({ expr: '0 0 30 2 *', tz: 'UTC' }, from, 5), /never fires/);
});

test('other members and the webhook of a file stay when its schedules are replaced', () => {
  const hook = { kind: 'webhook', id: 'a'.repeat(24), secretHash: 'b'.repeat(64) };
  const file = { name: 'One', own: [1], triggers: [cron('0 1 * * *'), hook, cron('0 2 * * *')] };
  assert.deepEqual(JSON.parse(withSchedules(JSON.stringify(file), [cron('0 3 * * *')])), {
    ...file,
    triggers: [cron('0 3 * * *'), hook],
  });
  assert.deepEqual(JSON.parse(withSchedules('{"name": "Old", "trigger": {"kind": "cron", "expr": "0 1 * * *"}}', [])), {
    name: 'Old',
    triggers: [],
  });
});
