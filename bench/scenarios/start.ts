/** How long a daemon takes until it answers, and an app or automation that nobody has called yet; next to `node -e 0`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { APP, automationFiles } from '../bench-app.ts';
import { type Context, type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { type Finding, fact, timed } from '../measurements.ts';
import { median, percentile } from '../statistics.ts';
import { appIds, crowd } from './crowd.ts';
import { cpuOf, sum } from './start-cost.ts';

const RUNS = 9;
const SMOKE_RUNS = 3;
const FIRED = 'fired';
const MANY = { full: 1000, smoke: 20 };
/** By then a host has started its next spare thread. */
const SPARE_MS = 300;
/** More than may be live at a time, so that the last of them make others leave. */
const MANY_RUNS = 100;
/** The apps called lie apart in the order of their numbers. */
const STEP = 9;

export const readyScenario: Scenario = {
  name: 'ready',
  question: 'How long does the daemon take until it accepts requests?',
  run: async (context) => {
    const dataDir = await crowd(context, [APP]);
    return compareWithNode(context, 'daemon ready', () =>
      withDaemon(context, async ({ readyMs }) => ({ ms: readyMs }), { dataDir }),
    );
  },
};

export const coldScenario: Scenario = {
  name: 'cold',
  question: 'How long does the first call of an app take that is not live?',
  run: (context) => onColdApps(context, 'first answer of a cold actor', RUNS, (daemon, app) => daemon.readNote(app)),
};

export const coldWriteScenario: Scenario = {
  name: 'cold-write',
  question: 'How long does the first call of an app take that is not live, if it writes?',
  run: (context) => onColdApps(context, 'first write of a cold actor', RUNS, (daemon, app) => daemon.writeNote(app)),
};

export const coldFireScenario: Scenario = {
  name: 'cold-fire',
  question: 'How long does the first run take of an automation whose app nobody has used, until its end is stored?',
  run: (context) =>
    onColdApps(
      context,
      'first run of an automation',
      RUNS,
      async (daemon, app) => {
        const response = await daemon.request('POST', `/svc/_automations/${app}/${FIRED}/run?wait=1`, '{}');
        const { state } = (await response.json()) as { state: string };
        if (state !== 'ok') throw new Error(`A run ended as ${state}.`);
      },
      { files: automationFiles(FIRED, []) },
    ),
};

export const coldManyScenario: Scenario = {
  name: 'cold-1000',
  question: 'How long does the first call take of an app that is not live, among 1,000 that are registered?',
  run: (context) =>
    onColdApps(context, 'first answer among many', MANY_RUNS, (daemon, app) => daemon.readNote(app), {
      registered: sized(context, MANY),
    }),
};

/** Apps after a restart, when none of them is live: `first` calls some of them once. */
async function onColdApps(
  context: Context,
  name: string,
  fullRuns: number,
  first: (daemon: Daemon, app: string) => Promise<unknown>,
  { registered, files }: { registered?: number; files?: Record<string, string> } = {},
): Promise<Finding[]> {
  const runs = sized(context, { full: fullRuns, smoke: SMOKE_RUNS });
  const apps = appIds(registered ?? runs);
  const step = registered === undefined ? 1 : STEP;
  const dataDir = await crowd(context, apps, files);
  const work = (daemon: Daemon) => async (run: number) => {
    // Among many, they follow each other as fast as they are answered.
    if (registered === undefined) await wait(SPARE_MS);
    const before = sum(cpuOf(daemon));
    const ms = await timed(() => first(daemon, apps[(run * step) % apps.length] as string));
    return { ms, cpuMs: sum(cpuOf(daemon)) - before };
  };
  return withDaemon(context, (daemon) => compareWithNode(context, name, work(daemon), runs), { dataDir });
}

/** Medians of runs of `measure` and of `node -e 0` in turns, and the median of the quotients of neighbours. */
async function compareWithNode(
  context: Context,
  name: string,
  measure: (run: number) => Promise<{ ms: number; cpuMs?: number }>,
  runs = sized(context, { full: RUNS, smoke: SMOKE_RUNS }),
): Promise<Finding[]> {
  const node: number[] = [];
  const measured: number[] = [];
  const cpu: number[] = [];
  for (let run = 0; run < runs; run++) {
    node.push(await nodeStart());
    const { ms, cpuMs } = await measure(run);
    measured.push(ms);
    if (cpuMs !== undefined) cpu.push(cpuMs);
  }
  const detail = `median of ${runs} runs`;
  const quotient = median(measured.map((ms, i) => ms / (node[i] as number)));
  return [
    fact('node -e 0', median(node), 'ms', detail),
    fact(name, median(measured), 'ms', detail),
    fact(`${name}, p99`, percentile(measured, 0.99), 'ms', `of ${runs} runs`),
    ...(cpu.length === 0 ? [] : [fact(`${name}, processor time`, median(cpu), 'ms', 'of all processes, until then')]),
    fact(`${name}, of node -e 0`, quotient, '×', detail),
  ];
}

function nodeStart(): Promise<number> {
  return timed(() => once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit'));
}
