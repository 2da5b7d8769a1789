import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { CronTrigger } from '../../../protocol/automations/automation.ts';
import { CronTimes } from '../../../protocol/automations/cron-times.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { Random } from '../../../testing/random.ts';
import { ScriptedClock } from '../../../testing/scripted-clock.ts';
import { type Schedulable, Scheduler, type SchedulerOptions } from './scheduler.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MANY = 10_000;
const MiB = 2 ** 20;

function cron(expr: string, rest: Partial<CronTrigger> = {}): CronTrigger {
  return { kind: 'cron', expr, ...rest };
}

function automation(ref: string, triggers: CronTrigger[], enabled = true): Schedulable {
  return { ref, manifest: { enabled, triggers } };
}

/** A scheduler that runs at a time. `fired` has what it fired, as `ref at time`. */
function setUp(start: string, options: Partial<SchedulerOptions<Schedulable>> = {}) {
  const clock = new ScriptedClock(start);
  const fired: string[] = [];
  const watched: string[] = [];
  const warnings: string[] = [];
  const scheduler = new Scheduler<Schedulable>({
    now: () => clock.now,
    setTimer: clock.setTimer,
    yieldTurn: clock.yieldTurn,
    fire: ({ ref }, at) => void fired.push(`${ref} ${time(at)}`),
    lastFired: async () => null,
    watchedFrom: ({ ref }, at) => void watched.push(`${ref} ${time(at)}`),
    log: (_level, message) => void warnings.push(message),
    times: new CronTimes('UTC'),
    elapsed: () => 0,
    ...options,
  });
  return { clock, fired, watched, warnings, scheduler };
}

function time(at: number | null): string {
  return at === null ? 'never' : new Date(at).toISOString().slice(5, 19).replace('T', ' ');
}

test('every enabled cron trigger fires at its times, each at its scheduled time', async () => {
  const { clock, fired, scheduler } = setUp('2026-06-01T10:00:30Z');
  scheduler.start();
  scheduler.reconcile('todos', [
    automation('todos/digest', [cron('*/20 * * * *'), cron('5 10 * * *')]),
    automation('todos/off', [cron('* * * * *')], false),
    automation('todos/none', []),
  ]);
  assert.equal(scheduler.size, 2);
  assert.equal(time(scheduler.nextRunAt('todos/digest')), '06-01 10:05:00');
  await clock.pass(HOUR);
  assert.deepEqual(fired, [
    'todos/digest 06-01 10:05:00',
    'todos/digest 06-01 10:20:00',
    'todos/digest 06-01 10:40:00',
    'todos/digest 06-01 11:00:00',
  ]);
  assert.equal(scheduler.nextRunAt('todos/off'), null);
  assert.equal(scheduler.nextRunAt('todos/unknown'), null);
});

test('a time that two triggers have in common, or a trigger that stands there twice, fires once', async () => {
  const { clock, fired, scheduler } = setUp('2026-06-01T10:00:30Z');
  scheduler.start();
  scheduler.reconcile('a', [automation('a/x', [cron('*/30 * * * *'), cron('0 * * * *'), cron('0 * * * *')])]);
  assert.equal(scheduler.size, 2);
  await clock.pass(HOUR);
  assert.deepEqual(fired, ['a/x 06-01 10:30:00', 'a/x 06-01 11:00:00']);
});

test('over both changes of the clocks a daily time fires once a day and an interval at every interval', async () => {
  for (const [start, changed] of [
    ['2026-03-28T12:00:00Z', '03-29 01:00:00'],
    ['2026-10-24T12:00:00Z', '10-25 00:30:00'],
  ] as const) {
    const { clock, fired, scheduler } = setUp(start);
    const tz = 'Europe/Berlin';
    scheduler.start();
    scheduler.reconcile('a', [automation('a/daily', [cron('30 2 * * *', { tz })])]);
    scheduler.reconcile('b', [automation('b/often', [cron('*/15 * * * *', { tz })])]);
    await clock.pass(DAY);
    assert.deepEqual(
      fired.filter((fire) => fire.startsWith('a/')),
      [`a/daily ${changed}`],
    );
    assert.equal(new Set(fired.filter((fire) => fire.startsWith('b/'))).size, 96);
    assert.equal(fired.length, 97);
  }
});

