import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { CronTrigger } from '../../../protocol/automation.ts';
import { ScriptedClock } from '../../../testing/scripted-clock.ts';
import { Scheduler } from './scheduler.ts';
import { cronTriggers, newEntry, type Schedulable } from './watched.ts';

const MANY = 10_000;
const MiB = 2 ** 20;

test('only the cron triggers of an enabled automation count, each time once', () => {
  const daily: CronTrigger = { kind: 'cron', expr: '0 9 * * *' };
  const triggers = [
    daily,
    { kind: 'webhook', pending: true } as const,
    { ...daily, tz: 'UTC' },
    { ...daily, catchUp: true },
  ];
  assert.deepEqual(cronTriggers({ ref: 'a/x', manifest: { enabled: true, triggers } }), [triggers[2], triggers[3]]);
  assert.deepEqual(cronTriggers({ ref: 'a/x', manifest: { enabled: false, triggers } }), []);
});

test('an entry is a few numbers and what its automation has anyway: no text, no compiled expression', () => {
  const trigger: CronTrigger = { kind: 'cron', expr: '0 9 * * *', tz: 'UTC' };
  const watched = { automation: null, entries: [], fired: 0 };
  const { due, order, place, state, trigger: kept, watched: owner, ...rest } = newEntry(watched, trigger, 7);
  assert.deepEqual(rest, {});
  assert.deepEqual([due, order, place, state], [0, 7, -1, 'fresh']);
  assert.equal(kept, trigger);
  assert.equal(owner, watched);
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
