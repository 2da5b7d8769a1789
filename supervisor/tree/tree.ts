/** The supervision tree: the writer, the handler hosts and the actors on them, started, watched, placed and stopped. */
import { rmSync } from 'node:fs';
import type { SvcError } from '../../protocol/errors.ts';
import { isDraftKey, isOwnDatabase } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { OWN_REASONS, type OwnReason } from '../../protocol/wire/commons.ts';
import { type Frame, Kind, type OwnedBucket, RETIRE_REASONS, type RetireReason } from '../../protocol/wire/frames.ts';
import type { Link, LinkHandlers } from '../../protocol/wire/link.ts';
import type { Ticket } from '../../protocol/wire/ticket.ts';
import { Meters } from '../operations/metrics/meters.ts';
import { Actor, type ActorEnvironment } from './actor/actor.ts';
import { Deadlines } from './actor/call.ts';
import { stoppingError } from './actor/call-errors.ts';
import { actorKey, Generation } from './actor/generation.ts';
import { Child, type ChildEvents, type ChildSpec } from './child.ts';
import { Commons } from './commons.ts';
import { Hosts } from './hosts.ts';
import { LinkServer } from './links.ts';
import { placesIn } from './places.ts';
import { Population } from './population.ts';
import { type AgentProcessSettings, Specifications, type TreeOptions } from './specifications.ts';
import { Writers } from './writers.ts';

const now = performance.now.bind(performance);

export class Tree {
  /** Each kind of actors has separate places: previews and runs never take those of live apps. */
  readonly apps: Population<Actor>;
  readonly drafts: Population<Actor>;
  /** Apps whose queries run in the commons of the hosts; they have their mailboxes in `apps`. */
  readonly commons: Population<Actor> | null;
  readonly fires = new Population<Actor>({
    places: LIMITS.fireThreads,
    share: LIMITS.fireThreadsOfApp,
    idleMs: LIMITS.fireIdleMs,
    mailboxLimit: LIMITS.runsWaiting,
    concurrency: 1,
  });
  readonly writers: Writers;
  readonly hosts: Hosts;
  /** Owns the agents and the clients of MCP servers; started with the first turn or call. */
  agents: Child | null = null;
  /** Does what costs CPU or disk; started with its first job. */
  jobs: Child | null = null;
  /** Run SQL of callers; each is started when it is needed. */
  readonly sql: Child[] = [];
  /** Counts of each app's calls. */
  readonly meters = new Meters();
  /** How often each retire reason happened. */
  readonly retired: Record<RetireReason, number> = Object.fromEntries(
    RETIRE_REASONS.map((reason) => [reason, 0]),
  ) as Record<RetireReason, number>;

  /** How often an app left the commons, by why. */
  readonly leftCommons = Object.fromEntries(OWN_REASONS.map((reason) => [reason, 0])) as Record<OwnReason, number>;

  readonly #options: TreeOptions;
  readonly #commons = new Map<Child, Commons>();
  readonly #specifications: Specifications;
  readonly #links: LinkServer;
  readonly #generations = new Map<number, Generation>();
  readonly #environment: ActorEnvironment;
  #housekeeping: NodeJS.Timeout | undefined;
  #stopping = false;
  #onWriterReady: () => void = () => {};
  #onWriterFailed: (reason: string) => void = () => {};