test('reconciling keeps the next time of unchanged triggers, drops removed ones and adds new ones', async () => {
  const { clock, fired, scheduler } = setUp('2026-06-01T10:00:00Z');
  scheduler.start();
  scheduler.reconcile('a', [
    automation('a/stays', [cron('0 11 * * *'), cron('0 12 * * *')]),
    automation('a/goes', [cron('0 11 * * *')]),
  ]);
  scheduler.reconcile('b', [automation('b/other', [cron('0 11 * * *')])]);
  const version2 = automation('a/stays', [cron('0 11 * * *'), cron('30 11 * * *')]);
  scheduler.reconcile('a', [version2, automation('a/new', [cron('0 11 * * *')])]);
  assert.equal(scheduler.size, 4);
  await clock.pass(3 * HOUR);
  assert.deepEqual(fired, [
    'a/stays 06-01 11:00:00',
    'b/other 06-01 11:00:00',
    'a/new 06-01 11:00:00',
    'a/stays 06-01 11:30:00',
  ]);
  scheduler.reconcile('a', [automation('a/stays', version2.manifest.triggers as CronTrigger[], false)]);
  scheduler.reconcile('b', []);
  assert.equal(scheduler.size, 0);
  assert.equal(clock.armed, false, 'with nothing to wait for there is no timer');
});

test('the automation fires as last registered, and registering it again repeats nothing', async () => {
  const given: Schedulable[] = [];
  const { clock, scheduler } = setUp('2026-06-01T10:00:00Z', { fire: (one) => void given.push(one) });
  scheduler.start();
  scheduler.reconcile('a', [automation('a/x', [cron('0 11 * * *')])]);
  const second = automation('a/x', [cron('0 11 * * *')]);
  scheduler.reconcile('a', [second]);
  await clock.pass(HOUR);
  scheduler.reconcile('a', [automation('a/x', [cron('0 11 * * *')])]);
  scheduler.reconcile('a', []);
  scheduler.reconcile('a', [automation('a/x', [cron('0 11 * * *')])]);
  await clock.pass(HOUR);
  assert.equal(given.length, 1);
  assert.equal(given[0], second);
});

test('a trigger that never fires again ends quietly, and an invalid one is reported and affects no other', async () => {
  const { clock, fired, warnings, scheduler } = setUp('2026-06-01T10:00:00Z');
  scheduler.start();
  scheduler.reconcile('a', [
    automation('a/bad', [cron('nonsense')]),
    automation('a/nowhere', [cron('0 11 * * *', { tz: 'Europe/Atlantis' })]),
    automation('a/never', [cron('0 0 30 2 *')]),
    automation('a/good', [cron('0 11 * * *')]),
  ]);
  await clock.pass(2 * HOUR);
  assert.deepEqual(fired, ['a/good 06-01 11:00:00']);
  assert.equal(warnings.length, 2);
  assert.match(warnings.join('\n'), /a\/nowhere does not fire at "0 11 \* \* \*"/);
  assert.equal(scheduler.nextRunAt('a/never'), null);
});

test('a machine that slept a little fires late, one that slept long skips to the next, or runs the last with catchUp', async () => {
  const { clock, fired, scheduler } = setUp('2026-06-01T10:00:00Z');
  scheduler.start();
  scheduler.reconcile('a', [
    automation('a/skips', [cron('15 * * * *')]),
    automation('a/catches', [cron('15 * * * *', { catchUp: true })]),
  ]);
  await clock.sleep(15 * MINUTE + LIMITS.cronLateMs);
  assert.deepEqual(fired.splice(0), ['a/skips 06-01 10:15:00', 'a/catches 06-01 10:15:00']);
  await clock.sleep(5 * HOUR + SECOND);
  assert.deepEqual(fired.splice(0), ['a/catches 06-01 15:15:00']);
  await clock.pass(HOUR);
  assert.deepEqual(fired.splice(0), ['a/skips 06-01 16:15:00', 'a/catches 06-01 16:15:00']);
});

