/** How long a daemon takes until it answers, and an app that nobody has called yet; both next to `node -e 0`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { APP, packApp } from '../bench-app.ts';
import type { Context, Scenario } from '../context.ts';
import { Daemon } from '../daemon.ts';
import type { Fact } from '../measurements.ts';
import { median } from '../statistics.ts';

const RUNS = 9;
const SMOKE_RUNS = 3;

export const readyScenario: Scenario = {
  name: 'ready',
  summary: 'time until the daemon accepts requests',
  run: async (context) => {
    const { config } = context;
    const dataDir = context.newFolder();
    const first = await Daemon.start({ dataDir, config });
    await first.install(APP, await packApp());
    await first.stop();
    return compareWithNode(context, 'ready', 'daemon ready', async () => {
      const daemon = await Daemon.start({ dataDir, config });
      await daemon.stop();
      return daemon.readyMs;
    });
  },
};

export const coldScenario: Scenario = {
  name: 'cold',
  summary: 'time of the first call of an app that is not live',
  run: async (context) => {
    const { config, options } = context;
    const dataDir = context.newFolder();
    const apps = Array.from({ length: options.smoke ? SMOKE_RUNS : RUNS }, (_, i) => `${APP}-${i}`);
    const first = await Daemon.start({ dataDir, config });
    for (const app of apps) await first.install(app, await packApp(app));
    await first.stop();
    // After a restart no app is live.
    const daemon = await Daemon.start({ dataDir, config });
    try {
      return await compareWithNode(context, 'cold', 'first answer of a cold actor', async (run) => {
        const startedAt = performance.now();
        await daemon.read(apps[run] as string);
        return performance.now() - startedAt;
      });
    } finally {
      await daemon.stop();
    }
  },
};

/** Medians of runs of `measure` and of `node -e 0` in turns, and the median of the quotients of neighbours. */
async function compareWithNode(
  { options }: Context,
  scenario: string,
  name: string,
  measure: (run: number) => Promise<number>,
): Promise<Fact[]> {
  const runs = options.smoke ? SMOKE_RUNS : RUNS;
  const node: number[] = [];
  const measured: number[] = [];
  for (let run = 0; run < runs; run++) {
    node.push(await nodeStart());
    measured.push(await measure(run));
  }
  const detail = `median of ${runs} runs`;
  const quotient = median(measured.map((ms, i) => ms / (node[i] as number)));
  return [
    { kind: 'fact', scenario, name: 'node -e 0', value: median(node), unit: 'ms', detail },
    { kind: 'fact', scenario, name, value: median(measured), unit: 'ms', detail },
    { kind: 'fact', scenario, name: `${name}, of node -e 0`, value: quotient, unit: '×', detail },
  ];
}

async function nodeStart(): Promise<number> {
  const startedAt = performance.now();
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit');
  return performance.now() - startedAt;
}
