/**
 * The gateway, in a Node of its own: serves HTTP on a Unix socket for the host's routes to hand on to, and has the host run turns
 * and automations (specification, "Hosts that exist"). It ends with its host.
 */
import { randomUUID, timingSafeEqual } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { buildGateway, type ConversationRunner, type FireResult, type Gateway, type HostFire } from 'svc-gateway';
import { TurnEvents } from '../turn-events.ts';
import {
  ADDRESS_HEADER,
  type FireAsk,
  type FireOrder,
  PROOF_HEADER,
  type Started,
  type StartOrder,
  type ToolOrder,
  type TurnEvent,
} from './exchanged.ts';
import { Peer, type Port } from './peer.ts';

/** Below the data directory, while a gateway runs on it: the process of its host. */
const HOST_FILE = 'run/host.json';
/** How long the gateway of a host that died may take to end. */
const ORPHAN_MS = 15_000;
const DRAIN_MS = 10_000;

let gateway: Gateway | null = null;
let server: Server | null = null;
let folder: string | null = null;
const turns = new Map<string, TurnEvents>();
const fires = new Map<string, HostFire>();

const peer = new Peer(process as Port, {
  start,
  stop: () => end(DRAIN_MS),
  tool: ({ name, args, token }: ToolOrder, signal) => {
    if (gateway === null) throw new Error('The gateway has not started.');
    return gateway.callTool({ name, args, token, signal });
  },
  event: ({ turnId, event }: TurnEvent) => turns.get(turnId)?.push(event),
  ask,
});

// The host is gone: what is acknowledged is on disk, and nobody waits for the rest.
process.on('disconnect', () => {
  setTimeout(() => process.exit(1), 5000).unref();
  void end(0).finally(() => process.exit(0));
});
// A terminal sends these to all of its processes; the host decides when its gateway ends.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => {});

async function start({ dataDir, settings, url, proof, hostPid }: StartOrder): Promise<Started> {
  checkKind(dataDir);
  const wanted = Buffer.from(proof);
  const built = buildGateway({
    ...settings,
    dataDir,
    appsStoreRoot: 'code-store',
    kind: 'plugin',
    auth: false,
    admits: (request) => isProof(request.header(PROOF_HEADER), wanted),
    pageOrigins: 'shared',
    conversationRunner,
    runnerStatus: async () => ({ kind: 'openclaw', ok: true }),
    fireAutomationFactory: () => runFire,
    onFatal: () => process.exit(1),
  });
  await startOnce(built, dataDir);
  gateway = built;
  mkdirSync(join(dataDir, 'run'), { recursive: true, mode: 0o700 });
  writeFileSync(join(dataDir, HOST_FILE), JSON.stringify({ pid: hostPid }), { mode: 0o600 });
  // Handlers are modules, whatever a folder above this one says.
  writeFileSync(join(dataDir, 'code-store', 'package.json'), '{ "type": "module" }\n', { mode: 0o600 });
  built.setListening({ edge: 'node', url });
  folder = mkdtempSync(join(tmpdir(), 'svc-openclaw-'));
  const socket = join(folder, 'gateway');
  server = createServer({ keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 }, (req, res) => {
    tellAddress(req);
    if (!built.handle(req, res)) res.writeHead(404).end();
  });
  server.maxHeadersCount = 0;
  await new Promise<void>((resolve, reject) => void server?.once('error', reject).listen(socket, resolve));
  return { socket };
}

/** A data directory of another kind of host has a life of its own. */
function checkKind(dataDir: string): void {
  let kind: unknown;
  try {
    kind = (JSON.parse(readFileSync(join(dataDir, 'profile.json'), 'utf8')) as { kind?: unknown }).kind;
  } catch {
    return;
  }
  if (kind === 'plugin' || kind === undefined) return;
  const whose = kind === 'daemon' ? 'a daemon (svc serve)' : `svc as a ${String(kind)} program`;
  throw new Error(
    `The data directory ${dataDir} belongs to ${whose}. Give the plugin another one (plugins.entries.svc.config.dataDir), and ` +
      'move apps with "svc export" and "openclaw svc import"; or stop that gateway for good and set "kind" in its profile.json to "plugin".',
  );
}

