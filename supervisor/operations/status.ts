/** The process tree as `GET /svc/_system` shows it: every process and actor. */

import { readFile } from 'node:fs/promises';
import { cpuUsage, memoryUsage, version as nodeVersion, pid, uptime } from 'node:process';
import type { RetireReason } from '../../protocol/frames.ts';
import type { AutomationsStatus } from '../automations/automations.ts';
import type { ToolServerStatus } from '../automations/tool-servers.ts';
import type { Services } from '../services.ts';
import type { Actor } from '../tree/actor/actor.ts';
import type { Child } from '../tree/child.ts';
import type { EventLoopDelay } from './event-loop.ts';
import { streamOf } from './log-stream.ts';

// Linux reports both in these units on every architecture Node runs on.
const TICK_MS = 10;
const PAGE_BYTES = 4096;

/** How long an actor is asked for its memory before the answer goes without it. */
const STATS_MS = 200;

/** Times in milliseconds, memory in bytes; null where it is not known. */
export type ActorStatus = {
  app: string;
  /** Id of the automation that it fires; null for the actor that runs the app's tools. */
  automation: string | null;
  versionId: string;
  state: string;
  uptimeMs: number | null;
  restarts: number;
  mailbox: number;
  inFlight: number;
  memory: number | null;
  calls: number;
  lastExit: string | null;
};

export type ProcessStatus = {
  role: 'supervisor' | 'writer' | 'host' | 'mcp' | 'jobs';
  name: string;
  pid: number | null;
  state: string;
  uptimeMs: number | null;
  restarts: number;
  rss: number | null;
  cpuMs: number | null;
  lastExit: string | null;
  counters?: Record<string, number>;
  actors?: ActorStatus[];
};

export type SystemStatus = {
  version: string;
  node: string;
  pid: number;
  uptimeMs: number;
  edge: 'uws' | 'node' | null;
  url: string | null;
  dataDir: string;
  /** Of the supervisor, since the last time this status was asked for. */
  eventLoop: EventLoopDelay;
  processes: ProcessStatus[];
  /** The MCP servers of the configuration, in its order. */
  toolServers: ToolServerStatus[];
  automations: AutomationsStatus;
  counters: {
    subscribers: number;
    changeRingBytes: number;
    /** Of the apps' logs. */
    droppedLogLines: number;
    /** Of the gateway's own log; 0 where the host has given it a logger. */
    droppedGatewayLogLines: number;
    retired: Record<RetireReason, number>;
  };
};

export async function systemStatus(services: Services): Promise<SystemStatus> {
  const { tree } = services;
  await Promise.all(
    tree.actors.flatMap((actor) => actor.generations.map((generation) => generation.refreshStats(STATS_MS))),
  );
  const cpu = cpuUsage();
  const listening = services.listening();
  const supervisor: ProcessStatus = {
    role: 'supervisor',
    name: 'supervisor',
    pid,
    state: 'running',
    uptimeMs: Math.round(uptime() * 1000),
    restarts: 0,
    rss: memoryUsage.rss(),
    cpuMs: Math.round((cpu.user + cpu.system) / 1000),
    lastExit: null,
  };
  const resting = tree.actors
    .filter((actor) => actor.generations.length === 0)
    .map((actor) => ({ actor, host: tree.hosts.hostOf(actor.key) }));
  const hosts = await Promise.all(
    tree.hosts.all.map(async (host) => {
      const actors = tree.actors.flatMap((actor) => actorsOn(host, actor));
      const homeless = resting.filter((entry) => entry.host === host).map(({ actor }) => restingStatus(actor));
      return {
        ...(await childStatus(host)),
        actors: [...actors, ...homeless].sort(byName),
      };
    }),
  );
  return {
    version: services.version,
    node: nodeVersion,
    pid,
    uptimeMs: supervisor.uptimeMs ?? 0,
    edge: listening?.edge ?? null,
    url: listening?.url ?? null,
    dataDir: services.config.dataDir,
    eventLoop: services.eventLoop.take(),
    processes: [
      supervisor,
      ...(await Promise.all(tree.writers.all.map(childStatus))),
      ...hosts,
      ...(tree.jobs ? [await childStatus(tree.jobs)] : []),
      ...(tree.toolServers ? [await childStatus(tree.toolServers)] : []),
    ],
    toolServers: services.automations.toolServers?.status() ?? [],
    automations: services.automations.status(),
    counters: {
      subscribers: services.changes.subscribers,
      changeRingBytes: services.changes.ringBytes,
      droppedLogLines: services.logs.droppedLines,
      droppedGatewayLogLines: streamOf(services.log)?.droppedLines ?? 0,
      retired: tree.retired,
    },
  };
}

/** An app comes before its automations, whatever other apps are called. */
function byName(a: ActorStatus, b: ActorStatus): number {
  if (a.app !== b.app) return a.app < b.app ? -1 : 1;
  return (a.automation ?? '') < (b.automation ?? '') ? -1 : 1;
}

async function childStatus(child: Child): Promise<ProcessStatus> {
  const usage = child.pid === null ? null : await processUsage(child.pid);
  return {
    role: child.spec.role,
    name: child.name,
    pid: child.pid,
    state: child.state,
    uptimeMs: child.pid === null ? null : Math.round(performance.now() - child.startedAt),
    restarts: child.restarts,
    rss: usage?.rss ?? child.stats?.rss ?? null,
    cpuMs: usage?.cpuMs ?? null,
    lastExit: child.lastExit,
    ...(child.stats?.counters ? { counters: child.stats.counters } : {}),
  };
}

function actorsOn(host: Child, actor: Actor): ActorStatus[] {
  return actor.generations
    .filter((generation) => generation.host === host)
    .map((generation) => ({
      app: actor.app,
      automation: actor.automation,
      versionId: generation.spec.versionId,
      state: generation.state,
      uptimeMs: generation.startedAt === 0 ? null : Math.round(performance.now() - generation.startedAt),
      restarts: actor.restarts,
      mailbox: actor.mailbox.size,
      inFlight: generation.inFlight.size,
      memory: generation.stats?.heapUsed ?? null,
      calls: generation.calls,
      lastExit: actor.lastExit,
    }));
}

function restingStatus(actor: Actor): ActorStatus {
  return {
    app: actor.app,
    automation: actor.automation,
    versionId: actor.summary.versionId,
    state: actor.state,
    uptimeMs: null,
    restarts: actor.restarts,
    mailbox: actor.mailbox.size,
    inFlight: 0,
    memory: null,
    calls: 0,
    lastExit: actor.lastExit,
  };
}

/** Bytes and milliseconds. `null` where the system does not tell (no `/proc`). */
type ProcessUsage = { rss: number; cpuMs: number };

/** As the operating system counts it, so that a stuck child need not be asked. */
async function processUsage(pid: number): Promise<ProcessUsage | null> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The command name in parentheses may hold spaces; the numbered fields start after it, at field 3.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    return { rss: Number(fields[21]) * PAGE_BYTES, cpuMs: ticks * TICK_MS };
  } catch {
    return null;
  }
}
