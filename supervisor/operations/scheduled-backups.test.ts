import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { Layout } from '../../storage/layout.ts';
import { eventually } from '../../testing/edges.ts';
import { ScriptedClock } from '../../testing/scripted-clock.ts';
import { standIn } from '../../testing/stand-in.ts';
import { type InternalAutomation, Scheduler } from '../automations/schedule/scheduler.ts';
import type { Backups } from './backups.ts';
import { ScheduledBackups, type ScheduledBackupsOptions } from './scheduled-backups.ts';

const HOUR = 3_600_000;
const NIGHTLY = { cron: '0 3 * * *', keep: 2, dir: 'kept' };
process.env.TZ = 'UTC';

type Trial = {
  layout: Layout;
  clock: ScriptedClock;
  /** What a backup is made of; it may throw. */
  making: { archive: () => string; damaged: { path: string; integrity: string }[]; gate: Promise<void> };
  /** Hears of the end of each. */
  onMade: NonNullable<ScheduledBackupsOptions['onMade']>;
  open(configured?: ScheduledBackupsOptions['configured']): Promise<ScheduledBackups>;
  files(): string[];
};

function trial(t: TestContext): Trial {
  const folder = mkdtempSync(join(tmpdir(), 'svc-scheduled-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const layout = new Layout(join(folder, 'data'));
  mkdirSync(layout.tmpDir, { recursive: true });
  const clock = new ScriptedClock('2026-01-31T12:00:00Z');
  const making: Trial['making'] = { archive: () => 'whole', damaged: [], gate: Promise.resolve() };
  const backups = standIn<Backups>({
    makeNext: async (signal, use) => {
      await making.gate;
      signal.throwIfAborted();
      const archive = join(layout.tmpDir, 'archive');
      writeFileSync(archive, making.archive());
      return use(archive, signal);
    },
    verify: async () => ({ damaged: making.damaged, bytes: 5 }),
    stop: async () => {},
  });
  let current: ScheduledBackups | null = null;
  let stopScheduler = () => {};
  t.after(() => current?.stop());
  const made: Trial = {
    layout,
    clock,
    making,
    onMade: () => {},
    open: async (configured: typeof NIGHTLY | null = NIGHTLY) => {
      stopScheduler();
      const scheduler = new Scheduler<InternalAutomation>({
        now: () => clock.now,
        setTimer: clock.setTimer,
        yieldTurn: (rest) => void setImmediate(rest),
        fire: ({ internal }, scheduledAt) => internal.fire(scheduledAt),
        lastFired: ({ internal }) => internal.lastFired(),
        watchedFrom: ({ internal }, at) => internal.watchedFrom(at),
        log: () => {},
      });
      stopScheduler = () => scheduler.stop();
      const log = pino({ level: 'silent' });
      const onMade = (failure: string | null) => made.onMade(failure);
      current = new ScheduledBackups({ layout, configured, backups, scheduler, onMade, now: () => clock.now, log });
      await current.open();
      scheduler.start();
      return current;
    },
    files: () => readdirSync(join(layout.dataDir, 'kept')).sort(),
  };
  return made;
}

/** Time passes, and what became due is done. */
async function pass({ clock }: Trial, backups: ScheduledBackups, ms: number): Promise<void> {
  await clock.pass(ms);
  await eventually(() => !backups.status().running);
}

test('a backup is made when its time comes; the oldest go after a good one', async (t) => {
  const on = trial(t);
  const backups = await on.open();
  assert.deepEqual([backups.status().state, backups.status().nextAt], ['waiting', Date.parse('2026-02-01T03:00:00Z')]);
  for (let day = 1; day <= 4; day++) await pass(on, backups, 24 * HOUR);
  assert.deepEqual(on.files(), ['svc-20260203T030000Z.svc-backup.tar.gz', 'svc-20260204T030000Z.svc-backup.tar.gz']);
  assert.equal(readFileSync(join(on.layout.dataDir, 'kept', on.files()[0] as string), 'utf8'), 'whole');
  const { state, lastSuccess, failures } = backups.status();
  assert.deepEqual([state, lastSuccess?.bytes, failures], ['ok', 5, 0]);
  assert.ok((lastSuccess?.at ?? 0) >= Date.parse('2026-02-04T03:00:00Z'));
});

test('the last backup says whether backups fail, also when the clock was set back since the one before', async (t) => {
  const on = trial(t);
  const backups = await on.open();
  const made = async (archive: () => string): Promise<string> => {
    on.making.archive = archive;
    on.clock.now -= HOUR;
    backups.makeNow();
    await eventually(() => !backups.status().running);
    return backups.status().state;
  };
  const fails = () => {
    throw new Error('No disk.');
  };
  const states: string[] = [];
  for (const archive of [() => 'whole', fails, () => 'whole']) states.push(await made(archive));
  assert.deepEqual(states, ['ok', 'failed', 'ok']);
});

test('other files in the folder stay, with any name', async (t) => {
  const on = trial(t);
  const backups = await on.open({ ...NIGHTLY, keep: 1 });
  const others = join(on.layout.dataDir, 'kept', 'svc-20200101T000000Z.svc-backup.tar.gz');
  writeFileSync(others, 'made by hand');
  for (let day = 1; day <= 3; day++) await pass(on, backups, 24 * HOUR);
  assert.deepEqual(on.files(), ['svc-20200101T000000Z.svc-backup.tar.gz', 'svc-20260203T030000Z.svc-backup.tar.gz']);
});

test('missed times are made up once, and times before the schedule are not missed', async (t) => {
  const on = trial(t);
  const first = await on.open();
  await on.clock.settle();
  assert.equal(existsSync(join(on.layout.dataDir, 'kept')) && on.files().length, 0);
  await first.stop();
  on.clock.now += 10 * 24 * HOUR;
  const second = await on.open();
  await pass(on, second, 0);
  await eventually(() => second.status().state === 'ok' && !second.status().running);
  assert.deepEqual(on.files(), ['svc-20260210T120000Z.svc-backup.tar.gz']);
  assert.equal(second.status().nextAt, Date.parse('2026-02-11T03:00:00Z'));
  await second.stop();
  const third = await on.open();
  await pass(on, third, 0);
  assert.equal(on.files().length, 1, 'it was made up twice');
});

test('a backup that a stop interrupted is made after the next start, and is not a failure', async (t) => {
  const on = trial(t);
  const first = await on.open();
  let open: () => void = () => {};
  on.making.gate = new Promise((resolve) => (open = resolve));
  await on.clock.pass(24 * HOUR);
  assert.equal(first.status().running, true);
  const stopped = first.stop();
  open();
  await stopped;
  assert.equal(first.status().lastFailure, null);
  assert.deepEqual(on.files(), []);
  const second = await on.open();
  await pass(on, second, 0);
  await eventually(() => second.status().state === 'ok' && !second.status().running);
  assert.equal(on.files().length, 1);
});

test('never two at once: times that come meanwhile are dealt with by the one that is made', async (t) => {
  const on = trial(t);
  const backups = await on.open({ ...NIGHTLY, cron: '0 * * * *' });
  let open: () => void = () => {};
  on.making.gate = new Promise((resolve) => (open = resolve));
  await on.clock.pass(5 * HOUR);
  open();
  await eventually(() => backups.status().state === 'ok' && !backups.status().running);
  assert.equal(on.files().length, 1);
  await pass(on, backups, HOUR);
  assert.equal(on.files().length, 2);
});

test('one is made now: beside the schedule, which goes on as it would, and never two at once', async (t) => {
  const on = trial(t);
  const backups = await on.open();
  on.clock.now += HOUR;
  let open: () => void = () => {};
  on.making.gate = new Promise((resolve) => (open = resolve));
  backups.makeNow();
  assert.throws(() => backups.makeNow(), { code: 'CONFLICT' });
  open();
  await eventually(() => !backups.status().running);
  assert.deepEqual(on.files(), ['svc-20260131T130000Z.svc-backup.tar.gz']);
  assert.equal(backups.status().nextAt, Date.parse('2026-02-01T03:00:00Z'));
  const [made] = await backups.files();
  assert.deepEqual([made?.name, made?.bytes, made?.damaged], [on.files()[0], 5, false]);
  await pass(on, backups, 24 * HOUR);
  assert.equal(on.files().length, 2);
  assert.deepEqual((await backups.files()).map(({ name }) => name).sort(), on.files());
});

test('one that is made now without a schedule makes no time missed', async (t) => {
  const on = trial(t);
  const backups = await on.open(null);
  backups.makeNow();
  await eventually(() => !backups.status().running);
  assert.deepEqual([backups.status().state, backups.status().lastSuccess?.bytes], ['off', 5]);
  on.clock.now += 48 * HOUR;
  await backups.set(NIGHTLY);
  await pass(on, backups, 0);
  assert.equal((await backups.files()).length, 1);
});

test('a failure has a message, removes nothing, and ends with the next good backup', async (t) => {
  const on = trial(t);
  const backups = await on.open({ ...NIGHTLY, keep: 1 });
  await pass(on, backups, 24 * HOUR);
  const [good] = on.files();
  on.making.archive = () => {
    throw new SvcError('STORAGE_FULL', 'The disk is full.');
  };
  await pass(on, backups, 24 * HOUR);
  const { state, lastFailure, lastSuccess, failures } = backups.status();
  assert.deepEqual([state, failures, lastSuccess?.file.endsWith(good as string)], ['failed', 1, true]);
  assert.match(lastFailure?.message ?? '', /no room to make a backup: in .*tmp it takes .* Free some space/);
  assert.deepEqual(on.files(), [good]);
  // It is known after a restart too.
  await backups.stop();
  on.making.archive = () => 'whole';
  const again = await on.open({ ...NIGHTLY, keep: 1 });
  assert.equal(again.status().state, 'failed');
  await pass(on, again, 24 * HOUR);
  assert.equal(again.status().state, 'ok');
  assert.notDeepEqual(on.files(), [good]);
});

test('a damaged database is a failure: its backup is kept beside the good ones, which stay', async (t) => {
  const on = trial(t);
  const backups = await on.open({ ...NIGHTLY, keep: 1 });
  await pass(on, backups, 24 * HOUR);
  const good = on.files();
  on.making.damaged = [{ path: 'apps/notes/data.sqlite', integrity: 'row 3 missing from index' }];
  for (let day = 1; day <= 3; day++) await pass(on, backups, 24 * HOUR);
  assert.equal(backups.status().state, 'failed');
  assert.match(
    backups.status().lastFailure?.message ?? '',
    /apps\/notes\/data\.sqlite \(row 3 .* older ones were kept/,
  );
  assert.deepEqual(on.files(), [...good, 'svc-20260204T030000Z.damaged.svc-backup.tar.gz']);
});

test('who hears that a backup failed can begin another one at once', async (t) => {
  const on = trial(t);
  const backups = await on.open();
  const folder = join(on.layout.dataDir, 'kept');
  const heard: (string | null)[] = [];
  on.onMade = (failure) => {
    heard.push(failure);
    if (failure === null) return;
    mkdirSync(folder);
    backups.makeNow();
  };
  rmSync(folder, { recursive: true });
  backups.makeNow();
  await eventually(() => heard.length === 2);
  assert.match(String(heard[0]), /kept is gone/);
  assert.equal(heard[1], null);
});

test('a folder that is gone, is a file, or is not writable fails with a message, and is not made again', async (t) => {
  const on = trial(t);
  const backups = await on.open();
  const folder = join(on.layout.dataDir, 'kept');
  rmSync(folder, { recursive: true });
  await pass(on, backups, 24 * HOUR);
  assert.match(backups.status().lastFailure?.message ?? '', /kept is gone\. Is its disk mounted\?/);
  assert.equal(existsSync(folder), false);
  writeFileSync(folder, '');
  await pass(on, backups, 24 * HOUR);
  assert.match(backups.status().lastFailure?.message ?? '', /kept is not a folder\. Name another/);
  rmSync(folder);
  mkdirSync(folder);
  if (process.getuid?.() !== 0) {
    chmodSync(folder, 0o500);
    await pass(on, backups, 24 * HOUR);
    assert.match(backups.status().lastFailure?.message ?? '', /may not write to .*kept\. Give that folder/);
    chmodSync(folder, 0o700);
  }
  await pass(on, backups, 24 * HOUR);
  assert.equal(backups.status().state, 'ok');
});

test('a command sets a schedule and ends it; that of the configuration it cannot change', async (t) => {
  const on = trial(t);
  const backups = await on.open(null);
  assert.equal(backups.status().state, 'off');
  await backups.set({ ...NIGHTLY, dir: 'kept' });
  assert.equal(backups.status().schedule?.setBy, 'command');
  assert.equal(backups.status().nextAt, Date.parse('2026-02-01T03:00:00Z'));
  await backups.stop();
  const again = await on.open(null);
  assert.deepEqual(again.schedule, { ...NIGHTLY, dir: 'kept' });
  await pass(on, again, 24 * HOUR);
  assert.equal(on.files().length, 1);
  await again.set(null);
  await pass(on, again, 72 * HOUR);
  assert.deepEqual([again.status().state, again.status().nextAt, on.files().length], ['off', null, 1]);
  // Nothing was missed while there was none.
  await again.set(NIGHTLY);
  await pass(on, again, 0);
  assert.equal(on.files().length, 1);
  await assert.rejects(again.set({ ...NIGHTLY, dir: '/proc/none' }), { code: 'BACKUP_FOLDER' });
  await again.stop();
  const fixed = await on.open(NIGHTLY);
  await assert.rejects(fixed.set(null), { code: 'CONFLICT' });
});

test('a damaged record is replaced; an unfinished copy of a crash is removed', async (t) => {
  const on = trial(t);
  writeFileSync(on.layout.backupRecord, '{"files": 7}');
  const backups = await on.open();
  const folder = join(on.layout.dataDir, 'kept');
  const record = JSON.parse(readFileSync(on.layout.backupRecord, 'utf8'));
  await backups.stop();
  writeFileSync(join(folder, '.svc-x.svc-backup.tar.gz.tmp'), 'half');
  record.files = [join(folder, 'svc-x.svc-backup.tar.gz')];
  writeFileSync(on.layout.backupRecord, JSON.stringify(record));
  const again = await on.open();
  await pass(on, again, 24 * HOUR);
  assert.deepEqual(readdirSync(folder), ['svc-20260201T030000Z.svc-backup.tar.gz']);
});
