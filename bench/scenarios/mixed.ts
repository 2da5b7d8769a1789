/**
 * Reads, lists, writes and files together, first beside references; then for as long as is asked beside everything else that comes to
 * a gateway: does what it holds stay flat?
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Random } from '../../testing/random.ts';
import { APP, benchApp, largeFile, ROWS } from '../bench-app.ts';
import { compare, installAll } from '../compare.ts';
import { type Context, type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import type { LoadResult } from '../load/task.ts';
import { type Finding, fact } from '../measurements.ts';
import { type Growth, probeFlags, type Sample, secondHalf, sum, takeCourse } from '../soak/course.ts';
import { prepareVisits, type Visits } from '../soak/visitors.ts';
import { httpBytes, plainRequest, type Workload } from '../workload.ts';
import { type Call, list, read, write, writeBatch } from './workloads.ts';

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
/** Of the long run. */
const CONNECTIONS = 16;
const STREAMS_PER_APP = 2;
const SAMPLES = 120;
const LEAST_SAMPLE_MS = 500;
const MiB = 2 ** 20;
const QUESTION = 'How many requests of a mix a second at {n} in flight, and does what the gateway holds stay flat?';

export const mixedScenario: Scenario = {
  name: 'mixed',
  question: QUESTION,
  run: async (context) => {
    const load = mixedLoad(sized(context, { full: APPS, smoke: APPS.slice(0, 2) }));
    return [...(await compare(context, load)), ...(await soak(context, load))];
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

async function soak(context: Context, load: Workload): Promise<Finding[]> {
  // Not below the run's own folder: the path of a socket has to be short.
  const sockets = mkdtempSync(join(tmpdir(), 'svc-heap-'));
  const heapSocket = join(sockets, 'supervisor');
  try {
    return await withDaemon(context, (daemon) => soakIn(context, load, daemon, heapSocket), {
      config: { durability: 'full', appsStoreRoot: 'code-store' },
      flags: probeFlags(heapSocket),
    });
  } finally {
    rmSync(sockets, { recursive: true, force: true });
  }
}

async function soakIn(context: Context, load: Workload, daemon: Daemon, heapSocket: string): Promise<Finding[]> {
  const { minutes, rate } = context.options;
  const measureMs = sized(context, { full: minutes * 60_000, smoke: 3000 });
  const sampling = new AbortController();
  const streams = new AbortController();
  try {
    await daemon.install(APP, benchApp(APP, largeFile()));
    await installAll(daemon, load.apps ?? []);
    await openStreams(daemon, load.apps ?? [], streams.signal);
    const visitors = await prepareVisits(daemon);
    const course = takeCourse(daemon, heapSocket, {
      everyMs: Math.max(LEAST_SAMPLE_MS, measureMs / SAMPLES),
      until: sampling.signal,
      onSample: (sample) => context.progress(`  ${described(sample)}`),
    });
    // What went wrong is told when it is awaited.
    course.catch(() => {});
    visitors.start();
    const result = await context.generators.run({
      port: daemon.port,
      requests: load.requests.map((request) => httpBytes(request, daemon.token)),
      connections: CONNECTIONS,
      intervalMs: (1000 * CONNECTIONS) / rate,
      warmUpMs: 0,
      measureMs,
    });
    sampling.abort();
    await visitors.stop();
    if (result.failed > 0) throw new Error(`${result.failed} requests failed, the first with ${result.firstFailure}.`);
    return facts(result, visitors.seen, await course, rate, measureMs);
  } finally {
    sampling.abort();
    streams.abort();
  }
}

/** Readers of change streams, as open pages are. */
async function openStreams(daemon: Daemon, apps: string[], signal: AbortSignal): Promise<void> {
  for (const app of apps) {
    for (let i = 0; i < STREAMS_PER_APP; i++) {
      const { body } = await fetch(`${daemon.url}/svc/${app}/_changes`, {
        headers: { authorization: `Bearer ${daemon.token}` },
        signal,
      });
      body?.pipeTo(new WritableStream()).catch(() => {});
    }
  }
}

/** One line while it runs. */
function described({ at, heap, rss, descriptors, threads, files }: Sample): string {
  const memory = Object.entries(rss).map(([name, bytes]) => `${name} ${(bytes / MiB).toFixed(0)}`);
  return [
    `${at.toFixed(0)} s: heap ${(heap.heapUsed / MiB).toFixed(2)} MiB, buffers ${(heap.arrayBuffers / MiB).toFixed(2)} MiB`,
    `RSS in MiB: ${memory.join(', ')}`,
    `${sum(descriptors)} descriptors, ${sum(threads)} threads, ${files.count} files of ${(files.bytes / MiB).toFixed(0)} MiB`,
  ].join('; ');
}

function facts(
  result: LoadResult,
  { visits, failed, firstFailure }: Visits,
  samples: Sample[],
  rate: number,
  measureMs: number,
): Finding[] {
  const of = `in the second half of ${(measureMs / 60_000).toFixed(1)} minutes`;
  const grown = (name: string, what: (sample: Sample) => number, shown: (growth: Growth) => string): Finding => {
    const growth = secondHalf(samples, what);
    return fact(`growth of ${name}`, 100 * growth.share, '%', `${of}, around ${shown(growth)}`);
  };
  const inMiB = ({ middle }: Growth): string => `${(middle / MiB).toFixed(1)} MiB`;
  const counted = ({ middle }: Growth): string => `${middle.toFixed(0)}`;
  const processes = Object.keys(samples.at(-1)?.rss ?? {});
  const kinds = Object.entries(visits).map(([kind, count]) => `${kind} ${count}`);
  return [
    fact('requests', result.answered / (result.elapsedMs / 1000), '/s', `asked for ${rate} a second`),
    fact('visits', sum(visits) / (measureMs / 1000), '/s', kinds.join(', ')),
    fact('visits that failed', failed, '', firstFailure ?? 'none'),
    grown("the supervisor's heap", ({ heap }) => heap.heapUsed, inMiB),
    grown("the supervisor's buffers", ({ heap }) => heap.arrayBuffers, inMiB),
    ...processes.map((name) => grown(`RSS, ${name}`, ({ rss }) => rss[name] ?? 0, inMiB)),
    grown('PSS of all processes', ({ pss }) => sum(pss), inMiB),
    grown('descriptors', ({ descriptors }) => sum(descriptors), counted),
    grown('threads', ({ threads }) => sum(threads), counted),
    grown('files in the data directory', ({ files }) => files.count, counted),
    grown('bytes in the data directory', ({ files }) => files.bytes, inMiB),
  ];
}
