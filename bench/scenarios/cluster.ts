/** What a cluster costs beside one gateway and beside plain PostgreSQL, how soon a killed node is replaced, and what a quiet app takes. */
import { inParallel } from '../../storage/files/atomic-file.ts';
import { whyNoPostgres } from '../../testing/postgres.ts';
import { memoryOfAll } from '../../testing/processes.ts';
import { pause } from '../../testing/waiting.ts';
import { benchApp } from '../bench-app.ts';
import { Cluster } from '../cluster.ts';
import { whileRunning } from '../compare.ts';
import { type Contender, onServer } from '../contenders.ts';
import { type Context, type Scenario, sized } from '../context.ts';
import { Daemon } from '../daemon.ts';
import { type Finding, fact, type LoadMeasurement, type SideResult } from '../measurements.ts';
import { closedLoop, PlainPostgres } from '../plain-postgres.ts';
import { median, percentile } from '../statistics.ts';
import { takeTurns } from '../turns.ts';
import { httpBytes } from '../workload.ts';
import { type Call, read, write } from './workloads.ts';

const NODES = ['one', 'two', 'three'];
const MANY = { full: 64, smoke: 4 };
const ROUNDS = { full: 12, smoke: 2 };
const WARM_UP_MS = { full: 2000, smoke: 50 };
const KILLS = { full: 100, smoke: 2 };
const QUIET_APPS = { full: 200, smoke: 2 };
/** Until what the start left behind was collected or not. */
const SETTLE_MS = { full: 3000, smoke: 300 };
const MiB = 2 ** 20;

const ALONE = 'one gateway';
const PLAIN = 'one INSERT a commit';
const OWNER = 'at its owner';
const FORWARDED = 'forwarded';

export const clusterScenario: Scenario = {
  name: 'cluster',
  question:
    'What do writes and reads in a cluster cost beside one gateway and one INSERT a commit, and how soon is a killed node replaced?',
  run: async (context) => {
    const missing = whyNoPostgres();
    if (missing !== null) {
      context.progress(`  It is left out: ${missing}.`);
      return [];
    }
    return whileRunning(async (keep) => {
      const cluster = keep(await Cluster.start(context, NODES));
      const apps = await cluster.installEverywhere();
      const alone = keep(await Daemon.start({ dataDir: context.newFolder(), config: context.config }));
      await alone.install(apps[0] as string, benchApp(apps[0]));
      return [
        ...(await writes(context, cluster, apps, alone)),
        ...(await reads(context, cluster, apps[0] as string, alone)),
        ...(await takeOvers(context, cluster, apps[0] as string)),
        await quietApps(context, cluster),
      ];
    });
  },
};

/** A hundred requests for different rows of an app. */
function requestsOf(call: (id: number, app: string) => Call, app: string, { token }: Daemon): Buffer[] {
  return Array.from({ length: 100 }, (_, i) => httpBytes(call(1 + i * 10, app).request, token));
}

/** The servers, each with requests of its own; connections go to all of them in turn. */
function onDaemons(
  name: string,
  context: Context,
  daemons: Daemon[],
  requests: (daemon: Daemon, at: number) => Buffer[],
  processes = daemons,
): Contender {
  const [first, ...others] = daemons.map((daemon, at) => ({ port: daemon.port, requests: requests(daemon, at) }));
  return {
    ...onServer(name, daemons[0] as Daemon, context, { requests: first?.requests ?? [], others }),
    processes: () => processes.flatMap((daemon) => daemon.processes),
  };
}

async function writes(
  context: Context,
  cluster: Cluster,
  apps: string[],
  alone: Daemon,
): Promise<(LoadMeasurement | Finding)[]> {
  const many = sized(context, MANY);
  const plain = await PlainPostgres.open(cluster.postgres.url, many);
  const nodes = cluster.nodes.map((_, at) =>
    onDaemons(at === 0 ? '1 node' : `${at + 1} nodes`, context, cluster.nodes.slice(0, at + 1), (node, of) =>
      requestsOf(write, apps[of] as string, node),
    ),
  );
  const others = [
    onDaemons(ALONE, context, [alone], (daemon) => requestsOf(write, apps[0] as string, daemon)),
    onPlain(plain),
  ];
  const asked = 'How many acknowledged writes a second, at {n} in flight?';
  try {
    const one = await inTurns(context, [nodes[0] as Contender, ...others], { connections: 1, question: asked });
    const all = await inTurns(context, [...nodes, ...others], { connections: many, question: asked });
    const detail = `median over neighbouring rounds at ${many} in flight`;
    const later = p50Of(one, '1 node') - p50Of(one, PLAIN);
    return [
      one,
      all,
      ...nodes.map(({ name }) =>
        fact(`${name}, writes beside one INSERT a commit`, ratio(all, name, PLAIN), '×', detail),
      ),
      ...nodes.map(({ name }) => fact(`${name}, writes beside one gateway`, ratio(all, name, ALONE), '×', detail)),
      fact('one write, later than one INSERT and its commit', later, 'ms', 'difference of the medians, one at a time'),
    ];
  } finally {
    await plain.close();
  }
}

