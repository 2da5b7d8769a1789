/** What the process tree takes: with one app live, with more of them, and with many that are only registered. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { CronTrigger } from '../../protocol/automations/automation.ts';
import { APP, packApp } from '../bench-app.ts';
import { automationFiles } from '../bench-automations.ts';
import type { Context, Scenario } from '../context.ts';
import { Daemon } from '../daemon.ts';
import { type Fact, factsOf } from '../measurements.ts';
import { memoryOf, memoryOfAll } from '../process-usage.ts';
import { median } from '../statistics.ts';
import { installInto, MORE_APPS, manyApps } from './many-apps.ts';

const STARTS = 3;
/** Until what the start left behind was collected or not; nothing is forced. */
const SETTLE_MS = 3000;
const SMOKE_SETTLE_MS = 300;
const MiB = 2 ** 20;
/** Automations on schedule, spread over apps. */
const AUTOMATIONS = 10_000;
const SMOKE_AUTOMATIONS = 100;
const AUTOMATION_APPS = Array.from({ length: 10 }, (_, i) => `${APP}-scheduled-${i}`);

export const memoryScenario: Scenario = {
  name: 'memory',
  question: 'How much memory do all processes take, with one app live, with more, and with many only registered?',
  run: async (context) => {
    const { smoke } = context.options;
    const dataDir = context.newFolder();
    await installInto(context, dataDir, [APP, ...MORE_APPS]);
    const few = await overStarts(context, dataDir, MORE_APPS);
    const all = await manyApps(context);
    const many = await overStarts(context, all.dataDir, []);
    const automations = await scheduledApps(context);
    const scheduled = await overStarts(context, automations, []);
    switchOff(automations);
    const off = await overStarts(context, automations, []);
    const fact = (name: string, value: number, detail: string): Fact =>
      factsOf('memory')(name, value / MiB, 'MiB', detail);
    const count = smoke ? SMOKE_AUTOMATIONS : AUTOMATIONS;
    const starts = `median of ${smoke ? 1 : STARTS} starts`;
    return [
      fact('tree with one app live', few.one, `PSS of all processes, ${starts}`),
      fact('tree with one app live, RSS', few.oneRss, 'the same with shared pages counted in each process'),
      fact('each further live actor', few.each, `mean of ${MORE_APPS.length}, ${starts}`),
      fact(
        `${all.idle.length} registered idle apps`,
        many.one - few.one,
        `added to the tree with one app live, ${starts}`,
      ),
      fact(
        `${count} registered schedules`,
        scheduled.supervisor - off.supervisor,
        `added to the supervisor (PSS) by switching on as many automations, each on a schedule of its own, ${starts}`,
      ),
      fact(
        `${count} automations on schedule`,
        scheduled.supervisor - few.supervisor,
        `added to the supervisor (PSS) in all, in ${AUTOMATION_APPS.length} apps, ${starts}`,
      ),
    ];
  },
};

type Taken = { one: number; oneRss: number; supervisor: number; each: number };

/** Bytes: with one app live, and what each of `more` adds; a fresh daemon each time, since uploads leave garbage behind. */
async function overStarts({ config, options }: Context, dataDir: string, more: string[]): Promise<Taken> {
  const settleMs = options.smoke ? SMOKE_SETTLE_MS : SETTLE_MS;
  const starts: Taken[] = [];
  while (starts.length < (options.smoke ? 1 : STARTS)) {
    await Daemon.use({ dataDir, config }, async (daemon) => {
      await daemon.readNote(APP);
      await wait(settleMs);
      const { pss, rss } = memoryOfAll(daemon.processes);
      const supervisor = memoryOf(daemon.pid).pss;
      for (const app of more) await daemon.readNote(app);
      await wait(settleMs);
      const each = (memoryOfAll(daemon.processes).pss - pss) / Math.max(1, more.length);
      starts.push({ one: pss, oneRss: rss, supervisor, each });
    });
  }
  const middle = (name: keyof Taken): number => median(starts.map((taken) => taken[name]));
  return { one: middle('one'), oneRss: middle('oneRss'), supervisor: middle('supervisor'), each: middle('each') };
}

/** A data directory with automations that are due once a year, hardly two at the same time. */
async function scheduledApps({ config, newFolder, options }: Context): Promise<string> {
  const each = (options.smoke ? SMOKE_AUTOMATIONS : AUTOMATIONS) / AUTOMATION_APPS.length;
  const dataDir = newFolder();
  await Daemon.use({ dataDir, config }, async (daemon) => {
    await daemon.install(APP, await packApp());
    for (const [i, app] of AUTOMATION_APPS.entries()) {
      const files = Array.from({ length: each }, (_, j) => automationFiles(`yearly-${j}`, [yearly(i * each + j)]));
      await daemon.install(app, await packApp(app, Object.assign({}, ...files)));
    }
  });
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
