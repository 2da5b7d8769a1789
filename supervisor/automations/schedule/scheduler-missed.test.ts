import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CronTrigger } from '../../../protocol/automations/automation.ts';
import { CronTimes } from '../../../protocol/automations/cron-times.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { ScriptedClock } from '../../../testing/scripted-clock.ts';
import { type Schedulable, Scheduler } from './scheduler.ts';

const HOUR = 3_600_000;

/** A gateway that starts with these automations. `last` is when each fired last. */
function setUp(start: string, automations: Record<string, CronTrigger[]>, last: Record<string, string | Error>) {
  const clock = new ScriptedClock(start);
  const fired: string[] = [];
  const watched: string[] = [];
  const asked: string[] = [];
  const warnings: string[] = [];
  const scheduler = new Scheduler<Schedulable>({
    now: () => clock.now,
    setTimer: clock.setTimer,
    yieldTurn: clock.yieldTurn,
    fire: ({ ref }, at) => void fired.push(`${ref} ${new Date(at).toISOString().slice(5, 16).replace('T', ' ')}`),
    lastFired: async ({ ref }) => {
      asked.push(ref);
      const at = last[ref];
      if (at instanceof Error) throw at;
      return at === undefined ? null : Date.parse(at);
    },
    watchedFrom: ({ ref }) => void watched.push(ref),
    log: (_level, message) => void warnings.push(message),
    times: new CronTimes('UTC'),
    elapsed: () => 0,
  });
  for (const [ref, triggers] of Object.entries(automations))
    scheduler.reconcile(ref, [{ ref, manifest: { enabled: true, triggers } }]);
  scheduler.start();
  return { clock, fired, watched, asked, warnings, scheduler };
}

const hourly: CronTrigger = { kind: 'cron', expr: '0 * * * *' };
const caughtUp: CronTrigger = { ...hourly, catchUp: true };

test('a fire missed while the gateway was down runs once with catchUp, at the last missed time', async () => {
  const { clock, fired } = setUp(
    '2026-06-05T10:30:00Z',
    { 'a/catches': [caughtUp], 'a/skips': [hourly], 'a/fresh': [caughtUp], 'a/missed-none': [caughtUp] },
    {
      'a/catches': '2026-06-01T10:00:00Z',
      'a/skips': '2026-06-01T10:00:00Z',
      'a/missed-none': '2026-06-05T10:00:00Z',
    },
  );
  await clock.settle();
  assert.deepEqual(fired.splice(0), ['a/catches 06-05 10:00']);
  await clock.pass(HOUR);
  assert.deepEqual(
    fired,
    ['a/catches', 'a/skips', 'a/fresh', 'a/missed-none'].map((ref) => `${ref} 06-05 11:00`),
  );
});

test('several triggers of one automation that missed fires run it once', async () => {
  const { clock, fired } = setUp(
    '2026-06-05T10:40:00Z',
    { 'a/x': [caughtUp, { ...caughtUp, expr: '30 * * * *' }, { ...caughtUp, expr: '0 0 0 3 6 *' }] },
    { 'a/x': '2026-06-01T10:00:00Z' },
  );
  await clock.settle();
  assert.deepEqual(fired, ['a/x 06-05 10:30']);
});

test('a quick restart over a fire makes it late, not missed; and only automations that it may concern are looked up', async () => {
  const { clock, fired, asked } = setUp(
    '2026-06-05T11:00:20Z',
    { 'a/x': [hourly], 'a/done': [hourly], 'a/other': [{ ...hourly, expr: '30 * * * *' }], 'a/new': [hourly] },
    { 'a/x': '2026-06-05T10:00:00Z', 'a/done': '2026-06-05T11:00:00Z', 'a/other': '2026-06-05T10:30:00Z' },
  );
  await clock.settle();
  assert.deepEqual(fired, ['a/x 06-05 11:00']);
  assert.deepEqual(asked.sort(), ['a/done', 'a/new', 'a/x']);
});

test('a restart that takes longer than a fire may be late misses it', async () => {
  const late = new Date(Date.parse('2026-06-05T11:00:00Z') + LIMITS.cronLateMs + 1).toISOString();
  const { clock, fired } = setUp(late, { 'a/x': [hourly] }, { 'a/x': '2026-06-05T10:00:00Z' });
  await clock.settle();
  assert.deepEqual(fired, []);
});

test('a trigger that is registered later has missed nothing, and is recorded as watched from then on', async () => {
  const { clock, fired, watched, asked, scheduler } = setUp(
    '2026-06-05T10:30:00Z',
    {},
    { 'a/x': '2026-06-01T10:00:00Z' },
  );
  scheduler.reconcile('a', [{ ref: 'a/x', manifest: { enabled: true, triggers: [caughtUp] } }]);
  scheduler.reconcile('a', [{ ref: 'a/x', manifest: { enabled: true, triggers: [caughtUp, hourly] } }]);
  await clock.settle();
  assert.deepEqual([fired, asked, watched], [[], [], ['a/x']]);
});

test('an automation that is gone by the time of the answer is not run', async () => {
  const { clock, fired, scheduler } = setUp(
    '2026-06-05T10:30:00Z',
    { 'a/x': [caughtUp] },
    { 'a/x': '2026-06-01T10:00:00Z' },
  );
  scheduler.reconcile('a/x', []);
  await clock.settle();
  assert.deepEqual(fired, []);
});

