/** The supervision tree: the writer, the handler hosts and the actors on them, started, watched, placed and stopped. */
import { rmSync } from 'node:fs';
import type { SvcError } from '../../protocol/errors.ts';
import { type Frame, Kind, RETIRE_REASONS, type RetireReason } from '../../protocol/frames.ts';
import { isDraftKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { ToolServerSettings } from '../../protocol/tool-servers.ts';
import type { Link } from '../../protocol/wire/link.ts';
import type { Ticket } from '../../protocol/wire/ticket.ts';
import { Actor, type ActorEnvironment } from './actor/actor.ts';
import { stoppingError } from './actor/call-errors.ts';
import { Deadlines } from './actor/deadlines.ts';
import { actorKey, Generation } from './actor/generation.ts';
import { Child, type ChildEvents, type ChildSpec } from './child.ts';
import { Hosts } from './hosts.ts';
import { type LinkOwner, LinkServer } from './links.ts';
import { Population } from './population.ts';
import { Specifications } from './specifications.ts';
import type { TreeOptions } from './tree-options.ts';
import { Writers } from './writers.ts';

export class Tree {
  readonly writers: Writers;
  readonly hosts: Hosts;
  /** Talks to MCP servers; null when none are configured. */
  toolServers: Child | null = null;
  /** Does what costs CPU or disk; started with its first job. */
  jobs: Child | null = null;
  readonly deadlines = new Deadlines(() => performance.now());
  /** How often each retire reason happened. */
  readonly retired: Record<RetireReason, number> = Object.fromEntries(
    RETIRE_REASONS.map((reason) => [reason, 0]),
  ) as Record<RetireReason, number>;

  readonly #options: TreeOptions;
  readonly #specifications: Specifications;
  readonly #links: LinkServer;
  readonly #apps: Population;
  readonly #fires = new Population({
    places: LIMITS.fireThreads,
    share: LIMITS.fireThreadsOfApp,
    idleMs: LIMITS.fireIdleMs,
  });
  /** Drafts have places of their own, so that previews never take those of live apps. */
  readonly #drafts: Population;
  readonly #draftEnvironment: ActorEnvironment;
  readonly #generations = new Map<number, Generation>();
  readonly #appEnvironment: ActorEnvironment;
  readonly #fireEnvironment: ActorEnvironment;
  #housekeeping: NodeJS.Timeout | undefined;
  #stopping = false;
  #onWriterReady: () => void = () => {};
  #onWriterFailed: (reason: string) => void = () => {};

  constructor(options: TreeOptions) {
    this.#options = options;
    this.#apps = new Population({ places: options.maxLiveActors, idleMs: options.actorIdleMs });
    this.#drafts = new Population({ places: LIMITS.draftThreads, idleMs: options.actorIdleMs });
    this.#specifications = new Specifications(options);
    this.#links = new LinkServer(this.#specifications.key, this.#welcome, (why) =>
      options.log('warn', `a connection was closed: ${why}`),
    );
    this.#appEnvironment = this.#environment(this.#apps, options.mailboxLimit, LIMITS.actorConcurrency);
    this.#draftEnvironment = this.#environment(this.#drafts, options.mailboxLimit, LIMITS.actorConcurrency);
    this.#fireEnvironment = this.#environment(this.#fires, LIMITS.runsWaiting, 1);
    this.writers = new Writers({
      specification: (place) => this.#specifications.writer(place),
      create: this.#createWriter,
      socket: (name) => this.#specifications.socket(name),
      now: () => performance.now(),
    });
    this.hosts = new Hosts({ count: options.handlerHosts, create: this.#createHost, now: () => performance.now() });
  }

  /**
   * Listens and starts every process. Resolves when the writer is ready, without waiting for the hosts; rejects when the
   * writer does not come up.
   */
  async start(): Promise<void> {
    await this.#links.listen(this.#specifications.supervisorSocket);
    await new Promise<void>((resolve, reject) => {
      this.#onWriterReady = resolve;
      this.#onWriterFailed = (reason) => reject(new Error(reason));
      this.writers.main.start();
      this.hosts.start();
      this.#housekeeping = setInterval(() => this.#tidy(), 1000);
    });
    this.#onWriterFailed = this.#options.onFatal;
  }

  /** Signs what a connection may claim to be. */
  ticket(ticket: Ticket): string {
    return this.#specifications.ticket(ticket);
  }

  /** Where the writer of that database file is reached. */
  writerSocket(file: string): string {
    return this.writers.socketOf(file);
  }

  /** The actor of an app or a draft; made on first need, with the version that is active. Throws `OVERLOADED` once the tree stops. */
  actor(app: string, summary: VersionSummary): Actor {
    const existing = this.existing(app);
    if (existing) return existing;
    const [population, environment] = isDraftKey(app)
      ? [this.#drafts, this.#draftEnvironment]
      : [this.#apps, this.#appEnvironment];
    return this.#add(population, () => new Actor(app, null, summary, environment));
  }

  existing(app: string): Actor | undefined {
    return this.#apps.get(app) ?? this.#drafts.get(app);
  }

  /**
   * The actor that fires an automation, one fire at a time; made on first need, with the version that is active. It is forgotten
   * when it has nothing to do: whoever gets it hands it the call in the same turn. Throws `OVERLOADED` once the tree stops.
   */
  fireActor({ app, id }: { app: string; id: string }, summary: VersionSummary): Actor {
    const make = () => new Actor(app, id, summary, this.#fireEnvironment);
    return this.#fires.get(actorKey(app, id)) ?? this.#add(this.#fires, make);
  }

  /** The actors of apps, of drafts, and those of automations. */
  get actors(): Actor[] {
    return [...this.#apps.all, ...this.#drafts.all, ...this.#fires.all];
  }

  /** The versions of an app that threads run, for calls or for fires. */
  versionsAtWork(app: string): Set<string> {
    const running = [...this.#generations.values()].filter(({ spec, state }) => spec.app === app && state !== 'gone');
    return new Set(running.map(({ spec }) => spec.versionId));
  }

  /** Stops an app's actor and forgets it. Calls that wait are answered with `refusal`, by default that the app was removed. */
  async remove(app: string, refusal?: SvcError): Promise<void> {
    const actor = this.existing(app);
    if (actor) await this.#remove(isDraftKey(app) ? this.#drafts : this.#apps, actor, refusal);
  }

  /** Ends the fires of an app that goes away, and forgets them. */
  async removeFires(app: string): Promise<void> {
    await Promise.all(this.#firesOf(app).map((actor) => this.#remove(this.#fires, actor)));
  }

  /** The app has a new version: fires run it from the next one on. Those under way may end; threads without work end now. */
  swapFires(app: string, summary: VersionSummary): void {
    for (const actor of this.#firesOf(app)) {
      actor.renew(summary);
      // The new version may have no such automation.
      if (actor.vacant) this.#fires.delete(actor);
    }
  }

  /** Lifts the quarantines of an app's automations and replaces their threads. */
  restartFires(app: string): void {
    for (const actor of this.#firesOf(app)) actor.restart();
  }

  /** Lets calls end for `drainMs`, then stops actors, hosts and the writer, in this order. */
  async stop(drainMs: number): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#housekeeping);
    await Promise.all(this.actors.map((actor) => actor.stop('shutdown', drainMs)));
    await this.hosts.stop(LIMITS.terminateMs);
    await this.writers.stop();
    this.#close();
  }

  /** Kills everything without asking. */
  destroy(): void {
    this.#stopping = true;
    clearInterval(this.#housekeeping);
    for (const child of [...this.hosts.all, ...(this.jobs ? [this.jobs] : [])]) child.destroy();
    this.writers.destroy();
    for (const actor of this.actors) void actor.stop('shutdown', 0);
    // Not killed: it ends its servers first, and ends without its connection in any case.
    void this.toolServers?.stop(LIMITS.terminateMs);
    this.#close();
  }

  #add(population: Population, make: () => Actor): Actor {
    if (this.#stopping) throw stoppingError();
    return population.add(make());
  }

  async #remove(population: Population, actor: Actor, refusal?: SvcError): Promise<void> {
    population.delete(actor);
    await actor.stop('removed', LIMITS.cancelGraceMs, refusal);
    await this.hosts.release(actor.key);
  }

  #firesOf(app: string): Actor[] {
    return this.#fires.all.filter((actor) => actor.app === app);
  }

  #find(key: string): Actor | undefined {
    return this.existing(key) ?? this.#fires.get(key);
  }

  #close(): void {
    this.#links.close();
    rmSync(this.#options.socketFolder, { recursive: true, force: true });
  }

  #environment(population: Population, mailboxLimit: number, concurrency: number): ActorEnvironment {
    return {
      now: () => performance.now(),
      random: Math.random,
      deadlines: this.deadlines,
      mailboxLimit,
      concurrency,
      spawn: (actor, summary, events) => {
        const spec = this.#specifications.thread(actor, summary, (file) => this.writerSocket(file));
        const generation = new Generation(spec, summary, this.hosts.hostOf(actor.key), events, () => performance.now());
        this.#generations.set(spec.actorId, generation);
        return generation;
      },
      admit: (actor) => population.admit(actor),
      rested: (actor) => population.rested(actor),
      retired: (_actor, reason) => {
        this.retired[reason]++;
        for (const [id, generation] of this.#generations) if (generation.state === 'gone') this.#generations.delete(id);
        queueMicrotask(() => population.next());
      },
      log: (app, level, message) => this.#options.log(level, message, app),
      appLog: (app, line) => this.#options.appLog(app, line),
    };
  }

  readonly #welcome = (ticket: Ticket, link: Link): LinkOwner | null => {
    switch (ticket.role) {
      case 'writer':
        return this.writers.find(ticket.name)?.attach(link) ?? null;
      case 'writer-watch':
        return { onFrame: (frame) => this.#writerStuck(ticket.name, frame), onClose: () => {} };
      case 'host':
        return this.hosts.all.find((host) => host.name === ticket.host)?.attach(link) ?? null;
      case 'mcp':
        return this.toolServers?.attach(link) ?? null;
      case 'jobs':
        return this.jobs?.attach(link) ?? null;
      case 'actor':
        return this.#generations.get(ticket.actorId)?.attach(link) ?? null;
      case 'database':
        return null;
    }
  };

  readonly #createWriter = (spec: ChildSpec, app: string | null): Child => {
    const writer: Child = this.#child(spec, {
      onReady: () => {
        if (app !== null) return;
        this.#onWriterReady();
        this.#options.onWriterReady();
      },
      onFrame: (frame) => {
        throw new Error(`The writer may not send frames of kind ${frame[0]}.`);
      },
      onExit: (reason) => {
        if (app === null) this.#writerDied(reason);
        else {
          this.#options.onWriterLost(app);
          if (writer.state === 'failed') this.existing(app)?.quarantine(`its writer ${reason} again and again`);
        }
      },
    });
    return writer;
  };

  /** The one for all. */
  #writerDied(reason: string): void {
    this.writers.mainEnded();
    for (const actor of [...this.#apps.all, ...this.#drafts.all])
      if (actor.generations.length > 0) this.#options.onWriterLost(actor.app);
    if (this.writers.main.state === 'failed') this.#onWriterFailed(`The SQLite writer does not stay up: ${reason}.`);
  }

  readonly #createHost = ({ name }: { name: string }, solitaryFor: string | null): Child => {
    const host: Child = this.#child(this.#specifications.host(name, solitaryFor === null), {
      onReady: () => {
        for (const generation of this.#generations.values()) if (generation.host === host) generation.hostReady();
      },
      onFrame: (frame) => {
        if (frame[0] !== Kind.exited) throw new Error(`A host may not send frames of kind ${frame[0]}.`);
        const generation = this.#generations.get(frame[1]);
        if (generation?.host === host) generation.exited(frame[2], frame[3]);
      },
      onExit: (reason) => this.#hostDied(host, solitaryFor, reason),
    });
    return host;
  };

  /** The process that talks to MCP servers; its owner starts it, on first use, and stops it. */
  toolServerChild(settings: ToolServerSettings, events: Omit<ChildEvents, 'onProcess' | 'log'>): Child {
    this.toolServers = this.#child(this.#specifications.toolServers(settings), events);
    return this.toolServers;
  }

  /** The process of jobs, which starts when it is told to. Both lists are folders and files. */
  jobsChild(
    folders: { readable: string[]; writable: string[] },
    events: Omit<ChildEvents, 'onProcess' | 'log'>,
  ): Child {
    this.jobs = this.#child(this.#specifications.jobs(folders), events);
    return this.jobs;
  }

  #child(spec: ChildSpec, events: Omit<ChildEvents, 'onProcess' | 'log'>): Child {
    return new Child(
      spec,
      {
        ...events,
        onProcess: (pid, alive) => this.#options.onProcess(pid, spec.role, alive),
        log: (level, message) => this.#options.log(level, message),
      },
      { now: () => performance.now(), random: Math.random },
    );
  }

  #hostDied(host: Child, solitaryFor: string | null, reason: string): void {
    const hit = [...this.#generations.values()].filter((generation) => generation.host === host);
    // First of all the culprits move: what runs again below must not run here.
    if (!solitaryFor && !this.#stopping) this.#moveCulprits(host, hit, reason);
    for (const generation of hit) {
      if (generation.state === 'placed' && this.hosts.hostOf(generation.key) === host) continue;
      generation.hostGone(`its host ${reason}`, solitaryFor === null);
    }
    if (host.state === 'failed' && solitaryFor) {
      this.#find(solitaryFor)?.quarantine(`its host ${reason} again and again`);
      void this.hosts.release(solitaryFor);
    }
  }

  #moveCulprits(host: Child, hit: Generation[], reason: string): void {
    const stuck = hit.filter((generation) => generation.stuck);
    const busy = hit.filter((generation) => generation.inFlight.size > 0);
    // A call that was in flight at an earlier death too is the likeliest cause: others take milliseconds, and have ended since.
    const again = busy.filter(({ inFlight }) => [...inFlight.values()].some((call) => call.attempts > 1));
    const culprits = new Set((stuck.length > 0 ? stuck : again).map(({ key }) => key));
    for (const key of culprits) {
      const alone = this.hosts.isolate(key);
      if (!alone && stuck.length > 0) this.#find(key)?.blame(`it took down a host that others share: ${reason}`);
    }
    if (culprits.size === 0)
      this.hosts.diedUnexplained(
        host,
        busy.map(({ key }) => key),
      );
    if (host.state !== 'failed') return;
    const moved = this.hosts.spread(host);
    this.#options.log(
      'error',
      `${host.name} kept dying; it starts afresh${moved.length ? `, without ${moved.join(', ')}` : ''}`,
    );
  }

  /**
   * A writer has been busy with one statement for too long: it is replaced, and the app whose statement it is pays. From now on it
   * has a writer of its own.
   */
  #writerStuck(name: string, frame: Frame): void {
    if (frame[0] !== Kind.stuck) throw new Error(`The writer's watch may not send frames of kind ${frame[0]}.`);
    const [, app, ms, begun] = frame;
    const writer = this.writers.find(name);
    if (!writer) return;
    if (writer === this.writers.main) this.writers.handOver(begun);
    const actor = this.existing(app);
    if (actor) {
      const { dataFile } = this.#options.paths(app, actor.summary.versionId);
      const alone = this.writers.isolate(app, dataFile);
      actor.blame(`a statement kept the writer busy for ${Math.round(ms)} ms`);
      if (!alone) actor.quarantine('it kept the writer busy, and too many apps already have a separate writer');
      // Where the culprit is known, the death is not the writer's own.
      writer.revive();
    }
    writer.kill(`busy for ${Math.round(ms)} ms with one statement of ${app}`);
  }

  #tidy(): void {
    const now = performance.now();
    for (const population of [this.#apps, this.#drafts, this.#fires]) population.tidy(now);
    this.writers.tidy((app) => this.existing(app) !== undefined);
    for (const key of this.hosts.cleared()) {
      const actor = this.#find(key);
      actor?.rest('evicted');
      if (!actor || actor.generations.length === 0) void this.hosts.release(key);
    }
    // There may be thousands of automations; those that had trouble stay, for the status to show it.
    for (const actor of this.#fires.all) if (actor.vacant && actor.restarts === 0) this.#fires.delete(actor);
  }
}