/** Waits for the gateway of a host that has just died. Rejects in words when the directory is in use. */
async function startOnce(built: Gateway, dataDir: string): Promise<void> {
  const until = Date.now() + ORPHAN_MS;
  for (;;) {
    try {
      await built.start();
      return;
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'DATA_LOCKED') throw error;
      const host = hostOf(dataDir);
      const isOrphan = host !== null && !isAlive(host);
      if (isOrphan && Date.now() < until) {
        await wait(100);
        continue;
      }
      const who = host === null ? 'another gateway' : `the OpenClaw with pid ${host}`;
      throw new Error(
        `The data directory ${dataDir} is in use by ${who}. Stop that one, or give this one another directory: ` +
          'plugins.entries.svc.config.dataDir.',
      );
    }
  }
}

function hostOf(dataDir: string): number | null {
  try {
    const { pid } = JSON.parse(readFileSync(join(dataDir, HOST_FILE), 'utf8')) as { pid?: unknown };
    return typeof pid === 'number' ? pid : null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function end(drainMs: number): Promise<void> {
  server?.close();
  await gateway?.stop(drainMs);
  server?.closeAllConnections();
  if (folder !== null) rmSync(folder, { recursive: true, force: true });
}

function isProof(shown: string | undefined, wanted: Buffer): boolean {
  if (shown === undefined) return false;
  const given = Buffer.from(shown);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/** A Unix socket knows no address; the host's proxy says it. */
function tellAddress(req: IncomingMessage): void {
  const value = req.headers[ADDRESS_HEADER] ?? '';
  Object.defineProperty(req.socket, 'remoteAddress', { value, configurable: true });
}

const conversationRunner: ConversationRunner = async function* ({ answer: _answer, prepare, signal, ...turn }) {
  if (prepare === undefined) throw new Error('The gateway prepares no turns.');
  const turnId = randomUUID();
  const events = new TurnEvents();
  turns.set(turnId, events);
  try {
    const order = { ...turn, ...(await prepare()), turnId };
    peer.call('turn', order, signal).then(
      () => events.end(),
      (error: unknown) => events.fail(error),
    );
    yield* events;
  } finally {
    turns.delete(turnId);
  }
};

async function runFire(fire: HostFire): Promise<FireResult | undefined> {
  const { ctx, log: _log, signal, ...order } = fire;
  fires.set(fire.runId, fire);
  try {
    const given = { ...order, caller: ctx.caller } satisfies FireOrder;
    return (await peer.call('fire', given, signal)) as FireResult | undefined;
  } finally {
    fires.delete(fire.runId);
  }
}

/** What a handler in the host asks its `ctx`, or writes to its `log`. */
async function ask({ runId, verb, args }: FireAsk): Promise<unknown> {
  const fire = fires.get(runId);
  if (fire === undefined) throw Object.assign(new Error('The run has ended.'), { code: 'RUN_ABORTED' });
  const asks = asksOf(fire);
  if (!Object.hasOwn(asks, verb)) throw new Error(`There is no ctx.${verb}.`);
  return await asks[verb]?.(...(args as never[]));
}

function asksOf({ ctx, log }: HostFire): Record<string, (...args: never[]) => unknown> {
  return {
    tool: ctx.tool,
    agent: ctx.agent,
    'state.get': ctx.state.get,
    'state.set': ctx.state.set,
    'state.delete': ctx.state.delete,
    'runs.last': ctx.runs.last,
    'runs.list': ctx.runs.list,
    notify: ctx.notify,
    'secrets.get': ctx.secrets.get,
    'log.debug': log.debug,
    'log.info': log.info,
    'log.warn': log.warn,
    'log.error': log.error,
  };
}