async function reads(
  context: Context,
  cluster: Cluster,
  app: string,
  alone: Daemon,
): Promise<(LoadMeasurement | Finding)[]> {
  const [owner, other] = cluster.nodes as [Daemon, Daemon];
  const requests = (daemon: Daemon): Buffer[] => requestsOf(read, app, daemon);
  const sides = [
    onDaemons(OWNER, context, [owner], requests),
    onDaemons(ALONE, context, [alone], requests),
    onDaemons(FORWARDED, context, [other], requests, [other, owner]),
  ];
  const question = 'How many reads of one row a second, at {n} in flight?';
  const one = await inTurns(context, sides, { connections: 1, question });
  const many = await inTurns(context, sides, { connections: sized(context, MANY), question });
  const later = median(
    roundsOf(one, FORWARDED).map(({ p50 }, i) => p50 - (roundsOf(one, OWNER)[i]?.p50 ?? Number.NaN)),
  );
  return [
    one,
    many,
    fact(
      'a read at its owner, processor time beside one gateway',
      cpuOf(many, OWNER) / cpuOf(many, ALONE),
      '×',
      'of all processes',
    ),
    fact('a forwarded read, later', later, 'ms', 'median of the differences of both medians, one read at a time'),
  ];
}

async function takeOvers(context: Context, cluster: Cluster, app: string): Promise<Finding[]> {
  const times: number[] = [];
  while (times.length < sized(context, KILLS)) times.push(await cluster.takeOver(app));
  const detail = `from kill -9 of ${times.length} nodes, one after the other, until another one acknowledged a write`;
  return [
    fact('take-over', median(times), 'ms', `median, ${detail}`),
    fact('take-over, p99', percentile(times, 0.99), 'ms', detail),
  ];
}

/** What apps that nobody calls add to the memory of the node that has all of them. */
async function quietApps(context: Context, cluster: Cluster): Promise<Finding> {
  const [node, ...others] = cluster.nodes as [Daemon, ...Daemon[]];
  await Promise.all(others.map((other) => other.kill()));
  await cluster.settled();
  const afterStart = async (): Promise<number> => {
    const { port } = node;
    await node.stop();
    await node.start(String(port));
    await cluster.settled();
    await pause(sized(context, SETTLE_MS));
    await node.refresh();
    return memoryOfAll(node.processes).pss;
  };
  const before = await afterStart();
  const count = sized(context, QUIET_APPS);
  const ids = Array.from({ length: count }, (_, i) => `quiet-${i}`);
  await inParallel(ids, 4, (id) => cluster.install(node, id));
  const each = ((await afterStart()) - before) / count;
  return fact('a quiet app', each / MiB, 'MiB', `PSS that ${count} apps add to a node, after a start, by their number`);
}

/** As a client does without a gateway. */
function onPlain(plain: PlainPostgres): Contender {
  return {
    name: PLAIN,
    processes: () => [],
    run: async ({ connections, warmUpMs, measureMs }) => {
      const insert = (client: number): Promise<void> => plain.write(client);
      await closedLoop(insert, connections, warmUpMs);
      const before = process.cpuUsage();
      const { rate, latencies } = await closedLoop(insert, connections, measureMs);
      const { user, system } = process.cpuUsage(before);
      const answered = latencies.length;
      const nothing = { delivery: [], events: 0, failed: 0, firstFailure: null };
      const elapsedMs = (answered / rate) * 1000;
      return { ...nothing, answered, requests: answered, elapsedMs, latencies, cpuMs: (user + system) / 1000 };
    },
  };
}

async function inTurns(
  context: Context,
  contenders: Contender[],
  asked: Pick<LoadMeasurement, 'connections' | 'question'>,
): Promise<LoadMeasurement> {
  const rounds = sized(context, ROUNDS);
  const warmUp = { connections: asked.connections, warmUpMs: sized(context, WARM_UP_MS), measureMs: 1 };
  for (const contender of contenders) await contender.run(warmUp);
  const measureMs = (context.options.seconds * 1000) / rounds;
  return takeTurns(context, contenders, { ...asked, scenario: 'cluster', durability: null, rounds, measureMs });
}

function sideOf({ sides }: LoadMeasurement, name: string): SideResult {
  return sides[name] as SideResult;
}

function roundsOf(measured: LoadMeasurement, name: string): SideResult['rounds'] {
  return sideOf(measured, name).rounds;
}

function p50Of(measured: LoadMeasurement, name: string): number {
  return median(roundsOf(measured, name).map(({ p50 }) => p50));
}

/** How many times as many requests a second one answers. */
function ratio(measured: LoadMeasurement, one: string, other: string): number {
  const beside = roundsOf(measured, other);
  return median(
    roundsOf(measured, one).map(({ requestsPerSecond }, i) => requestsPerSecond / (beside[i]?.requestsPerSecond ?? 0)),
  );
}

/** Of one request, without the load generator. */
function cpuOf(measured: LoadMeasurement, name: string): number {
  const { load: _, ...processes } = sideOf(measured, name).cpu;
  return Object.values(processes).reduce((sum, used) => sum + used, 0);
}