test('a clock that was set forward makes no storm', async () => {
  const { clock, fired, scheduler } = setUp('2026-06-01T10:00:30Z');
  scheduler.start();
  scheduler.reconcile('a', [
    automation('a/second', [cron('* * * * * *')]),
    automation('a/quarter', [cron('*/15 * * * *', { catchUp: true })]),
  ]);
  clock.now = Date.parse('2027-06-01T10:20:30Z');
  await clock.pass(SECOND);
  assert.deepEqual(fired, ['a/second 06-01 10:20:31', 'a/quarter 06-01 10:15:00']);
});

test('a clock that was set back repeats no fire, also of before the start, and other fires come soon', async () => {
  const { clock, fired, scheduler } = setUp('2026-06-01T10:00:30Z');
  scheduler.reconcile('a', [
    automation('a/quarter', [cron('*/15 * * * *')]),
    automation('a/evening', [cron('0 20 * * *')]),
    automation('a/morning', [cron('30 9 * * *')]),
  ]);
  scheduler.start(new Map([['a/quarter', Date.parse('2026-06-01T10:00:00Z')]]));
  await clock.pass(30 * MINUTE);
  assert.deepEqual(fired.splice(0), ['a/quarter 06-01 10:15:00', 'a/quarter 06-01 10:30:00']);
  clock.now = Date.parse('2026-06-01T09:00:00Z');
  await clock.pass(2 * HOUR - SECOND);
  assert.deepEqual(fired.splice(0), ['a/morning 06-01 09:30:00', 'a/quarter 06-01 10:45:00']);
});

test('a clock that was wrong by more than a day does not silence what fired by it', async () => {
  const { clock, fired, scheduler } = setUp('2030-01-01T00:00:30Z');
  scheduler.start();
  scheduler.reconcile('a', [automation('a/quarter', [cron('*/15 * * * *')])]);
  await clock.pass(15 * MINUTE);
  clock.now = Date.parse('2026-06-01T10:00:30Z');
  await clock.pass(15 * MINUTE);
  assert.deepEqual(fired, ['a/quarter 01-01 00:15:00', 'a/quarter 06-01 10:15:00']);
});

for (const [there, back] of [
  [-2, 2],
  [2, -2],
] as const) {
  const name = there < 0 ? 'back and then forward' : 'forward and then back';
  test(`a clock that is set ${name} again is noticed within a minute, and nothing fires twice`, async () => {
    const { clock, fired, scheduler } = setUp('2026-06-01T10:00:30Z');
    scheduler.start();
    scheduler.reconcile('a', [automation('a/minute', [cron('* * * * *')])]);
    await clock.pass(5 * MINUTE);
    clock.now += there * HOUR;
    await clock.pass(10 * MINUTE);
    clock.now += back * HOUR;
    await clock.pass(MINUTE);
    fired.splice(0);
    // At 10:16:30, or by the clock that was set forward until 12:15:30.
    await clock.pass(5 * MINUTE);
    const right = ['10:17', '10:18', '10:19', '10:20', '10:21'].map((at) => `a/minute 06-01 ${at}:00`);
    assert.deepEqual(fired.splice(0), right);
    await clock.pass(2 * HOUR);
    assert.equal(fired.length, there < 0 ? 120 : 120 - 10);
  });
}

