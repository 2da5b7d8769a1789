/** Reports the process tree for `GET /svc/_system`: every process and actor. */

import { readFile, statfs } from 'node:fs/promises';
import { cpuUsage, memoryUsage, version as nodeVersion, pid, uptime } from 'node:process';
import { LIMITS } from '../../protocol/limits.ts';
import { NO_CLUSTER } from '../../protocol/routes/operations/cluster-rows.ts';
import type { ActorStatus, ProcessStatus, SystemStatus } from '../../protocol/routes/operations/system-rows.ts';
import type { Services } from '../services.ts';
import type { Actor } from '../tree/actor/actor.ts';
import type { Generation } from '../tree/actor/generation.ts';
import type { Child } from '../tree/child.ts';
import { streamOf } from './log-stream.ts';

// Linux reports both in these units on every architecture Node runs on.
const TICK_MS = 10;
const PAGE_BYTES = 4096;

/** How long an actor is asked for its memory before the answer goes without it. */
const STATS_MS = 200;

/** Every process that was started, the supervisor first. */
export async function processes({ tree }: Services): Promise<ProcessStatus[]> {
  const single = [tree.jobs, tree.agents].filter((child) => child !== null && child.startedAt > 0);
  const children = [...tree.writers.all, ...tree.hosts.all, ...(single as Child[]), ...runningSql(tree)];
  return [supervisorStatus(), ...(await Promise.all(children.map(childStatus)))];
}

export async function systemStatus(services: Services): Promise<SystemStatus> {
  const { tree } = services;
  const actors = actorsByHost(tree);
  await Promise.all(
    [...actors.values()].flatMap(({ listed }) =>
      // One in the commons has no memory of its own.
      listed.map(({ generation }) => (generation?.commons === null ? generation.refreshStats(STATS_MS) : undefined)),
    ),
  );
  const listening = services.listening();
  const supervisor = supervisorStatus();
  const hosts = await Promise.all(
    tree.hosts.all.map(async (host) => ({
      ...(await childStatus(host)),
      actors: (actors.get(host)?.listed ?? []).map(actorStatus).sort(byName),
      unlistedActors: actors.get(host)?.unlisted ?? 0,
    })),
  );
  return {
    version: services.version,
    node: nodeVersion,
    pid,
    uptimeMs: supervisor.uptimeMs ?? 0,
    edge: listening?.edge ?? null,
    edgeNotice: listening?.notice ?? null,
    url: listening?.url ?? null,
    dataDir: services.config.dataDir,
    eventLoop: services.eventLoop.take(),
    processes: [
      supervisor,
      ...(await Promise.all(tree.writers.all.map(childStatus))),
      ...hosts,
      ...(tree.jobs ? [await childStatus(tree.jobs)] : []),
      // Most gateways never start it.
      ...(tree.agents && tree.agents.startedAt > 0 ? [await childStatus(tree.agents)] : []),
      ...(await Promise.all(runningSql(tree).map(childStatus))),
    ],
    disk: await diskOf(services.config.dataDir),
    toolServers: services.automations.toolServers?.status() ?? [],
    automations: services.automations.status(),
    timeZone: services.automations.scheduler.times.zone,
    backups: services.scheduledBackups.status(),
    notices: services.notices.status(),
    cluster: services.cluster?.status ?? NO_CLUSTER,
    counters: {
      subscribers: services.changes.subscribers,
      changeRingBytes: services.changes.ringBytes,
      droppedLogLines: services.logs.droppedLines,
      // There is none with a host's logger.
      droppedGatewayLogLines: streamOf(services.log)?.droppedLines ?? 0,
      retired: tree.retired,
      leftCommons: tree.leftCommons,
    },
  };
}

/** There are none while nobody uses SQL. */
function runningSql(tree: Services['tree']): Child[] {
  return tree.sql.filter(({ pid }) => pid !== null);
}

async function diskOf(folder: string): Promise<{ freeBytes: number; sizeBytes: number } | null> {
  const disk = await statfs(folder).catch(() => null);
  return disk && { freeBytes: disk.bavail * disk.bsize, sizeBytes: disk.blocks * disk.bsize };
}

function supervisorStatus(): ProcessStatus {
  const cpu = cpuUsage();
  return {
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
}

/** An app always comes before its automations. */
function byName(a: ActorStatus, b: ActorStatus): number {
  if (a.app !== b.app) return a.app < b.app ? -1 : 1;
  return (a.automation ?? '') < (b.automation ?? '') ? -1 : 1;
}

/** For a process that the tree owns. */
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

/** An actor on a host, with one of its threads there, or with none where it would start one. */
type Place = { actor: Actor; generation: Generation | null };

/**
 * By host, what is worth a row: actors out of service or with calls that wait first, then those with a thread, then those in the commons,
 * then those at rest; of each the last used first. There may be thousands.
 */
function actorsByHost({ actors, hosts }: Services['tree']): Map<Child, { listed: Place[]; unlisted: number }> {
  const places = new Map<Child, Place[]>();
  const add = (host: Child, place: Place) => {
    const others = places.get(host);
    if (others === undefined) places.set(host, [place]);
    else others.push(place);
  };
  for (const actor of actors) {
    if (actor.generations.length === 0) add(hosts.hostOf(actor.key), { actor, generation: null });
    for (const generation of actor.generations) add(generation.host, { actor, generation });
  }
  const most = LIMITS.statusActors;
  return new Map(
    [...places].map(([host, all]) => [
      host,
      { listed: all.sort(byInterest).slice(0, most), unlisted: Math.max(0, all.length - most) },
    ]),
  );
}

function byInterest(a: Place, b: Place): number {
  return rankOf(a) - rankOf(b) || b.actor.lastUsed - a.actor.lastUsed;
}

function rankOf({ actor, generation }: Place): number {
  if (generation === null) return actor.state === 'idle' ? 3 : 0;
  return generation.commons === null ? 1 : 2;
}

function actorStatus({ actor, generation }: Place): ActorStatus {
  const { app, automation, restarts, lastExit } = actor;
  const placed = { place: actor.mayShare ? ('commons' as const) : ('own' as const), placeReason: actor.place.reason };
  const common = { app, automation, restarts, mailbox: actor.mailbox.size, lastExit, ...placed };
  if (generation === null) {
    const { versionId } = actor.summary;
    return { ...common, versionId, state: actor.state, uptimeMs: null, inFlight: 0, memory: null, calls: 0 };
  }
  const { spec, state, startedAt, inFlight, stats, calls } = generation;
  return {
    ...common,
    versionId: spec.versionId,
    state,
    uptimeMs: startedAt === 0 ? null : Math.round(performance.now() - startedAt),
    inFlight: inFlight.size,
    memory: stats?.heapUsed ?? null,
    calls,
  };
}

/** As the operating system counts it, so that a stuck child need not be asked; null without `/proc`. */
async function processUsage(pid: number): Promise<{ rss: number; cpuMs: number } | null> {
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
