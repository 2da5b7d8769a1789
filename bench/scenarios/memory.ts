/** What the process tree takes: with one app live, with more of them, and with many that are only registered. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { CronTrigger } from '../../protocol/automations/automation.ts';
import { memoryOf, memoryOfAll } from '../../testing/processes.ts';
import { APP, automationFiles, benchApp } from '../bench-app.ts';
import { type Context, type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { type Finding, fact } from '../measurements.ts';
import { median } from '../statistics.ts';
import { appIds, crowd } from './crowd.ts';

const STARTS = { full: 3, smoke: 1 };
/** Until what the start left behind was collected or not; nothing is forced. */
const SETTLE_MS = { full: 3000, smoke: 300 };
const MiB = 2 ** 20;
/** Apps that are made live beside the first, and apps that are only registered. */
const MORE = Array.from({ length: 16 }, (_, i) => `${APP}-live-${i}`);
const IDLE = { full: 1000, smoke: 20 };
/** Automations on schedule, spread over apps. */
const AUTOMATIONS = { full: 10_000, smoke: 100 };
const AUTOMATION_APPS = Array.from({ length: 10 }, (_, i) => `${APP}-scheduled-${i}`);

export const memoryScenario: Scenario = {
  name: 'memory',
  question: 'How much memory do all processes take, with one app live, with more, and with many only registered?',
  run: async (context) => {
    const few = await overStarts(context, await crowd(context, [APP, ...MORE]), MORE);
    const idle = appIds(sized(context, IDLE));
    const many = await overStarts(context, await crowd(context, [APP, ...MORE, ...idle]));
    const count = sized(context, AUTOMATIONS);
    const automations = await scheduledApps(context, count / AUTOMATION_APPS.length);
    const scheduled = await overStarts(context, automations);
    switchOff(automations);
    const off = await overStarts(context, automations);
    const taken = (name: string, bytes: number, how: string): Finding => fact(name, bytes / MiB, 'MiB', how);
    const starts = `median of ${sized(context, STARTS)} starts`;
    return [
      taken('tree with one app live', few.one, `PSS of all processes, ${starts}`),
      taken('tree with one app live, RSS', few.oneRss, 'the same with shared pages counted in each process'),
      taken('each further live actor', few.each, `mean of ${MORE.length}, ${starts}`),
      taken(
        `${idle.length} registered idle apps`,
        many.one - few.one,
        `added to the tree with one app live, ${starts}`,
      ),
      taken(
        `${count} registered schedules`,
        scheduled.supervisor - off.supervisor,
        `added to the supervisor (PSS) by switching on as many automations, each on a schedule of its own, ${starts}`,
      ),
      taken(
        `${count} automations on schedule`,
        scheduled.supervisor - few.supervisor,
        `added to the supervisor (PSS) in all, in ${AUTOMATION_APPS.length} apps, ${starts}`,
      ),
    ];
  },
};

type Taken = { one: number; oneRss: number; supervisor: number; each: number };

/** Bytes: with one app live, and what each of `more` adds; a fresh daemon each time, since uploads leave garbage behind. */
async function overStarts(context: Context, dataDir: string, more: string[] = []): Promise<Taken> {
  const settleMs = sized(context, SETTLE_MS);
  const starts: Taken[] = [];
  const start = async (daemon: Daemon): Promise<void> => {
    await daemon.readNote(APP);
    await wait(settleMs);
    const { pss, rss } = memoryOfAll(daemon.processes);
    const supervisor = memoryOf(daemon.pid).pss;
    for (const app of more) await daemon.readNote(app);
    await wait(settleMs);
    const each = (memoryOfAll(daemon.processes).pss - pss) / Math.max(1, more.length);
    starts.push({ one: pss, oneRss: rss, supervisor, each });
  };
  while (starts.length < sized(context, STARTS)) await withDaemon(context, start, { dataDir });
  const middle = (name: keyof Taken): number => median(starts.map((taken) => taken[name]));
  return { one: middle('one'), oneRss: middle('oneRss'), supervisor: middle('supervisor'), each: middle('each') };
}

/** A data directory with automations that are due once a year, hardly two at the same time. */
async function scheduledApps(context: Context, each: number): Promise<string> {
  const dataDir = context.newFolder();
  const install = async (daemon: Daemon): Promise<void> => {
    await daemon.install(APP, benchApp());
    for (const [i, app] of AUTOMATION_APPS.entries()) {
      const files = Array.from({ length: each }, (_, j) => automationFiles(`yearly-${j}`, [yearly(i * each + j)]));
      await daemon.install(app, benchApp(app, Object.assign({}, ...files)));
    }
  };
  await withDaemon(context, install, { dataDir });
  return dataDir;
}

/** As users do, one by one; here in the files, for a gateway would take its time with 10,000 of them. */
function switchOff(dataDir: string): void {
  const files = readdirSync(join(dataDir, 'apps'), { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((name) => name.endsWith('automation.json'))) {
    const path = join(dataDir, 'apps', file);
    const automation = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    writeFileSync(path, JSON.stringify({ ...automation, enabled: false }, null, 2));
  }
}

function yearly(i: number): CronTrigger {
  const month = 1 + ((new Date().getMonth() + 6) % 12);
  return { kind: 'cron', expr: `${i % 60} ${Math.floor(i / 60) % 60} ${Math.floor(i / 3600)} 1 ${month} *` };
}
