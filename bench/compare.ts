/** One workload on the gateway and, beside it in the same run, on the bare edge and the plain server. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { APP, fillFolder, largeFile, packApp } from './bench-app.ts';
import { type Contender, onGateway, onServer } from './contenders.ts';
import { type Context, sized } from './context.ts';
import { Daemon, type DaemonOptions } from './daemon.ts';
import type { LoadTask } from './load/task.ts';
import type { LoadMeasurement } from './measurements.ts';
import { type BareAnswer, type ReferenceServer, type Server, startBareEdge, startPlain } from './servers.ts';
import { SMOKE_WARM_UP_MS, takeTurns } from './turns.ts';
import { CHANGES, httpBytes, PLAIN_CHANGES, type Request, type Workload } from './workload.ts';

/** The least that lets the interval of a ratio be told at all. */
const ROUNDS = 6;
const SMOKE_ROUNDS = 2;
const SMOKE_SUBSCRIBERS = 300;
/** Before the first round, once for each contender: code gets compiled. */
const WARM_UP_MS = 1500;
const WARM_UP_CONNECTIONS = 8;
/** Apps installed at a time. */
const UPLOADS = 4;
/** Headers that each server makes itself. */
const OWN_HEADERS = new Set(['content-length', 'date', 'connection', 'keep-alive', 'transfer-encoding']);
/** The plain server looks at no token; a header of that kind is sent to it all the same. */
const NO_TOKEN = 'none';

type Running = { stop(): Promise<unknown> };

export async function compare(context: Context, workload: Workload): Promise<LoadMeasurement[]> {
  const load = sized(context, workload, shortened(workload));
  const running: Running[] = [];
  try {
    const daemon = await startDaemon(context, load);
    running.push(daemon);
    const bare = await startBareEdge(await answerOf(daemon, load));
    running.push(bare);
    const plain = await startPlainWithApp(context, load);
    running.push(plain);
    const { beside } = load;
    return await measure(context, load, [
      gatewayUnder('gateway', daemon, context, load),
      onServer('bare edge', bare, context, taskOf(load, load.requests, CHANGES, daemon.token)),
      ...(beside ? [gatewayUnder(beside.name, daemon, context, load, beside.requests)] : []),
      plainUnder('plain server', plain, context, load),
    ]);
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
  const rounds = sized(context, fullRounds, SMOKE_ROUNDS);
  const warmUpMs = sized(context, WARM_UP_MS, SMOKE_WARM_UP_MS);
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
    await daemon.install(APP, await packApp(APP, largeFile()));
    await installAll(daemon, load.apps ?? []);
    return daemon;
  } catch (error) {
    await daemon.stop();
    throw error;
  }
}

export async function installAll(daemon: Daemon, apps: string[]): Promise<void> {
  const waiting = [...apps];
  const uploader = async (): Promise<void> => {
    for (let app = waiting.shift(); app !== undefined; app = waiting.shift()) {
      await daemon.install(app, await packApp(app));
    }
  };
  await Promise.all(Array.from({ length: UPLOADS }, uploader));
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
async function startPlainWithApp(context: Context, load: Workload): Promise<ReferenceServer> {
  const folder = context.newFolder();
  await mkdir(join(folder, APP));
  await fillFolder(join(folder, APP), APP, largeFile());
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
