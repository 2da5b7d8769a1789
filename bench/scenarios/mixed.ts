/** Reads, lists, writes and files together, for as long as is asked: does memory stay flat? */
import { setTimeout as wait } from 'node:timers/promises';
import { APP, ROWS } from '../bench-app.ts';
import { compare, startDaemon } from '../compare.ts';
import type { Context, Scenario } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { Random } from '../faults/random.ts';
import type { LoadResult } from '../load/task.ts';
import type { Fact, MemoryCourse } from '../measurements.ts';
import { memoryOf } from '../process-usage.ts';
import { median, slope } from '../statistics.ts';
import { httpBytes, plainRequest, type Workload } from '../workload.ts';
import { type Call, list, read, write, writeBatch } from './tools.ts';

const APPS = Array.from({ length: 8 }, (_, i) => `${APP}-mixed-${i}`);
const CALLS = 2000;
const SEED = 1;
/** Of a hundred requests, those below each number are of its kind; the rest are style sheets. */
const MIX: [below: number, call: (id: number, app: string) => Call][] = [
  [60, read],
  [70, list],
  [88, write],
  [94, writeBatch],
];
/** Of the long run: what leaves the machine room to breathe. */
const CONNECTIONS = 16;
const REQUESTS_PER_SECOND = 800;
const STREAMS_PER_APP = 2;
const SMOKE_MS = 1000;
const SMOKE_APPS = 2;
const SAMPLES = 300;
const LEAST_SAMPLE_MS = 200;
/** Share of the time in which caches and heaps may fill; then the first and the last fifth of the rest are compared. */
const WARM_UP = 0.25;
const PART = 0.2;
const MiB = 2 ** 20;
const QUESTION = 'How many requests of a mix a second at {n} in flight, and does memory stay flat?';

export const mixedScenario: Scenario = {
  name: 'mixed',
  question: QUESTION,
  run: async (context) => {
    const load = mixedLoad(context.options.smoke ? APPS.slice(0, SMOKE_APPS) : APPS);
    const compared = await compare(context, load);
    const daemon = await startDaemon(context, load);
    try {
      return [...compared, ...(await soak(context, load, daemon))];
    } finally {
      await daemon.stop();
    }
  },
};

function mixedLoad(apps: string[]): Workload {
  const random = new Random(SEED);
  const calls = Array.from({ length: CALLS }, () => {
    const app = random.pick(apps);
    const kind = random.between(0, 99);
    const found = MIX.find(([below]) => kind < below);
    return { app, call: found?.[1](random.between(1, ROWS), app) };
  });
  return {
    scenario: 'mixed',
    question: QUESTION,
    durability: 'full',
    requests: calls.map(({ app, call }) => call?.request ?? { method: 'GET', path: `/svc/${app}/style.css` }),
    plain: calls.map(({ app, call }) =>
      call ? plainRequest(call.operation, call.input, app) : { method: 'GET', path: `/${APP}/style.css` },
    ),
    apps,
  };
}

async function soak(context: Context, load: Workload, daemon: Daemon): Promise<(Fact | MemoryCourse)[]> {
  const measureMs = context.options.smoke ? SMOKE_MS : context.options.minutes * 60_000;
  const streams = await openStreams(daemon, load.apps ?? []);
  const sampling = new AbortController();
  const sampled = sampleMemory(daemon, Math.max(LEAST_SAMPLE_MS, measureMs / SAMPLES), sampling.signal);
  try {
    const result = await context.generators.run({
      port: daemon.port,
      requests: load.requests.map((request) => httpBytes(request, daemon.token)),
      connections: CONNECTIONS,
      intervalMs: (1000 * CONNECTIONS) / REQUESTS_PER_SECOND,
      warmUpMs: 0,
      measureMs,
    });
    if (result.failed > 0) throw new Error(`${result.failed} requests failed, the first with ${result.firstFailure}.`);
    sampling.abort();
    return describe(result, await sampled, measureMs);
  } finally {
    sampling.abort();
    streams.abort();
  }
}

/** Readers of change streams, as open pages are. */
async function openStreams(daemon: Daemon, apps: string[]): Promise<AbortController> {
  const open = new AbortController();
  for (const app of apps) {
    for (let i = 0; i < STREAMS_PER_APP; i++) {
      const { body } = await fetch(`${daemon.url}/svc/${app}/_changes`, {
        headers: { authorization: `Bearer ${daemon.token}` },
        signal: open.signal,
      });
      body?.pipeTo(new WritableStream()).catch(() => {});
    }
  }
  return open;
}

async function sampleMemory(daemon: Daemon, everyMs: number, until: AbortSignal): Promise<MemoryCourse['samples']> {
  await daemon.refresh();
  const startedAt = performance.now();
  const samples: MemoryCourse['samples'] = [];
  while (!until.aborted) {
    samples.push({
      at: (performance.now() - startedAt) / 1000,
      pss: Object.fromEntries(daemon.processes.map(({ name, pid }) => [name, memoryOf(pid).pss])),
    });
    await wait(everyMs, undefined, { signal: until }).catch(() => {});
  }
  return samples;
}

function describe(result: LoadResult, samples: MemoryCourse['samples'], measureMs: number): (Fact | MemoryCourse)[] {
  const steady = samples
    .filter(({ at }) => at * 1000 >= WARM_UP * measureMs)
    .map(({ at, pss }) => ({ x: at / 60, y: Object.values(pss).reduce((sum, bytes) => sum + bytes, 0) / MiB }));
  const part = Math.max(1, Math.floor(steady.length * PART));
  const first = median(steady.slice(0, part).map(({ y }) => y));
  const last = median(steady.slice(-part).map(({ y }) => y));
  const minutes = measureMs / 60_000;
  const fact = (name: string, value: number, unit: Fact['unit'], detail: string): Fact => ({
    kind: 'fact',
    scenario: 'mixed',
    name,
    value,
    unit,
    detail,
  });
  const rest = `of the last ${(100 * (1 - WARM_UP)).toFixed(0)} % of ${minutes.toFixed(1)} minutes`;
  return [
    fact('requests', result.answered / (result.elapsedMs / 1000), '/s', `asked for ${REQUESTS_PER_SECOND} a second`),
    fact('memory, first median', first, 'MiB', `PSS of all processes, first fifth ${rest}`),
    fact('memory, last median', last, 'MiB', `last fifth ${rest}`),
    fact('last of first median', last / first, '×', 'the two above'),
    fact('memory, slope', slope(steady), 'MiB/min', `median of all pairs of samples ${rest}`),
    { kind: 'memory', scenario: 'mixed', samples },
  ];
}
