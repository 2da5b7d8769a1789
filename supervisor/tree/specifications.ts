/**
 * What each process and thread of the tree is told when it starts: its program and flags, where the sockets are, and the signed
 * tickets with which it may come to them.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { ActorSpec, SessionBegun } from '../../protocol/frames.ts';
import { hostFlags, jobsFlags, THREAD_COUNTS } from '../../protocol/host-flags.ts';
import { appOfKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { type ToolServerSettings, toolServerEnvironment } from '../../protocol/tool-servers.ts';
import { signTicket, type Ticket } from '../../protocol/wire/ticket.ts';
import { crashEnvironment, crashFolders } from '../../storage/crash-point.ts';
import type { ChildSpec } from './child.ts';
import { entryPoint, hostReadable, jobsReadable, withRealPaths } from './entry-points.ts';
import type { TreeOptions } from './tree-options.ts';

/** Which databases a writer writes, and what it takes over. */
export type WriterPlace = {
  name: string;
  socket: string;
  /** The one file; null for all that are not in `elsewhere`. */
  only: string | null;
  elsewhere(): string[];
  begun(): SessionBegun[] | null;
};

export class Specifications {
  /** Tickets are signed with it; a new one for each boot. */
  readonly key = randomBytes(32);
  readonly supervisorSocket: string;
  readonly #options: TreeOptions;
  #nextActorId = 0;

  constructor(options: TreeOptions) {
    this.#options = options;
    this.supervisorSocket = join(options.socketFolder, 'supervisor');
  }

  /** Signs what a connection may claim to be. */
  ticket(ticket: Ticket): string {
    return signTicket(ticket, this.key);
  }

  /** Where a process of ours listens. */
  socket(name: string): string {
    return join(this.#options.socketFolder, name);
  }

  writer({ name, socket, only, elsewhere, begun }: WriterPlace): ChildSpec {
    return {
      name,
      role: 'writer',
      entry: entryPoint('writer'),
      flags: [],
      flushes: true,
      patient: false,
      // Test runs crash it between its durable steps, and jobs likewise; a host has none.
      env: crashEnvironment(),
      bootstrap: () => ({
        supervisorSocket: this.supervisorSocket,
        writerSocket: socket,
        ticket: this.ticket({ role: 'writer', name }),
        watchTicket: this.ticket({ role: 'writer-watch', name }),
        key: this.key.toString('hex'),
        durability: this.#options.durability,
        only,
        elsewhere: elsewhere(),
        begun: begun(),
      }),
    };
  }

  /** `shared` by several actors: one that does not come up is then tried again for ever. */
  host(name: string, shared: boolean): ChildSpec {
    return {
      name,
      role: 'host',
      entry: entryPoint('host'),
      flags: hostFlags({
        allowed: process.allowedNodeEnvironmentFlags,
        readable: [...THREAD_COUNTS, ...hostReadable(), ...withRealPaths(this.#options.codeDirs)],
      }),
      flushes: false,
      patient: shared,
      bootstrap: () => ({
        supervisorSocket: this.supervisorSocket,
        ticket: this.ticket({ role: 'host', host: name }),
        actorMemoryMb: this.#options.actorMemoryMb,
      }),
    };
  }

  /** The process that talks to MCP servers. */
  toolServers(settings: ToolServerSettings): ChildSpec {
    return {
      name: 'mcp',
      role: 'mcp',
      entry: entryPoint('mcp'),
      flags: [`--max-old-space-size=${LIMITS.toolServersMemoryMb}`],
      flushes: false,
      patient: false,
      env: toolServerEnvironment(process.env),
      bootstrap: () => ({
        supervisorSocket: this.supervisorSocket,
        ticket: this.ticket({ role: 'mcp' }),
        ...settings,
      }),
    };
  }

  /** The process of jobs. What it may read and write besides our own code is in these folders and files. */
  jobs({ readable, writable }: { readable: string[]; writable: string[] }): ChildSpec {
    const crash = crashFolders();
    return {
      name: 'jobs',
      role: 'jobs',
      entry: entryPoint('jobs'),
      flags: jobsFlags({
        allowed: process.allowedNodeEnvironmentFlags,
        readable: [...jobsReadable(), ...readable, ...crash.readable],
        writable: [...writable, ...crash.writable],
      }),
      env: crashEnvironment(),
      flushes: false,
      patient: false,
      memoryMb: LIMITS.jobsMemoryMb,
      bootstrap: () => ({
        supervisorSocket: this.supervisorSocket,
        ticket: this.ticket({ role: 'jobs' }),
        thread: entryPoint('job'),
        threadMemoryMb: LIMITS.jobMemoryMb,
        memoryMb: LIMITS.jobsMemoryMb,
      }),
    };
  }

  /** A thread, with a number of its own. That of an automation has no database. `writerSocket` answers where a file's writer is. */
  thread(
    { app, automation }: { app: string; automation: string | null },
    summary: VersionSummary,
    writerSocket: (file: string) => string,
  ): ActorSpec {
    const actorId = ++this.#nextActorId;
    const paths = this.#options.paths(app, summary.versionId);
    return {
      actorId,
      app,
      shownApp: appOfKey(app),
      name: summary.name,
      version: summary.version,
      versionId: summary.versionId,
      ...paths,
      supervisorSocket: this.supervisorSocket,
      writerSocket: automation === null ? writerSocket(paths.dataFile) : '',
      supervisorTicket: this.ticket({ role: 'actor', actorId, app }),
      writerTicket:
        automation === null ? this.ticket({ role: 'database', name: app, file: paths.dataFile, maintain: false }) : '',
      maxResultBytes: this.#options.maxResultBytes,
      egress: { ...this.#options.egress, network: summary.network ?? null, port: this.#options.gatewayPort() },
      automation,
      queries: summary.queries.map((tool) => tool.name),
      actions: summary.actions.map((tool) => tool.name),
    };
  }
}
