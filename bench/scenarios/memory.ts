/** What the process tree takes: with one app live, with more of them, and with many that are only registered. */
import { setTimeout as wait } from 'node:timers/promises';
import { APP, packApp } from '../bench-app.ts';
import type { Context, Scenario } from '../context.ts';
import { Daemon } from '../daemon.ts';
import type { Fact } from '../measurements.ts';
import { memoryOfAll } from '../process-usage.ts';
import { median } from '../statistics.ts';

const MORE_ACTORS = 16;
const REGISTERED = 1000;
const SMOKE_REGISTERED = 20;
/** Uploads at a time. */
const UPLOADS = 4;
const STARTS = 3;
/** Until what the start left behind was collected or not; nothing is forced. */
const SETTLE_MS = 3000;
const MiB = 2 ** 20;

export const memoryScenario: Scenario = {
  name: 'memory',
  summary: 'memory of the whole process tree (PSS)',
  run: async (context) => {
    const { smoke } = context.options;
    const registered = smoke ? SMOKE_REGISTERED : REGISTERED;
    const actors = Array.from({ length: MORE_ACTORS }, (_, i) => `${APP}-live-${i}`);
    const dataDir = context.newFolder();
    await install(context, dataDir, [APP, ...actors]);
    const few = await overStarts(context, dataDir, actors);
    await install(
      context,
      dataDir,
      Array.from({ length: registered }, (_, i) => `${APP}-idle-${i}`),
    );
    const many = await overStarts(context, dataDir, []);
    const fact = (name: string, value: number, detail: string): Fact => ({
      kind: 'fact',
      scenario: 'memory',
      name,
      value: value / MiB,
      unit: 'MiB',
      detail,
    });
    const starts = `median of ${smoke ? 1 : STARTS} starts`;
    return [
      fact('tree with one app live', few.one, `PSS of all processes, ${starts}`),
      fact('tree with one app live, RSS', few.oneRss, 'the same with shared pages counted in each process'),
      fact('each further live actor', few.each, `mean of ${MORE_ACTORS}, ${starts}`),
      fact(`${registered} registered idle apps`, many.one - few.one, `added to the tree with one app live, ${starts}`),
    ];
  },
};

async function install({ config }: Context, dataDir: string, apps: string[]): Promise<void> {
  const daemon = await Daemon.start({ dataDir, config });
  try {
    const waiting = [...apps];
    const uploader = async (): Promise<void> => {
      for (let app = waiting.shift(); app !== undefined; app = waiting.shift()) {
        await daemon.install(app, await packApp(app));
      }
    };
    await Promise.all(Array.from({ length: UPLOADS }, uploader));
  } finally {
    await daemon.stop();
  }
}

/** Bytes: with one app live, and what each of `more` adds; a fresh daemon each time, since uploads leave garbage behind. */
async function overStarts(
  context: Context,
  dataDir: string,
  more: string[],
): Promise<{ one: number; oneRss: number; each: number }> {
  const one: number[] = [];
  const oneRss: number[] = [];
  const each: number[] = [];
  for (let start = 0; start < (context.options.smoke ? 1 : STARTS); start++) {
    const daemon = await Daemon.start({ dataDir, config: context.config });
    try {
      await daemon.read(APP);
      await wait(SETTLE_MS);
      const alone = memoryOfAll(daemon.processes);
      for (const app of more) await daemon.read(app);
      await wait(SETTLE_MS);
      one.push(alone.pss);
      oneRss.push(alone.rss);
      each.push((memoryOfAll(daemon.processes).pss - alone.pss) / Math.max(1, more.length));
    } finally {
      await daemon.stop();
    }
  }
  return { one: median(one), oneRss: median(oneRss), each: median(each) };
}