  constructor(options: TreeOptions) {
    const { actorIdleMs: idleMs, mailboxLimit, handlerHosts: count } = options.config;
    const places = placesIn(options.config);
    const { log, callbacks } = options;
    this.#options = options;
    const shared = { idleMs, mailboxLimit, concurrency: LIMITS.actorConcurrency };
    this.apps = new Population({ places: places.threads, ...shared });
    this.drafts = new Population({ places: LIMITS.draftThreads, ...shared });
    // An app that is tested has a clock of its own.
    this.commons = options.simulation === undefined ? new Population({ places: places.quiet, ...shared }) : null;
    this.#specifications = new Specifications(options);
    // At a stop processes end with their connections, in any order.
    this.#links = new LinkServer(this.#specifications.key, this.#welcome, (why) => {
      if (!this.#stopping) log('warn', `a connection was closed: ${why}`);
    });
    const deadlines = new Deadlines(now);
    this.#environment = {
      now,
      random: Math.random,
      deadlines,
      spawn: this.#spawn,
      meter: (app) => this.meters.of(app),
      retired: this.#retired,
      commons: this.commons,
      leftCommons: (reason) => {
        this.leftCommons[reason]++;
      },
      log,
      callbacks,
    };
    this.writers = new Writers(this.#specifications, this.#createWriter, now, options.pageLog === null);
    this.hosts = new Hosts({ count, create: this.#createHost, now });
    options.simulation?.clock.onChange(() => {
      for (const generation of this.#generations.values()) generation.tellTime();
    });
  }

  /**
   * Listens and starts every process. Resolves when the writer is ready, without waiting for the hosts; rejects when the
   * writer does not come up.
   */
  async start(): Promise<void> {
    await this.#links.listen(this.#specifications.supervisorSocket);
    if (this.#stopping) throw stoppingError();
    await new Promise<void>((resolve, reject) => {
      this.#onWriterReady = resolve;
      this.#onWriterFailed = (reason) => reject(new Error(reason));
      this.writers.main.start();
      this.hosts.start();
      this.#housekeeping = setInterval(() => this.#tidy(), 1000);
    });
    this.#onWriterFailed = this.#options.callbacks.onFatal;
  }

  ticket(ticket: Ticket): string {
    return this.#specifications.ticket(ticket);
  }

  /** The buckets that the writers may write from now on, all of them. Resolves when nothing of others is under way. */
  own(buckets: OwnedBucket[]): Promise<void> {
    return this.writers.owned.change(buckets, this.writers.all);
  }

  /** Where the writer of that database file is reached. */
  writerSocket(file: string): string {
    return this.writers.socketOf(file);
  }

  /** The queries of this app can run in the commons: those of its host are ready for the first call. */
  prepareCommons(app: string): void {
    if (this.commons !== null) this.#commonsOf(this.hosts.hostOf(app)).prepare();
  }

  /** The actor of an app or a draft; made on first need, with the version that is active. Throws `OVERLOADED` once the tree stops. */
  actor(app: string, summary: VersionSummary): Actor {
    const population = this.#populationOf(app);
    return population.get(app) ?? this.#add(population, app, null, summary);
  }

  existing(app: string): Actor | undefined {
    return this.#populationOf(app).get(app);
  }

  /**
   * The actor that fires an automation, one fire at a time; made on first use, with the active version. It is dropped when
   * idle, so the caller must submit its call in the same turn. Throws `OVERLOADED` once the tree stops.
   */
  fireActor({ app, id }: { app: string; id: string }, summary: VersionSummary): Actor {
    return this.fires.get(actorKey(app, id)) ?? this.#add(this.fires, app, id, summary);
  }

  get actors(): Actor[] {
    return [...this.apps.all, ...this.drafts.all, ...this.fires.all];
  }

  /** The versions of an app that threads run, for calls or for fires. */
  versionsAtWork(app: string): Set<string> {
    const running = [...this.#generations.values()].filter(({ spec, state }) => spec.app === app && state !== 'gone');
    return new Set(running.map(({ spec }) => spec.versionId));
  }

  /** Stops an app's actor and forgets it. Calls that wait are answered with `refusal`, by default that the app was removed. */
  async remove(app: string, refusal?: SvcError): Promise<void> {
    const actor = this.existing(app);
    if (actor) await this.#remove(this.#populationOf(app), actor, refusal);
  }

  async removeFires(app: string): Promise<void> {
    await Promise.all(this.#firesOf(app).map((actor) => this.#remove(this.fires, actor)));
  }

  /** Stops the actor of an app or draft, and those of its automations: another node goes on with it. Calls in flight get `drainMs`. */
  async release(app: string, drainMs: number): Promise<void> {
    const own = this.existing(app);
    const actors = [...(own ? [own] : []), ...this.#firesOf(app)];
    await Promise.all(
      actors.map(async (actor) => {
        (actor === own ? this.#populationOf(app) : this.fires).delete(actor);
        this.commons?.leave(actor);
        await actor.stop('moved', drainMs);
        await this.hosts.release(actor.key);
      }),
    );
    this.meters.forget(app);
  }

  /** The app has a new version: fires run it from the next one on. Those under way may end; threads without work end now. */
  swapFires(app: string, summary: VersionSummary): void {
    for (const actor of this.#firesOf(app)) {
      actor.renew(summary);
      // The new version may have no such automation.
      if (actor.vacant) this.fires.delete(actor);
    }
  }

  /** Lifts the quarantines of an app's automations and replaces their threads. */
  restartFires(app: string): void {
    for (const actor of this.#firesOf(app)) actor.restart();
  }

  /** The file of an app's data is another one: threads that have the old one open end now, with what they read of it. */
  reopen(app: string): void {
    for (const generation of this.#generations.values()) if (generation.spec.app === app) generation.discard();
  }

  /** The secrets of an app or draft changed: its threads are told. */
  tellSecrets(app: string): void {
    for (const generation of this.#generations.values()) if (generation.spec.app === app) generation.tellSecrets();
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
    for (const child of [...this.hosts.all, ...this.sql, ...(this.jobs ? [this.jobs] : [])]) child.destroy();
    this.writers.destroy();
    for (const actor of this.actors) void actor.stop('shutdown', 0);
    // Not killed: they end their programs first, and end without their connections in any case.
    void this.agents?.stop(LIMITS.terminateMs);
    this.#close();
  }

  #populationOf(app: string): Population<Actor> {
    return isDraftKey(app) ? this.drafts : this.apps;
  }

  #add(population: Population<Actor>, app: string, automation: string | null, summary: VersionSummary): Actor {
    if (this.#stopping) throw stoppingError();
    return population.add(new Actor(app, automation, summary, population, this.#environment));
  }

  async #remove(population: Population<Actor>, actor: Actor, refusal?: SvcError): Promise<void> {
    population.delete(actor);
    this.commons?.leave(actor);
    await actor.stop('removed', LIMITS.cancelGraceMs, refusal);
    await this.hosts.release(actor.key);
  }

  #firesOf(app: string): Actor[] {
    return this.fires.all.filter((actor) => actor.app === app);
  }

  #find(key: string): Actor | undefined {
    return this.existing(key) ?? this.fires.get(key);
  }

  #close(): void {
    this.#links.close();
    rmSync(this.#options.socketFolder, { recursive: true, force: true });
  }

  readonly #spawn: ActorEnvironment['spawn'] = (actor, summary, events, inCommons) => {
    const spec = this.#specifications.thread(actor, summary, this.writers);
    const given = () => callbacks.secrets(spec.app);
    const { callbacks, simulation } = this.#options;
    const host = this.hosts.hostOf(actor.key);
    const { keepBlob } = callbacks;
    const commons = inCommons ? this.#commonsOf(host) : null;
    const generation = new Generation(spec, summary, host, events, now, given, keepBlob, simulation?.clock, commons);
    this.#generations.set(spec.actorId, generation);
    return generation;
  };

  #commonsOf(host: Child): Commons {
    const known = this.#commons.get(host);
    if (known !== undefined) return known;
    const sign = (ticket: Ticket) => this.#specifications.ticket(ticket);
    const commons = new Commons(host, sign, {
      onEnded: (what) => this.#options.log('warn', what),
      onStuck: (key) => {
        if (!this.hosts.isolate(key)) this.#find(key)?.harmedOthers('a query of it could not be ended');
        host.kill(`a thread of ${key} could not be ended`);
      },
    });
    this.#commons.set(host, commons);
    return commons;
  }

  readonly #retired = (reason: RetireReason): void => {
    this.retired[reason]++;
    for (const [id, generation] of this.#generations) if (generation.state === 'gone') this.#generations.delete(id);
  };

  readonly #welcome = (ticket: Ticket, link: Link): LinkHandlers | null => {
    switch (ticket.role) {
      case 'writer':
        return this.writers.find(ticket.name)?.attach(link) ?? null;
      case 'writer-watch':
        return { onFrame: (frame) => this.#watched(ticket.name, frame, link), onClose: () => {} };
      case 'host':
        return this.hosts.all.find((host) => host.name === ticket.host)?.attach(link) ?? null;
      case 'commons': {
        const host = this.hosts.all.find(({ name }) => name === ticket.host);
        return (host && this.#commons.get(host)?.attach(link, ticket)) ?? null;
      }
      case 'agents':
        return this.agents?.attach(link) ?? null;
      case 'jobs':
        return this.jobs?.attach(link) ?? null;
      case 'sql':
        return this.sql.find((child) => child.name === ticket.name)?.attach(link) ?? null;
      case 'actor':
        return this.#generations.get(ticket.actorId)?.attach(link) ?? null;
      case 'database':
        return null;
    }
  };

  readonly #createWriter = (spec: ChildSpec, app: string | null): Child => {
    const writer: Child = this.#child(spec, {
      onReady: () => {
        this.writers.owned.ready(writer);
        if (app !== null) return;
        this.#onWriterReady();
        this.#options.log('debug', 'The SQLite writer is ready.');
      },
      onFrame: (frame) => {
        if (frame[0] === Kind.released) this.writers.owned.released(writer, frame[1]);
        else if (frame[0] === Kind.replaced) this.#options.callbacks.onReplaced(frame[1]);
        else if (frame[0] !== Kind.committed) throw new Error(`The writer may not send frames of kind ${frame[0]}.`);
        else this.#options.callbacks.onCommitted(frame[1], frame[2], frame[3], frame[4]);
      },
      onExit: (reason) => {
        this.writers.owned.ended(writer);
        if (app === null) this.#writerDied(reason);
        else {
          this.#options.callbacks.onWriterLost(app);
          if (writer.state === 'failed') this.existing(app)?.quarantine(`its writer ${reason} again and again`);
        }
      },
    });
    return writer;
  };

  #writerDied(reason: string): void {
    this.writers.handover.writerEnded();
    for (const actor of [...this.apps.all, ...this.drafts.all])
      if (actor.generations.length > 0) this.#options.callbacks.onWriterLost(actor.app);
    if (this.writers.main.state === 'failed') this.#onWriterFailed(`The SQLite writer does not stay up: ${reason}.`);
  }

  readonly #createHost = (name: string, solitaryFor: string | null): Child => {
    const host: Child = this.#child(this.#specifications.host(name, solitaryFor === null), {
      onReady: () => {
        this.#commons.get(host)?.hostReady();
        for (const generation of this.#generations.values()) if (generation.host === host) generation.hostReady();
      },
      onFrame: (frame) => {
        if (frame[0] === Kind.commonsEnded) {
          this.#commons.get(host)?.ended(frame);
          return;
        }
        if (frame[0] !== Kind.exited) throw new Error(`A host may not send frames of kind ${frame[0]}.`);
        const generation = this.#generations.get(frame[1]);
        if (generation?.host === host) generation.exited(frame[2], frame[3]);
      },
      onExit: (reason) => this.#hostDied(host, solitaryFor, reason),
    });
    return host;
  };

  /** The process of the agents; its owner starts it, on first use, and stops it. */
  agentsChild(settings: AgentProcessSettings, events: ChildEvents): Child {
    this.agents = this.#child(this.#specifications.agents(settings), events);
    return this.agents;
  }

  /** The process of jobs, which starts when it is told to. Both lists are folders and files. */
  jobsChild(folders: { readable: string[]; writable: string[] }, events: ChildEvents): Child {
    this.jobs = this.#child(this.#specifications.jobs(folders), events);
    return this.jobs;
  }

  /** A process that runs SQL of callers; its owner starts it, on need, and stops it. */
  sqlChild(name: string, events: ChildEvents): Child {
    const child = this.#child(this.#specifications.sql(name), events);
    this.sql.push(child);
    return child;
  }

  #child(spec: ChildSpec, events: ChildEvents): Child {
    const { callbacks, log } = this.#options;
    return new Child(spec, { ...events, onProcess: callbacks.onProcess, log });
  }

  #hostDied(host: Child, solitaryFor: string | null, reason: string): void {
    const hit = [...this.#generations.values()].filter((generation) => generation.host === host);
    // The culprits move first: what runs again below must not run here.
    if (!solitaryFor && !this.#stopping) this.#moveCulprits(host, hit, reason);
    this.#commons.get(host)?.hostGone();
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
    // A call that was in flight at an earlier death too is the likeliest cause: others take milliseconds and have ended.
    const again = busy.filter(({ inFlight }) => [...inFlight.values()].some((call) => call.attempts > 1));
    const culprits = new Set((stuck.length > 0 ? stuck : again).map(({ key }) => key));
    for (const key of culprits) {
      const alone = this.hosts.isolate(key);
      if (!alone && stuck.length > 0) this.#find(key)?.harmedOthers(`it took down a host that others share: ${reason}`);
    }
    const busyKeys = busy.map(({ key }) => key);
    if (culprits.size === 0) this.hosts.noteSuspects(host, busyKeys);
    if (host.state !== 'failed') return;
    const moved = this.hosts.moveSuspects(host);
    const without = moved.length > 0 ? `, without ${moved.join(', ')}` : '';
    this.#options.log('error', `${host.name} kept dying; it starts afresh${without}`);
  }

  /**
   * A writer is busy with one statement. If it is the shared one, and the app can have a separate writer, it is replaced soon, and
   * what it was asked is done by the next ones. Otherwise it is replaced once the statement has taken too long, with the app's thread.
   */
  #watched(name: string, frame: Frame, link: Link): void {
    if (frame[0] === Kind.slow) {
      if (this.writers.hasRoom) link.send([Kind.halt]);
      return;
    }
    if (frame[0] !== Kind.stuck) throw new Error(`The writer's watch may not send frames of kind ${frame[0]}.`);
    const [, app, file, ms, progress] = frame;
    const writer = this.writers.find(name);
    if (!writer) return;
    if (writer === this.writers.main) this.writers.handover.writerStuck(progress);
    const why = `busy for ${ms} ms with one statement of ${app}`;
    if (isOwnDatabase(app)) {
      writer.kill(why);
      return;
    }
    const alone = this.writers.isolate(app, file);
    if (ms === LIMITS.writerStuckMs) {
      const actor = this.existing(app);
      actor?.harmedOthers(`a statement kept the writer busy for ${ms} ms`);
      if (!alone) actor?.quarantine(`it kept the writer busy, and ${this.writers.whyNoRoom}`);
    }
    // The culprit is known: the death is not the writer's own.
    writer.replace(alone ? `${why}, which has a separate writer now` : why);
  }

  #tidy(): void {
    const at = now();
    for (const population of [this.apps, this.drafts, this.fires, this.commons]) population?.tidy(at);
    this.writers.tidy((app) => this.existing(app) !== undefined);
    for (const key of this.hosts.steadyApps()) {
      const actor = this.#find(key);
      actor?.evict('evicted');
      if (!actor || actor.generations.length === 0) void this.hosts.release(key);
    }
    // There may be thousands of automations; those that had trouble stay, for the status to show it.
    for (const actor of this.fires.all) if (actor.vacant && actor.restarts === 0) this.fires.delete(actor);
  }
}