test('a gateway that started with its clock ahead fires as soon as the clock is right', async () => {
  const { clock, fired, scheduler } = setUp('2026-06-01T12:00:30Z');
  scheduler.reconcile('a', [automation('a/minute', [cron('* * * * *')])]);
  scheduler.start(new Map([['a/minute', Date.parse('2026-05-31T23:59:00Z')]]));
  await clock.pass(2 * MINUTE);
  clock.now -= 2 * HOUR;
  await clock.pass(3 * MINUTE);
  // The change is noticed half a minute later, when the timer rings: that is 10:03.
  const at = ['12:01', '12:02', '10:04', '10:05'];
  assert.deepEqual(
    fired,
    at.map((minute) => `a/minute 06-01 ${minute}:00`),
  );
});

test('however a clock jumps within a day, every minute that it comes to fires, once', async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new Random(seed);
    const { clock, fired, scheduler } = setUp('2026-06-01T10:00:30Z');
    scheduler.start();
    const trigger = cron('* * * * *', { catchUp: seed % 2 === 0 });
    scheduler.reconcile('a', [automation('a/minute', [trigger])]);
    await clock.pass(5 * MINUTE);
    for (let jumps = 0; jumps < 6; jumps++) {
      const scale = random.pick([2 * MINUTE, 30 * MINUTE, 3 * HOUR]);
      clock.now += random.between(-scale, scale);
      await clock.pass(2 * MINUTE);
      const from = clock.now;
      await clock.pass(random.between(2, 10) * MINUTE);
      for (let at = from - (from % MINUTE) + MINUTE; at <= clock.now; at += MINUTE)
        assert.ok(fired.includes(`a/minute ${time(at)}`), `seed ${seed}: ${time(at)} did not fire`);
    }
    assert.equal(new Set(fired).size, fired.length, `seed ${seed}: one fired twice`);
  }
});

test('a correction by less than a minute, as time servers make it, changes nothing', async () => {
  const { clock, fired, scheduler } = setUp('2026-06-01T10:00:30Z');
  scheduler.start();
  scheduler.reconcile('a', [automation('a/minute', [cron('* * * * *')])]);
  await clock.pass(31 * SECOND);
  clock.now -= 5 * SECOND;
  await clock.pass(MINUTE + 10 * SECOND);
  assert.deepEqual(fired, ['a/minute 06-01 10:01:00', 'a/minute 06-01 10:02:00']);
});

test('fires of one second go out in the order of registration, some in each turn of the event loop', async () => {
  const { clock, fired, scheduler } = setUp('2026-06-01T10:00:30Z');
  const count = 5 * LIMITS.cronTurn;
  scheduler.start();
  for (let i = 0; i < count; i++) scheduler.reconcile(`app${i}`, [automation(`app${i}/x`, [cron('0 11 * * *')])]);
  await clock.pass(59 * MINUTE);
  clock.wakeAfter(30 * SECOND);
  const byTurn = [fired.length];
  while (clock.turnsWaiting > 0) {
    clock.turn();
    byTurn.push(fired.length);
  }
  assert.deepEqual(
    fired,
    Array.from({ length: count }, (_, i) => `app${i}/x 06-01 11:00:00`),
  );
  assert.deepEqual(
    byTurn.slice(0, 5),
    [1, 2, 3, 4, 5].map((turns) => turns * LIMITS.cronTurn),
  );
});

test('first times are computed in turns that end when their time is up', () => {
  let spent = 0;
  // Each look at the clock takes a millisecond, so ten entries are a turn's time.
  const { clock, scheduler } = setUp('2026-06-01T10:00:30Z', { elapsed: () => spent++ });
  for (let i = 0; i < 100; i++) scheduler.reconcile(`app${i}`, [automation(`app${i}/x`, [cron('0 11 * * *')])]);
  scheduler.start();
  let turns = 1;
  for (; clock.turnsWaiting > 0; turns++) clock.turn();
  assert.ok(turns > 100 / LIMITS.cronTurnMs, `${turns} turns are enough of them`);
});

