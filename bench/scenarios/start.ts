/** How long a daemon takes until it answers, and an app or automation that nobody has called yet; next to `node -e 0`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { APP, packApp } from '../bench-app.ts';
import { automationFiles } from '../bench-automations.ts';
import type { Context, Scenario } from '../context.ts';
import { Daemon } from '../daemon.ts';
import { type Fact, factsOf } from '../measurements.ts';
import { median, percentile } from '../statistics.ts';
import { manyApps } from './many-apps.ts';

const RUNS = 9;
const FIRED = 'fired';
const SMOKE_RUNS = 3;
/** More than may be live at a time, so that the last of them make others leave. */
const MANY_RUNS = 100;
/** The apps called lie apart in the order of their registration. */
const STEP = 9;

export const readyScenario: Scenario = {
  name: 'ready',
  question: 'How long does the daemon take until it accepts requests?',
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
  question: 'How long does the first call of an app take that is not live?',
  run: async (context) => {
    return inTurnsOnColdApps(context, 'cold', 'first answer of a cold actor', (daemon, app) => daemon.readNote(app));
  },
};

export const coldFireScenario: Scenario = {
  name: 'cold-fire',
  question: 'How long does the first run take of an automation whose app nobody has used, until its end is stored?',
  run: async (context) => {
    return inTurnsOnColdApps(context, 'cold-fire', 'first run of an automation', async (daemon, app) => {
      const response = await daemon.request('POST', `/svc/_automations/${app}/${FIRED}/run?wait=1`, '{}');
      const { state } = (await response.json()) as { state: string };
      if (state !== 'ok') throw new Error(`A run ended as ${state}.`);
    });
  },
};

export const coldManyScenario: Scenario = {
  name: 'cold-1000',
  question: 'How long does the first call take of an app that is not live, among 1,000 that are registered?',
  run: async (context) => {
    const { dataDir, idle } = await manyApps(context);
    return Daemon.use({ dataDir, config: context.config }, async (daemon) => {
      const runs = context.options.smoke ? SMOKE_RUNS : MANY_RUNS;
      const call = (run: number): Promise<number> =>
        timed(() => daemon.readNote(idle[(run * STEP) % idle.length] as string));
      return await compareWithNode(context, 'cold-1000', 'first answer among many', call, runs);
    });
  },
};

/** Apps with an automation each, after a restart, when none of them is live: `first` calls each of them once. */
async function inTurnsOnColdApps(
  context: Context,
  scenario: string,
  name: string,
  first: (daemon: Daemon, app: string) => Promise<unknown>,
): Promise<Fact[]> {
  const { config, options } = context;
  const dataDir = context.newFolder();
  const apps = Array.from({ length: options.smoke ? SMOKE_RUNS : RUNS }, (_, i) => `${APP}-${i}`);
  const before = await Daemon.start({ dataDir, config });
  for (const app of apps) await before.install(app, await packApp(app, automationFiles(FIRED, [])));
  await before.stop();
  return Daemon.use({ dataDir, config }, async (daemon) => {
    return await compareWithNode(context, scenario, name, (run) => timed(() => first(daemon, apps[run] as string)));
  });
}

/** Medians of runs of `measure` and of `node -e 0` in turns, and the median of the quotients of neighbours. */
async function compareWithNode(
  { options }: Context,
  scenario: string,
  name: string,
  measure: (run: number) => Promise<number>,
  runs = options.smoke ? SMOKE_RUNS : RUNS,
): Promise<Fact[]> {
  const node: number[] = [];
  const measured: number[] = [];
  for (let run = 0; run < runs; run++) {
    node.push(await nodeStart());
    measured.push(await measure(run));
  }
  const detail = `median of ${runs} runs`;
  const quotient = median(measured.map((ms, i) => ms / (node[i] as number)));
  const fact = factsOf(scenario);
  return [
    fact('node -e 0', median(node), 'ms', detail),
    fact(name, median(measured), 'ms', detail),
    fact(`${name}, p99`, percentile(measured, 0.99), 'ms', `of ${runs} runs`),
    fact(`${name}, of node -e 0`, quotient, '×', detail),
  ];
}

function nodeStart(): Promise<number> {
  return timed(() => once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit'));
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
