/**
 * The gateway and the bare edge under the same load, in turns: a machine whose speed drifts slows both, and the ratio of
 * neighbouring rounds holds.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { LIMITS } from '../protocol/limits.ts';
import { APP, packApp } from './bench-app.ts';
import type { Context } from './context.ts';
import { Daemon } from './daemon.ts';
import { Histogram } from './load/histogram.ts';
import type { LoadResult, LoadTask } from './load/task.ts';
import type { Comparison, SideResult } from './measurements.ts';
import { cpuMs, memoryOfAll } from './process-usage.ts';
import { type BareAnswer, BareEdge, type Server } from './servers.ts';
import { median } from './statistics.ts';

/** One call. */
export type Request = { method: 'GET' | 'POST'; path: string; body?: object };

export type Load = {
  scenario: string;
  /** The requests of the load; all have answers of the same form and about the same size. */
  requests: Request[];
  /** Event streams open meanwhile. */
  subscribers?: number;
};

const ROUNDS = 5;
const SMOKE_ROUNDS = 2;
/** At the start of each round: connections are opened and are not counted. */
const ROUND_WARM_UP_MS = 150;
/** Before the first round, once for each side: code gets compiled. */
const WARM_UP_MS = 2000;
/** Headers that each server makes itself. */
const OWN_HEADERS = new Set(['content-length', 'date', 'connection', 'keep-alive', 'transfer-encoding']);
const CHANGES = `/svc/${APP}/_changes`;

/** Runs the load at each number of connections against a fresh daemon and a fresh bare edge. */
export async function compare(context: Context, load: Load): Promise<Comparison[]> {
  const { config, profileDir } = context;
  const daemon = await Daemon.start({ dataDir: context.newFolder(), config, profileDir });
  try {
    await daemon.install(APP, await packApp());
    const bare = await BareEdge.start(await answerOf(daemon, load));
    try {
      return await compareServers(context, load, daemon, bare);
    } finally {
      await bare.stop();
    }
  } finally {
    await daemon.stop();
  }
}

async function compareServers(context: Context, load: Load, daemon: Daemon, bare: BareEdge): Promise<Comparison[]> {
  const { options } = context;
  const rounds = options.smoke ? SMOKE_ROUNDS : ROUNDS;
  const template = {
    requests: load.requests.map((request) => httpText(request, daemon.token)),
    ...(load.subscribers === undefined
      ? {}
      : {
          subscribe: {
            request: httpText({ method: 'GET', path: CHANGES }, daemon.token),
            subscribers: load.subscribers,
          },
        }),
  };
  for (const server of [bare, daemon]) {
    const warmUpMs = options.smoke ? ROUND_WARM_UP_MS : WARM_UP_MS;
    await context.generators.run({ ...template, port: server.port, connections: 8, warmUpMs, measureMs: 1 });
  }
  const results: Comparison[] = [];
  for (const connections of options.connections) {
    const task = {
      ...template,
      connections,
      warmUpMs: ROUND_WARM_UP_MS,
      measureMs: (options.seconds * 1000) / rounds,
    };
    const before = await writerCounters(daemon);
    const sides = { bare: new Side(bare), gateway: new Side(daemon) };
    for (let round = 0; round < rounds; round++) {
      await sides.bare.round(context, task);
      await sides.gateway.round(context, task);
    }
    const after = await writerCounters(daemon);
    const commits = after.commits - before.commits;
    const comparison: Comparison = {
      kind: 'comparison',
      scenario: load.scenario,
      connections,
      gateway: sides.gateway.result(),
      bare: sides.bare.result(),
      ratio: median(sides.gateway.rates.map((rate, i) => rate / (sides.bare.rates[i] as number))),
      rowsPerCommit: commits === 0 ? null : (after.rows - before.rows) / commits,
    };
    context.progress(`  ${summary(comparison)}`);
    results.push(comparison);
  }
  return results;
}

/** One server's rounds of one comparison. */
class Side {
  readonly rates: number[] = [];
  readonly #server: Server;
  readonly #latencies = new Histogram();
  readonly #cpuMs = new Map<string, number>();
  #requests = 0;
  #events = 0;
  #failed = 0;

  constructor(server: Server) {
    this.#server = server;
  }

  async round(context: Context, task: Omit<LoadTask, 'port'>): Promise<void> {
    const before = this.#server.processes.map(({ pid }) => cpuMs(pid));
    const result: LoadResult = await context.generators.run({ ...task, port: this.#server.port });
    for (const [i, { name, pid }] of this.#server.processes.entries()) {
      this.#addCpu(name, cpuMs(pid) - (before[i] as number));
    }
    this.#addCpu('load', result.cpuMs);
    this.#latencies.add(result.latencies);
    this.#requests += result.requests;
    this.#events += result.events;
    this.#failed += result.failed;
    if (result.failed > 0)
      context.progress(`  ${result.failed} answers were not 2xx; the first was ${result.firstFailure}`);
    this.rates.push((result.answered / result.elapsedMs) * 1000);
  }

  result(): SideResult {
    const ms = (share: number): number => this.#latencies.percentile(share) / 1000;
    return {
      requestsPerSecond: median(this.rates),
      p50: ms(0.5),
      p99: ms(0.99),
      p999: ms(0.999),
      requests: this.#requests,
      events: this.#events,
      failed: this.#failed,
      cpu: Object.fromEntries([...this.#cpuMs].map(([name, used]) => [name, (used * 1000) / this.#requests])),
      memory: memoryOfAll(this.#server.processes).pss,
    };
  }

  #addCpu(name: string, used: number): void {
    this.#cpuMs.set(name, (this.#cpuMs.get(name) ?? 0) + used);
  }
}

/** The gateway's answer to the first request, for the bare edge to repeat. */
async function answerOf(daemon: Daemon, load: Load): Promise<BareAnswer> {
  const { method, path, body } = load.requests[0] as Request;
  const response = await daemon.request(method, path, body && JSON.stringify(body));
  const change = {
    app: APP,
    table: 'notes',
    tables: ['notes'],
    action: 'put',
    source: 'handler',
    ts: Date.now(),
    seq: 1,
  };
  return {
    status: `${response.status} ${response.statusText}`,
    headers: [...response.headers].filter(([name]) => !OWN_HEADERS.has(name)),
    body: await response.text(),
    event: `event: change\nid: ${Date.now() * 1000}\ndata: ${JSON.stringify({ ...change, seq: Date.now() * 1000 })}\n\n`,
  };
}

function httpText({ method, path, body }: Request, token: string): string {
  const head = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n`;
  if (body === undefined) return `${head}\r\n`;
  const text = JSON.stringify(body);
  return `${head}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

/** They come with the writer's heartbeat, so one is waited for. */
async function writerCounters(daemon: Daemon): Promise<{ commits: number; rows: number }> {
  await wait(LIMITS.heartbeatMs * 1.2);
  const status = await daemon.refresh();
  const counters = status.processes.find((process) => process.role === 'writer')?.counters;
  return { commits: counters?.commits ?? 0, rows: counters?.rows ?? 0 };
}

function summary({ connections, gateway, bare, ratio }: Comparison): string {
  const rate = (side: SideResult): string => `${Math.round(side.requestsPerSecond)}/s`;
  return `${connections} connections: ${rate(gateway)}, bare edge ${rate(bare)}, ratio ${ratio.toFixed(2)}`;
}