test('if the last fire cannot be read, no fire is made up, a warning says so, and the others are not affected', async () => {
  const { clock, fired, warnings } = setUp(
    '2026-06-05T10:30:00Z',
    { 'a/bad': [caughtUp], 'a/invalid': [{ ...caughtUp, expr: 'x' }], 'a/good': [caughtUp] },
    { 'a/bad': new Error('The disk is full.'), 'a/good': '2026-06-01T10:00:00Z', 'a/invalid': '2026-06-01T10:00:00Z' },
  );
  await clock.pass(HOUR);
  assert.deepEqual(fired, ['a/good 06-05 10:00', 'a/bad 06-05 11:00', 'a/good 06-05 11:00']);
  assert.match(warnings.join('\n'), /a\/bad fired last could not be read.*The disk is full/);
});

test('a thousand that missed something are asked about a few at a time', async () => {
  const automations = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`app${i}/x`, [caughtUp]]));
  const last = Object.fromEntries(Object.keys(automations).map((ref) => [ref, '2026-06-01T10:00:00Z']));
  const { clock, fired, asked } = setUp('2026-06-05T10:30:00Z', automations, last);
  while (clock.turnsWaiting > 0) clock.turn();
  assert.equal(asked.length, LIMITS.cronLookups);
  await clock.settle();
  assert.equal(fired.length, 1000);
});

/** The same gateway after its clock was set back while it was down. `ahead` is what the ledger has beyond the new time. */
function setBack(start: string, triggers: CronTrigger[], ahead: string) {
  const clock = new ScriptedClock(start);
  const fired: string[] = [];
  const asked: string[] = [];
  const scheduler = new Scheduler<Schedulable>({
    now: () => clock.now,
    setTimer: clock.setTimer,
    yieldTurn: clock.yieldTurn,
    fire: (_, at) => void fired.push(new Date(at).toISOString().slice(5, 16).replace('T', ' ')),
    lastFired: async ({ ref }) => {
      asked.push(ref);
      return Date.parse(ahead);
    },
    watchedFrom: () => {},
    log: () => {},
    times: new CronTimes('UTC'),
    elapsed: () => 0,
  });
  const automation = (enabled: boolean) => ({ ref: 'a/x', manifest: { enabled, triggers } });
  return { clock, fired, asked, scheduler, automation, ahead: new Map([['a/x', Date.parse(ahead)]]) };
}

for (const trigger of [hourly, caughtUp]) {
  const name = trigger.catchUp ? 'with' : 'without';
  test(`after a restart with the clock set back, past fires do not repeat, ${name} catchUp`, async () => {
    const set = setBack('2026-06-05T08:30:00Z', [trigger], '2026-06-05T11:00:00Z');
    set.scheduler.reconcile('a', [set.automation(true)]);
    set.scheduler.start(set.ahead);
    assert.equal(set.scheduler.nextRunAt('a/x'), Date.parse('2026-06-05T12:00:00Z'));
    await set.clock.pass(4 * HOUR);
    assert.deepEqual([set.fired, set.asked], [['06-05 12:00'], []]);
  });

  test(`past fires do not repeat when the clock was set back by a moment, ${name} catchUp`, async () => {
    const set = setBack('2026-06-05T10:59:50Z', [trigger], '2026-06-05T11:00:00Z');
    set.scheduler.reconcile('a', [set.automation(true)]);
    set.scheduler.start(set.ahead);
    await set.clock.pass(HOUR + 10_000);
    assert.deepEqual(set.fired, ['06-05 12:00']);
  });
}

test('an automation that is switched on later does not repeat them either, but a new app with the id of a removed one fires', async () => {
  const set = setBack('2026-06-05T08:30:00Z', [hourly], '2026-06-05T11:00:00Z');
  set.scheduler.reconcile('a', [set.automation(false)]);
  set.scheduler.start(set.ahead);
  set.scheduler.reconcile('a', [set.automation(true)]);
  assert.equal(set.scheduler.nextRunAt('a/x'), Date.parse('2026-06-05T12:00:00Z'));
  set.scheduler.reconcile('a', []);
  set.scheduler.reconcile('a', [set.automation(true)]);
  assert.equal(set.scheduler.nextRunAt('a/x'), Date.parse('2026-06-05T09:00:00Z'));
});

test('a clock that was wrong by more than a day silences nothing after a restart', async () => {
  const set = setBack('2026-06-05T08:30:00Z', [hourly], '2026-06-07T11:00:00Z');
  set.scheduler.reconcile('a', [set.automation(true)]);
  set.scheduler.start(set.ahead);
  await set.clock.pass(HOUR);
  assert.deepEqual(set.fired, ['06-05 09:00']);
});

test('what comes from another node has missed what a start would have, and what is registered has not', async () => {
  const last = { 'moved/late': '2026-06-05T08:00:00Z', 'moved/on-time': '2026-06-05T10:00:00Z' };
  const { clock, fired, watched, scheduler } = setUp('2026-06-05T10:30:00Z', { 'here/one': [caughtUp] }, last);
  await clock.settle();
  const of = (ref: string, triggers = [caughtUp]) => ({ ref, manifest: { enabled: true, triggers } });
  const moved = [of('moved/late'), of('moved/on-time'), of('moved/never'), of('moved/skips', [hourly])];
  scheduler.takeOver(
    new Map([
      ['moved', moved],
      ['none', []],
    ]),
    new Map(Object.entries(last).map(([ref, at]) => [ref, Date.parse(at)])),
  );
  scheduler.reconcile('new', [of('new/one')]);
  await clock.settle();
  assert.deepEqual(fired.splice(0), ['moved/late 06-05 10:00']);
  assert.deepEqual(watched, ['new/one']);
  scheduler.reconcile('moved', []);
  assert.equal(scheduler.nextRunAt('moved/late'), null);
  await clock.pass(HOUR);
  assert.deepEqual(fired.sort(), ['here/one 06-05 11:00', 'new/one 06-05 11:00']);
});
