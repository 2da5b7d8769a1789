/** The supervision tree: the writer, the handler hosts and the actors on them, started, watched, placed and stopped. */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type ActorSpec, type Frame, Kind, RETIRE_REASONS, type RetireReason } from '../../protocol/frames.ts';
import { hostFlags, THREAD_COUNTS } from '../../protocol/host-flags.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Link } from '../../protocol/link.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { signTicket, type Ticket } from '../../protocol/ticket.ts';
import { entryPoint, hostReadable, withRealPaths } from '../entry-points.ts';
import { Actor, type ActorEnvironment } from './actor.ts';
import { Admission } from './admission.ts';
import { Child, type ChildSpec } from './child.ts';
import { Deadlines } from './deadlines.ts';
import { Generation } from './generation.ts';
import { Hosts } from './hosts.ts';
import { type LinkOwner, LinkServer } from './links.ts';
import { stoppingError } from './refusals.ts';

export type TreeOptions = {
  /** Where an app's things are. */
  paths(app: string, versionId: string): { codeDir: string; preparedDir: string; dataFile: string };
  /** The folder that handler hosts may read. */
  appsDir: string;
  /** Empty and for this user alone; removed at the end. */
  socketFolder: string;
  handlerHosts: number;
  maxLiveActors: number;
  actorMemoryMb: number;
  actorIdleMs: number;
  mailboxLimit: number;
  maxResultBytes: number;
  durability: 'full' | 'normal';
  log(level: 'info' | 'warn' | 'error', message: string, app?: string): void;
  appLog(app: string, line: string): void;
  /** The writer is back after a restart, or runs for the first time. */
  onWriterReady(): void;
  /** The writer died: what the app had asked of it may be stored or not. */
  onWriterLost(app: string): void;
  /** The writer cannot be kept running: the daemon must end. */
  onFatal(reason: string): void;
  /** A process came into being or is gone: what the next gateway has to know should this one be killed. */
  onProcess(pid: number, role: string, alive: boolean): void;
};

export class Tree {
  readonly writer: Child;
  readonly hosts: Hosts;
  readonly deadlines = new Deadlines(() => performance.now());
  /** How often each retire reason happened. */
  readonly retired: Record<RetireReason, number> = Object.fromEntries(
    RETIRE_REASONS.map((reason) => [reason, 0]),
  ) as Record<RetireReason, number>;

  readonly #options: TreeOptions;
  readonly #key = randomBytes(32);
  readonly #supervisorSocket: string;
  readonly writerSocket: string;
  readonly #links: LinkServer;
  readonly #actors = new Map<string, Actor>();
  readonly #generations = new Map<number, Generation>();
  readonly #admission: Admission<Actor>;
  readonly #env: ActorEnvironment;
  #nextActorId = 0;
  #housekeeping: NodeJS.Timeout | undefined;
  #stopping = false;
  #onWriterReady: () => void = () => {};
  #onWriterFailed: (reason: string) => void = () => {};