test('a question between two turns is answered at once', () => {
  const { clock, scheduler } = setUp('2026-06-01T10:00:30Z');
  for (let i = 0; i < 2 * LIMITS.cronTurn; i++)
    scheduler.reconcile(`app${i}`, [automation(`app${i}/x`, [cron('0 11 * * *')])]);
  assert.equal(scheduler.nextRunAt('app0/x'), null);
  scheduler.start();
  assert.equal(clock.turnsWaiting, 1);
  assert.equal(time(scheduler.nextRunAt('app0/x')), '06-01 11:00:00');
});

test('stopped, even from within a fire, it fires nothing more and keeps no timer', async () => {
  const fired: string[] = [];
  const { clock, scheduler } = setUp('2026-06-01T10:00:30Z', {
    fire: ({ ref }) => {
      fired.push(ref);
      if (fired.length === LIMITS.cronTurn) scheduler.stop();
    },
  });
  scheduler.start();
  for (let i = 0; i < 2 * LIMITS.cronTurn; i++)
    scheduler.reconcile(`app${i}`, [automation(`app${i}/x`, [cron('* * * * *')])]);
  await clock.pass(5 * MINUTE);
  scheduler.reconcile('late', [automation('late/x', [cron('* * * * *')])]);
  assert.equal(fired.length, LIMITS.cronTurn);
  assert.equal(clock.armed, false, 'no timer is left');
  assert.equal(scheduler.size, 0);
});

test('a consumer may register and drop automations from within a fire', async () => {
  const fired: string[] = [];
  const { clock, scheduler } = setUp('2026-06-01T10:00:30Z', {
    fire: ({ ref }) => {
      fired.push(ref);
      scheduler.reconcile('a', [automation('a/second', [cron('30 * * * *')])]);
    },
  });
  scheduler.start();
  scheduler.reconcile('a', [automation('a/first', [cron('1 * * * *')])]);
  await clock.pass(HOUR);
  assert.deepEqual(fired, ['a/first', 'a/second']);
});

test('only the cron triggers of an enabled automation count, each time once; of two for the same time the last', () => {
  const { scheduler, watched } = setUp('2026-06-01T10:00:00Z');
  scheduler.start();
  const daily = cron('0 9 * * *');
  const triggers = [
    daily,
    { kind: 'webhook', pending: true } as const,
    { ...daily, tz: 'UTC' },
    { ...daily, catchUp: true },
  ];
  scheduler.reconcile('a', [{ ref: 'a/x', manifest: { enabled: true, triggers } }]);
  assert.deepEqual([scheduler.size, watched], [2, ['a/x 06-01 10:00:00']]);
  scheduler.reconcile('a', [{ ref: 'a/x', manifest: { enabled: false, triggers } }]);
  assert.equal(scheduler.size, 0);
});

test('ten thousand automations with expressions of their own in every zone cost less than 30 MiB and one timer', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const heap = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const zones = Intl.supportedValuesOf('timeZone');
  const automations = Array.from({ length: MANY }, (_, i): Schedulable => {
    const trigger: CronTrigger = {
      kind: 'cron',
      expr: `${i % 60} ${i % 24} * * *`,
      tz: zones[i % zones.length] as string,
    };
    return { ref: `app${i}/digest`, manifest: { enabled: true, triggers: [trigger] } };
  });
  const clock = new ScriptedClock('2026-06-01T10:00:30Z');
  const before = heap();
  const scheduler = new Scheduler<Schedulable>({
    now: () => clock.now,
    setTimer: clock.setTimer,
    yieldTurn: clock.yieldTurn,
    fire: () => {},
    lastFired: async () => null,
    watchedFrom: () => {},
    log: () => {},
  });
  for (const automation of automations) scheduler.reconcile(automation.ref, [automation]);
  scheduler.start();
  await clock.settle();
  const grown = (heap() - before) / MiB;
  assert.equal(scheduler.size, MANY);
  assert.equal(clock.timers, 1);
  assert.ok(grown < 30, `${grown.toFixed(1)} MiB`);
});
