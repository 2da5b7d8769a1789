/** The calendar's fires: in order, each once, within their bounds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Trigger } from '../../../protocol/automations/automation.ts';
import { CronTimes } from '../../../protocol/automations/cron-times.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { LiveAutomation } from '../catalog.ts';
import { upcomingFires } from './upcoming.ts';

const NOW = Date.UTC(2026, 0, 5, 10, 30);
const times = new CronTimes('UTC');
const cron = (expr: string): Trigger => ({ kind: 'cron', expr });
const automation = (id: string, triggers: Trigger[], enabled = true) =>
  ({ ref: `app/${id}`, app: 'app', id, manifest: { name: id, enabled, triggers } }) as unknown as LiveAutomation;

test('fires of the next days come in order, and a time that two triggers name is one', async () => {
  const { rows, more } = await upcomingFires(
    [automation('daily', [cron('0 9 * * *'), cron('0 9 * * 2'), cron('0 12 * * 1')])],
    times,
    NOW,
    2,
  );
  assert.equal(more, false);
  assert.deepEqual(
    rows.map(({ fires, more }) => [fires.map((at) => new Date(at).toISOString().slice(5, 16)), more]),
    [[['01-05T12:00', '01-06T09:00', '01-07T09:00'], false]],
  );
});

test('automations that are off, have no schedule or do not fire by then are left out', async () => {
  const all = [
    automation('off', [cron('0 9 * * *')], false),
    automation('hook', [{ kind: 'webhook', pending: true }]),
    automation('yearly', [cron('0 0 1 7 *')]),
  ];
  assert.deepEqual(await upcomingFires(all, times, NOW, 7), { rows: [], more: false });
});

test('one that fires each minute has its first fires only, and many together are cut', async () => {
  const minutely = automation('minutely', [cron('* * * * *')]);
  const { rows, more } = await upcomingFires([minutely], times, NOW, 7);
  assert.equal(rows[0]?.fires.length, LIMITS.upcomingFires);
  assert.deepEqual([rows[0]?.more, more], [true, false]);
  const many = await upcomingFires(Array(100).fill(minutely), times, NOW, 7);
  assert.equal(
    many.rows.reduce((sum, { fires }) => sum + fires.length, 0),
    LIMITS.upcomingFiresTotal,
  );
  assert.equal(many.more, true);
});

test('a time zone or an expression that is not understood leaves out its trigger alone', async () => {
  const lost: Trigger = { kind: 'cron', expr: '0 9 * * *', tz: 'Mars/Olympus' };
  const all = [
    automation('lost', [lost]),
    automation('half', [lost, cron('0 12 * * 1')]),
    automation('garbage', [cron('at noon')]),
    automation('daily', [cron('0 9 * * *')]),
  ];
  const { rows } = await upcomingFires(all, times, NOW, 1);
  assert.deepEqual(
    rows.map(({ id, fires }) => [id, fires.length]),
    [
      ['half', 1],
      ['daily', 1],
    ],
  );
});