  constructor(options: TreeOptions) {
    this.#options = options;
    this.#admission = new Admission(options.maxLiveActors);
    const socket = (name: string) =>
      process.platform === 'win32'
        ? `\\\\.\\pipe\\svc-${randomBytes(8).toString('hex')}-${name}`
        : join(options.socketFolder, name);
    this.#supervisorSocket = socket('supervisor');
    this.writerSocket = socket('writer');
    this.#links = new LinkServer(this.#key, this.#welcome, (why) =>
      options.log('warn', `a connection was closed: ${why}`),
    );
    this.#env = this.#environment();
    this.writer = this.#createWriter();
    this.hosts = new Hosts({ count: options.handlerHosts, create: this.#createHost, now: () => performance.now() });
  }

  /**
   * Listens and starts every process. Resolves when the writer is ready, without waiting for the hosts; rejects when the
   * writer does not come up.
   */
  async start(): Promise<void> {
    await this.#links.listen(this.#supervisorSocket);
    await new Promise<void>((resolve, reject) => {
      this.#onWriterReady = resolve;
      this.#onWriterFailed = (reason) => reject(new Error(reason));
      this.writer.start();
      this.hosts.start();
      this.#housekeeping = setInterval(() => this.#tidy(), 1000);
    });
    this.#onWriterFailed = this.#options.onFatal;
  }

  /** Signs what a connection may claim to be. */
  ticket(ticket: Ticket): string {
    return signTicket(ticket, this.#key);
  }

  /** The actor of an app; made on first need, with the version that is active. Throws `OVERLOADED` once the tree stops. */
  actor(app: string, summary: VersionSummary): Actor {
    let actor = this.#actors.get(app);
    if (!actor) {
      if (this.#stopping) throw stoppingError();
      actor = new Actor(app, summary, this.#env);
      this.#actors.set(app, actor);
    }
    return actor;
  }

  existing(app: string): Actor | undefined {
    return this.#actors.get(app);
  }

  get actors(): Actor[] {
    return [...this.#actors.values()];
  }

  /** Stops an app's actor and forgets it. */
  async remove(app: string): Promise<void> {
    const actor = this.#actors.get(app);
    if (!actor) return;
    this.#actors.delete(app);
    this.#admission.leave(actor);
    await actor.stop('removed', LIMITS.cancelGraceMs);
    await this.hosts.release(app);
  }

  /** Lets calls end for `drainMs`, then stops actors, hosts and the writer, in this order. */
  async stop(drainMs: number): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#housekeeping);
    await Promise.all(this.actors.map((actor) => actor.stop('shutdown', drainMs)));
    await this.hosts.stop(LIMITS.terminateMs);
    await this.writer.stop(LIMITS.drainMs);
    this.#close();
  }

  /** Kills everything without asking. */
  destroy(): void {
    this.#stopping = true;
    clearInterval(this.#housekeeping);
    for (const child of [...this.hosts.all, this.writer]) child.destroy();
    for (const actor of this.actors) void actor.stop('shutdown', 0);
    this.#close();
  }

  #close(): void {
    this.#links.close();
    rmSync(this.#options.socketFolder, { recursive: true, force: true });
  }

  #environment(): ActorEnvironment {
    return {
      now: () => performance.now(),
      random: Math.random,
      deadlines: this.deadlines,
      mailboxLimit: this.#options.mailboxLimit,
      spawn: (app, summary, events) => {
        const spec = this.#spec(app, summary);
        const generation = new Generation(spec, summary, this.hosts.hostOf(app), events, () => performance.now());
        this.#generations.set(spec.actorId, generation);
        return generation;
      },
      admit: (actor) => this.#admission.admit(actor),
      rested: (actor) => this.#admission.rested(actor),
      retired: (_actor, reason) => {
        this.retired[reason]++;
        for (const [id, generation] of this.#generations) if (generation.state === 'gone') this.#generations.delete(id);
        queueMicrotask(() => this.#admission.next());
      },
      log: (app, level, message) => this.#options.log(level, message, app),
      appLog: (app, line) => this.#options.appLog(app, line),
    };
  }

  #spec(app: string, summary: VersionSummary): ActorSpec {
    const actorId = ++this.#nextActorId;
    const paths = this.#options.paths(app, summary.versionId);
    return {
      actorId,
      app,
      name: summary.name,
      version: summary.version,
      versionId: summary.versionId,
      ...paths,
      supervisorSocket: this.#supervisorSocket,
      writerSocket: this.writerSocket,
      supervisorTicket: this.ticket({ role: 'actor', actorId, app }),
      writerTicket: this.ticket({ role: 'database', name: app, file: paths.dataFile, maintain: false }),
      maxResultBytes: this.#options.maxResultBytes,
      automation: null,
      queries: summary.queries.map((tool) => tool.name),
      actions: summary.actions.map((tool) => tool.name),
    };
  }

  readonly #welcome = (ticket: Ticket, link: Link): LinkOwner | null => {
    switch (ticket.role) {
      case 'writer':
        return this.writer.attach(link);
      case 'writer-watch':
        return { onFrame: (frame) => this.#writerStuck(frame), onClose: () => {} };
      case 'host':
        return this.hosts.all.find((host) => host.name === ticket.host)?.attach(link) ?? null;
      case 'actor':
        return this.#generations.get(ticket.actorId)?.attach(link) ?? null;
      case 'database':
        return null;
    }
  };

  #createWriter(): Child {
    const spec: ChildSpec = {
      name: 'writer',
      role: 'writer',
      entry: entryPoint('writer'),
      flags: [],
      flushes: true,
      patient: false,
      bootstrap: () => ({
        supervisorSocket: this.#supervisorSocket,
        writerSocket: this.writerSocket,
        ticket: this.ticket({ role: 'writer' }),
        watchTicket: this.ticket({ role: 'writer-watch' }),
        key: this.#key.toString('hex'),
        durability: this.#options.durability,
      }),
    };
    return new Child(
      spec,
      {
        onReady: () => {
          this.#onWriterReady();
          this.#options.onWriterReady();
        },
        onFrame: (frame) => {
          throw new Error(`The writer may not send frames of kind ${frame[0]}.`);
        },
        onExit: (reason) => {
          for (const actor of this.actors) if (actor.generations.length > 0) this.#options.onWriterLost(actor.app);
          if (this.writer.state === 'failed') this.#onWriterFailed(`The SQLite writer does not stay up: ${reason}.`);
        },
        onProcess: (pid, alive) => this.#options.onProcess(pid, 'writer', alive),
        log: (level, message) => this.#options.log(level, message),
      },
      { now: () => performance.now(), random: Math.random },
    );
  }

  readonly #createHost = ({ name }: { name: string }, solitaryFor: string | null): Child => {
    const host: Child = new Child(
      {
        name,
        role: 'host',
        entry: entryPoint('host'),
        flags: hostFlags({
          allowed: process.allowedNodeEnvironmentFlags,
          readable: [...THREAD_COUNTS, ...hostReadable(), ...withRealPaths([this.#options.appsDir])],
        }),
        flushes: false,
        patient: solitaryFor === null,
        bootstrap: () => ({
          supervisorSocket: this.#supervisorSocket,
          ticket: this.ticket({ role: 'host', host: name }),
          actorMemoryMb: this.#options.actorMemoryMb,
        }),
      },
      {
        onReady: () => {
          for (const generation of this.#generations.values()) if (generation.host === host) generation.hostReady();
        },
        onFrame: (frame) => {
          if (frame[0] !== Kind.exited) throw new Error(`A host may not send frames of kind ${frame[0]}.`);
          const generation = this.#generations.get(frame[1]);
          if (generation?.host === host) generation.exited(frame[2], frame[3]);
        },
        onExit: (reason) => this.#hostDied(host, solitaryFor, reason),
        onProcess: (pid, alive) => this.#options.onProcess(pid, 'host', alive),
        log: (level, message) => this.#options.log(level, message),
      },
      { now: () => performance.now(), random: Math.random },
    );
    return host;
  };

  #hostDied(host: Child, solitaryFor: string | null, reason: string): void {
    const hit = [...this.#generations.values()].filter((generation) => generation.host === host);
    // First of all the culprits move: what runs again below must not run here.
    if (!solitaryFor && !this.#stopping) this.#moveCulprits(host, hit, reason);
    for (const generation of hit) {
      if (generation.state === 'placed' && this.hosts.hostOf(generation.spec.app) === host) continue;
      generation.hostGone(`its host ${reason}`, solitaryFor === null);
    }
    if (host.state === 'failed' && solitaryFor) {
      this.#actors.get(solitaryFor)?.quarantine(`its host ${reason} again and again`);
      void this.hosts.release(solitaryFor);
    }
  }

  #moveCulprits(host: Child, hit: Generation[], reason: string): void {
    const stuck = hit.filter((generation) => generation.stuck);
    const busy = hit.filter((generation) => generation.inFlight.size > 0);
    // A call that was in flight at an earlier death too is the likeliest cause: others take milliseconds, and have ended since.
    const again = busy.filter(({ inFlight }) => [...inFlight.values()].some((call) => call.attempts > 1));
    const culprits = new Set((stuck.length > 0 ? stuck : again).map(({ spec }) => spec.app));
    for (const app of culprits) {
      const alone = this.hosts.isolate(app);
      if (!alone && stuck.length > 0) this.#actors.get(app)?.blame(`it took down a host that others share: ${reason}`);
    }
    if (culprits.size === 0)
      this.hosts.diedUnexplained(
        host,
        busy.map(({ spec }) => spec.app),
      );
    if (host.state !== 'failed') return;
    const moved = this.hosts.spread(host);
    this.#options.log(
      'error',
      `${host.name} kept dying; it starts afresh${moved.length ? `, without ${moved.join(', ')}` : ''}`,
    );
  }

  /** The writer has been busy with one statement for too long: it is replaced, and the app whose statement it is pays. */
  #writerStuck(frame: Frame): void {
    if (frame[0] !== Kind.stuck) throw new Error(`The writer's watch may not send frames of kind ${frame[0]}.`);
    const [, app, ms] = frame;
    const actor = this.#actors.get(app);
    actor?.blame(`a statement kept the writer busy for ${Math.round(ms)} ms`);
    // Where the culprit is known, the death is not the writer's own.
    if (actor) this.writer.revive();
    this.writer.kill(`busy for ${Math.round(ms)} ms with one statement of ${app}`);
  }

  #tidy(): void {
    this.#admission.restIdle(performance.now() - this.#options.actorIdleMs);
    this.#admission.rotate();
    for (const app of this.hosts.cleared()) {
      const actor = this.#actors.get(app);
      actor?.rest('evicted');
      if (!actor || actor.generations.length === 0) void this.hosts.release(app);
    }
  }
}
