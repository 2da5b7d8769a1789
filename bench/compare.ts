/** One workload on the gateway and, beside it in the same run, on the bare edge and the plain server. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { inParallel } from '../storage/files/atomic-file.ts';
import { APP, benchApp, largeFile } from './bench-app.ts';
import { type Contender, onGateway, onServer } from './contenders.ts';
import { type Builds, type Context, sized } from './context.ts';
import { Daemon, type DaemonOptions } from './daemon.ts';
import type { LoadTask } from './load/task.ts';
import type { LoadMeasurement } from './measurements.ts';
import { type BareAnswer, type ReferenceServer, type Server, startBareEdge, startPlain } from './servers.ts';
import { takeTurns } from './turns.ts';
import { CHANGES, httpBytes, PLAIN_CHANGES, type Request, type Workload } from './workload.ts';

/** The least that lets the interval of a ratio be told at all. */
export const ROUNDS = 6;
const SMOKE_ROUNDS = 2;
/** More than beside references: what two builds differ by is often small. */
export const BUILD_ROUNDS = { full: 12, smoke: SMOKE_ROUNDS };
const SMOKE_SUBSCRIBERS = 300;
/** Before the first round, once for each contender: code gets compiled. */
const WARM_UP_MS = { full: 1500, smoke: 50 };
const WARM_UP_CONNECTIONS = 8;
/** Apps installed at a time. */
const UPLOADS = 4;
/** Headers that each server makes itself. */
const OWN_HEADERS = new Set(['content-length', 'date', 'connection', 'keep-alive', 'transfer-encoding']);
/** The plain server looks at no token; a header of that kind is sent to it all the same. */
const NO_TOKEN = 'none';

type Running = { stop(): Promise<unknown> };

export async function compare(context: Context, workload: Workload): Promise<LoadMeasurement[]> {
  const load = sized(context, { full: workload, smoke: shortened(workload) });
  return whileRunning(async (keep) => {
    const daemon = keep(await startDaemon(context, load));
    const bare = keep(await startBareEdge(await answerOf(daemon, load)));
    const plain = keep(await startPlainWithApp(context, load));
    const { beside } = load;
    return measure(context, load, [
      gatewayUnder('gateway', daemon, context, load),
      onServer('bare edge', bare, context, taskOf(load, load.requests, CHANGES, daemon.token)),
      ...(beside ? [gatewayUnder(beside.name, daemon, context, load, beside.requests)] : []),
      plainUnder('plain server', plain, context, load),
    ]);
  });
}

/** One workload on two builds. */
export function compareBuildsUnder(context: Context, load: Workload, { A, B }: Builds): Promise<LoadMeasurement[]> {
  return whileRunning(async (keep) => {
    const under = async (name: string, root: string) =>
      gatewayUnder(name, keep(await startDaemon(context, load, { root })), context, load);
    return measure(context, load, [await under('B', B), await under('A', A)], BUILD_ROUNDS.full);
  });
}

/** Does the work, and then stops every server that it has kept. */
export async function whileRunning<T>(work: (keep: <S extends Running>(server: S) => S) => Promise<T>): Promise<T> {
  const running: Running[] = [];
  try {
    return await work((server) => {
      running.push(server);
      return server;
    });
  } finally {
    await Promise.all(running.map((one) => one.stop()));
  }
}

function shortened(load: Workload): Workload {
  return {
    ...load,
    ...(load.connections && { connections: load.connections.slice(0, 1) }),
    ...(load.subscribers !== undefined && { subscribers: Math.min(load.subscribers, SMOKE_SUBSCRIBERS) }),
  };
}

/** The contenders in turns, at each number of connections; what is asked about is the first of them. */
export async function measure(
  context: Context,
  load: Workload,
  contenders: Contender[],
  fullRounds = ROUNDS,
): Promise<LoadMeasurement[]> {
  const { options } = context;
  const rounds = sized(context, { full: fullRounds, smoke: SMOKE_ROUNDS });
  const warmUpMs = sized(context, WARM_UP_MS);
  const allConnections = load.connections ?? options.connections;
  for (const contender of contenders) {
    const connections = Math.min(WARM_UP_CONNECTIONS, Math.max(...allConnections));
    await contender.run({ connections, warmUpMs, measureMs: 1 });
  }
  const results: LoadMeasurement[] = [];
  for (const connections of allConnections) {
    const { scenario, question, durability } = load;
    const measureMs = (options.seconds * 1000) / rounds;
    const turns = { scenario, question, durability, connections, rounds, measureMs };
    results.push(await takeTurns(context, contenders, turns));
  }
  return results;
}

/** A daemon with the apps of the load. */
export async function startDaemon(
  context: Context,
  load: Workload,
  options: Pick<DaemonOptions, 'root' | 'env'> = {},
): Promise<Daemon> {
  const { profileDir } = context;
  const durability = load.durability ?? 'full';
  const config = { ...context.config, durability };
  const daemon = await Daemon.start({ dataDir: context.newFolder(), config, profileDir, ...options });
  try {
    await daemon.install(APP, benchApp(APP, largeFile()));
    await installAll(daemon, load.apps ?? []);
    return daemon;
  } catch (error) {
    await daemon.stop();
    throw error;
  }
}

export function installAll(daemon: Daemon, apps: string[]): Promise<void> {
  return inParallel(apps, UPLOADS, async (app) => void (await daemon.install(app, benchApp(app))));
}

/** What a generator is told: the requests as bytes, and the stream that its subscribers open. */
function taskOf(
  { subscribers }: Workload,
  requests: Request[],
  stream: Request,
  token: string,
): Pick<LoadTask, 'requests' | 'subscribe'> {
  return {
    requests: requests.map((request) => httpBytes(request, token)),
    ...(subscribers !== undefined && {
      subscribe: { request: httpBytes(stream, token), subscribers, live: stream.path.includes('/_live?') },
    }),
  };
}

export function gatewayUnder(
  name: string,
  daemon: Daemon,
  context: Context,
  load: Workload,
  requests = load.requests,
): Contender {
  return onGateway(name, daemon, context, taskOf(load, requests, load.live ?? CHANGES, daemon.token));
}

/** The plain server, or one that takes the same requests. */
export function plainUnder(name: string, server: Server, context: Context, load: Workload): Contender {
  return onServer(name, server, context, taskOf(load, load.plain, PLAIN_CHANGES, NO_TOKEN));
}

/** With the app's files and a database. */
function startPlainWithApp(context: Context, load: Workload): Promise<ReferenceServer> {
  const folder = context.newFolder();
  for (const [name, content] of Object.entries(benchApp(APP, largeFile()))) {
    const path = join(folder, APP, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  return startPlain(folder, load.durability ?? 'full');
}

/** The gateway's answer to the first request, for the bare edge to repeat. */
async function answerOf(daemon: Daemon, load: Workload): Promise<BareAnswer> {
  const { method, path, body, headers } = load.requests[0] as Request;
  const content = body && JSON.stringify(body);
  const response = await daemon.request(method, path, content, 'application/json', headers);
  const change = {
    app: APP,
    table: 'notes',
    tables: ['notes'],
    action: 'put',
    source: 'handler',
    ts: Date.now(),
    seq: Date.now() * 1000,
  };
  return {
    status: `${response.status} ${response.statusText}`,
    headers: [...response.headers].filter(([name]) => !OWN_HEADERS.has(name)),
    body: Buffer.from(await response.arrayBuffer()).toString('base64'),
    event: `event: change\nid: ${change.seq}\ndata: ${JSON.stringify(change)}\n\n`,
  };
}
