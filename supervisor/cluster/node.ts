/**
 * Runs this gateway as a node of a cluster: what is in the buckets that it gets is fetched and served, what is in those that it loses is
 * let go of (specification, "Clusters"). Who owns a bucket is decided by `Membership`.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Logger } from 'pino';
import { bucketOf, GATEWAY_BUCKET } from '../../protocol/buckets.ts';
import { movedError, type SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ClusterStatus } from '../../protocol/routes/operations/cluster-rows.ts';
import type { OwnedBucket } from '../../protocol/wire/frames.ts';
import { unknownApp } from '../../storage/apps/registry.ts';
import { AppDirectory, type ListedApp } from '../../storage/cluster/app-directory.ts';
import { Database } from '../../storage/cluster/database.ts';
import { SharedRepository } from '../../storage/cluster/shared-repository.ts';
import { type ListedWebhook, WebhookDirectory } from '../../storage/cluster/webhook-directory.ts';
import { WorkspaceDirectory } from '../../storage/cluster/workspace-directory.ts';
import type { CodeStorePaths, Layout } from '../../storage/layout.ts';
import { openCopy } from '../../storage/replication/local-copy.ts';
import { LogNames } from '../../storage/replication/names.ts';
import type { LargeContents } from '../../storage/shared-files/large-contents.ts';
import { SharedFiles } from '../../storage/shared-files/shared-files.ts';
import { bucketOfSubject, nameOf, type Subject } from '../../storage/shared-files/subjects.ts';
import type { SharedWorkspaces } from '../authoring/workspace-folders.ts';
import type { Automations } from '../automations/automations.ts';
import type { Git } from '../deployments/store/git-operations.ts';
import type { SharedAddresses } from '../deployments/webhook-claims.ts';
import type { AtOwner } from '../dispatch/at-owner.ts';
import { type ExchangeHandler, sendError } from '../edge/edge.ts';
import type { Places } from '../http/access/places.ts';
import type { Pipeline } from '../http/pipeline.ts';
import type { IdentityClient } from '../people/identity-db.ts';
import type { PageLog } from '../tree/specifications.ts';
import { Calls } from './calls/calls.ts';
import type { Locate } from './calls/finder.ts';
import { unavailable } from './calls/node-calls.ts';
import { Owners } from './calls/owners.ts';
import { workAtOwner } from './calls/work-at-owner.ts';
import { Directory, type Epoch } from './directory.ts';
import { enterCluster, type Run } from './enter.ts';
import { ClusterIdentity, IDENTITY_BUCKET, IDENTITY_DATABASE } from './identity/cluster-identity.ts';
import { Keys } from './keys.ts';
import { KnownApps } from './known-apps.ts';
import { locator } from './locator.ts';
import { Membership } from './membership.ts';
import type { ClusterSettings } from './settings.ts';
import { SharedGit } from './shared-git.ts';
import { checkStart, openLargeContents } from './start-checks.ts';
import { clusterStatus } from './status.ts';

const FILE_CONNECTIONS = 4;
const NOTHING: StoredBucket = { subjects: [], apps: [], databases: [], webhooks: [] };

/** `places` is null where no Host is the origin of an app. */
type NodeOptions = {
  settings: ClusterSettings;
  version: string;
  layout: Layout;
  places: Places | null;
  log: Logger;
};

/** What a node has found at its start: `large` is the store of large files, null where the database has them. */
type Opened = { database: Database; keys: Keys; large: LargeContents | null; run: Run };

/** What the database has of a bucket: whose files, which apps, also those that were removed, which databases and addresses of webhooks. */
export type StoredBucket = {
  subjects: Subject[];
  apps: ListedApp[];
  databases: string[];
  webhooks: ListedWebhook[];
};

/** How the gateway serves what is in buckets. */
export type Serving = {
  /** Begins to serve a bucket, whose files are in their places. */
  serve(bucket: number, stored: StoredBucket): Promise<void>;
  /** Ends what goes on in a bucket within `drainMs`. Where it `isLost` nothing is stored: another node may have it. */
  release(bucket: number, drainMs: number, isLost: boolean): Promise<void>;
  /** As `Tree.own`. */
  own(buckets: OwnedBucket[]): Promise<void>;
  /** Takes what the cluster has of apps in the buckets of other nodes, also that they were removed. */
  learn(apps: ListedApp[]): Promise<void>;
  /** Whether an app is known, wherever it is. */
  knows(app: string): boolean;
};

export class ClusterNode {
  readonly #options: NodeOptions;
  /** The apps of the cluster. */
  readonly apps: AppDirectory;
  /** The names of the databases in its log of pages. */
  readonly names: LogNames;
  readonly atOwner: AtOwner;
  readonly #database: Database;
  /** Renewals do not wait for what is sent and fetched over these connections. */
  readonly #ofFiles: Database;
  readonly #large: LargeContents | null;
  readonly #files: SharedFiles;
  readonly #workspaces: WorkspaceDirectory;
  readonly #webhooks: WebhookDirectory;
  readonly #membership: Membership;
  readonly #owners: Owners;
  /** What the writers may write, by bucket the epoch. */
  readonly #writable = new Map<number, number>();
  /** The epoch in which the files of a bucket here are what the cluster has. */
  readonly #fetched = new Map<number, number>();
  /** What requests are answered for. */
  readonly #served = new Set<number>();
  /** The last work on each bucket that is busy. */
  readonly #turns = new Map<number, Promise<void>>();
  readonly #calls: Calls;
  #identity: ClusterIdentity | null = null;
  readonly #followingToken: NodeJS.Timeout;
  readonly #sweeping: NodeJS.Timeout;
  #owning: Promise<void> | null = null;
  #locate: Locate = () => null;
  #pipeline: Pick<Pipeline, 'handle' | 'isStranger'> = {
    handle: (exchange) => sendError(exchange, movedError()),
    isStranger: () => false,
  };
  #serving: Serving | null = null;
  readonly #knownApps: KnownApps;
  #left: Promise<void> | null = null;
  #stopped: Promise<void> | null = null;
  #isClosed = false;

  private constructor(options: NodeOptions, { database, keys, large, run }: Opened) {
    const { settings, layout, log, version, places } = options;
    const { node: name, address } = settings;
    this.#options = options;
    this.#database = database;
    const follow = () => keys.followToken().catch(() => {}); // the next look
    this.#sweeping = setInterval(() => void this.#sweep(), LIMITS.dayMs).unref();
    this.#followingToken = setInterval(follow, LIMITS.tokenPollMs).unref();
    const epochOf = (bucket: number) => this.#fetched.get(bucket);
    this.apps = new AppDirectory(database, epochOf);
    this.names = new LogNames(database, epochOf);
    this.#webhooks = new WebhookDirectory(database, epochOf);
    this.#ofFiles = new Database(settings.urls, { connections: FILE_CONNECTIONS, answerMs: LIMITS.logAnswerMs });
    this.#large = large;
    this.#files = new SharedFiles(layout, this.#ofFiles, large);
    this.#workspaces = new WorkspaceDirectory(this.#ofFiles);
    this.#membership = new Membership({
      directory: new Directory(database),
      node: { name, instance: run.instance, address, version },
      previous: run.previous,
      quiesce: (bucket) => this.#leave(bucket, false),
      log,
    });
    this.#owners = new Owners(name, {
      ownerOf: (bucket) => {
        const { owner, epoch } = this.#membership.ownerOf(bucket);
        const node = this.#membership.nodes.find((one) => one.name === owner);
        return node === undefined ? undefined : { node: node.name, address: node.address, epoch };
      },
      isServed: (bucket) => this.#served.has(bucket) && this.#membership.epochOf(bucket) !== null,
    });
    this.#calls = new Calls({
      owners: this.#owners,
      secret: settings.secret,
      places,
      storing: (files) => this.#storing(files),
      before: () => this.#identity?.check(),
      absence: (bucket) => this.#absenceIn(bucket),
      next: (exchange) => this.#pipeline.handle(exchange),
      isStranger: (exchange) => this.#pipeline.isStranger(exchange),
      nodes: () => this.#addresses,
      locate: (...asked) => this.#locate(...asked),
      known: ({ method }, page, bucket) => {
        const isChange = bucket === GATEWAY_BUCKET && method !== 'GET' && method !== 'HEAD';
        const isKnown = page === null || this.#serving?.knows(page) !== false;
        return isChange || !isKnown ? () => this.#knownApps.catchUp() : null;
      },
      log,
    });
    this.#knownApps = new KnownApps({
      directory: this.apps,
      isOwn: (app) => this.#writable.has(bucketOf(app)),
      learn: async (apps) => this.#serving?.learn(apps),
    });
    this.atOwner = workAtOwner(this.#owners, this.#calls.ofNodes);
  }

  /** Checks the database and makes the keys those of the cluster. Rejects with `ConfigError`. */
  static async open(options: NodeOptions): Promise<ClusterNode> {
    const { settings, layout, log } = options;
    const database = new Database(settings.urls, { answerMs: LIMITS.nodeStartAnswerMs });
    try {
      const warnings = await checkStart(database, { name: settings.node, address: settings.address });
      for (const warning of warnings) log.warn(warning);
      const large = await openLargeContents(database, settings.s3);
      const keys = new Keys(database, settings.secret, layout);
      const run = await enterCluster({ database, keys, layout, large, node: settings.node, log });
      // From now on a lease depends on the answers.
      database.answerMs = LIMITS.nodeQueryMs;
      return new ClusterNode(options, { database, keys, large, run });
    } catch (error) {
      await database.close();
      throw error;
    }
  }

  get pageLog(): PageLog {
    const { urls, node } = this.#options.settings;
    return { urls, node };
  }

  get status(): ClusterStatus {
    return clusterStatus(this.#options.settings, this.#membership);
  }

  /** For metrics: see `Membership` and `Calls`. */
  get counts() {
    const { renewals, leaseMs } = this.#membership;
    return { renewals, leaseMs, sent: this.#calls?.sent ?? null };
  }

  /** Whether to hand over what it has, in the background, and to take nothing new. */
  set draining(draining: boolean) {
    this.#membership.draining = draining;
  }

  /** Joins the cluster, and resolves when what it got at once is served. Rejects as `Membership.start` does. */
  async begin(serving: Serving): Promise<void> {
    this.#serving = serving;
    this.#membership
      .on('owned', (buckets) => this.#take(buckets))
      .on('lost', (buckets) => {
        for (const bucket of buckets) void this.#leave(bucket, true);
      })
      .on('nodes', () => this.#calls.nodesAre(this.#addresses));
    await this.#membership.start();
    await this.#knownApps.begin();
    await Promise.all(this.#turns.values());
  }

  /** Answers with the pipeline what is this node's, and has others answer the rest. */
  handler(automations: Automations, pipeline: Pick<Pipeline, 'handle' | 'isStranger'>): ExchangeHandler {
    this.#locate = locator(automations, { workspaces: this.#workspaces, webhooks: this.#webhooks });
    this.#pipeline = pipeline;
    return this.#calls.handle;
  }

  serves(app: string): boolean {
    return this.#owners.isOwn(bucketOf(app));
  }

  /** See `AppsOfCluster`. Any node may. */
  async copyApp(app: string, to: Layout, { data }: { data: boolean }): Promise<void> {
    const listed = await this.apps.in([bucketOf(app)]);
    if (!listed.some(({ id, registeredAt }) => id === app && registeredAt !== null)) throw unknownApp(app);
    await new SharedFiles(to, this.#ofFiles, this.#large).fetch({ kind: 'app', id: app });
    if (data) await openCopy(this.#ofFiles, app, to.app(app).data);
  }

  /** Resolves when this node knows by whom all apps were made that were registered at any node before the call. Rejects with `STORAGE_UNAVAILABLE`. */
  knowApps(): Promise<void> {
    return this.#knownApps.catchUp();
  }

  /** What this node knows of people; `db` is its copy of the identity database. Once. */
  identity(db: IdentityClient): ClusterIdentity {
    const { log } = this.#options;
    const isOwner = (at: number) => this.#membership.epochOf(IDENTITY_BUCKET, at) !== null;
    const seq = () => this.names.latest(IDENTITY_DATABASE);
    const identity = new ClusterIdentity({ db, calls: this.#calls.ofNodes, isOwner, seq, log });
    this.#identity = identity;
    identity.follow();
    return identity;
  }

  /** Nobody is known from now on, and what is stored of people at last is not waited for. */
  forgetPeople(): void {
    this.#identity?.close();
  }

  /** Resolves when the database of the cluster has the files of a subject. Rejects as `SharedFiles.store` does. */
  store(subject: Subject): Promise<void> {
    return this.#storing(subject)();
  }

  /** The same, once it is called: refused where the bucket was not this node's all the time since now. */
  #storing(subject: Subject): () => Promise<void> {
    const epoch = this.#epochOf(subject);
    return () => this.#files.store(subject, epoch);
  }

  /** 0, in which nothing is stored, where it is not this node's. */
  #epochOf(subject: Subject): number {
    return this.#fetched.get(bucketOfSubject(subject)) ?? 0;
  }

  /** Warns where this node is not reached at the address that it tells the others. It is listening. */
  async checkAddress(): Promise<void> {
    const { settings, log } = this.#options;
    const why = await this.#calls.ofNodes.whyNotReached(settings.address);
    if (why === null || this.#left !== null) return;
    log.warn(
      `"cluster.address" is "${settings.address}", and this node does not reach itself there (${why}), so the others may not. Set the address at which they reach it.`,
    );
  }

  /** The copy of the repository in `paths`, on which `git` works. */
  repository(paths: CodeStorePaths, git: Git): SharedGit {
    const fenceOf = (app: string) => {
      const bucket = bucketOf(app);
      const epoch = this.#fetched.get(bucket);
      if (epoch === undefined) throw movedError();
      return { bucket, epoch };
    };
    const { layout, settings } = this.#options;
    const shared = new SharedRepository(this.#ofFiles);
    return new SharedGit({ node: settings.node, shared, paths, tmpDir: layout.tmpDir, git, fenceOf });
  }

  get workspaces(): SharedWorkspaces {
    const subjectOf = (part: string): Subject => ({ kind: 'workspace', id: part });
    return {
      directory: this.#workspaces,
      store: (part) => this.store(subjectOf(part)),
      remove: (part) => this.#files.remove(subjectOf(part), this.#epochOf(subjectOf(part))),
    };
  }

  /** The addresses of webhooks of all apps of the cluster. */
  get webhooks(): SharedAddresses {
    const directory = this.#webhooks;
    return {
      claim: (...asked) => directory.claim(...asked),
      others: (...asked) => directory.others(...asked),
      settle: async (app, addresses) => {
        const settling = () => directory.settle(app, addresses());
        const isOurs = () => this.#writable.has(bucketOf(app));
        await settling().catch(() => {
          void this.#persist(isOurs, settling, `The addresses of webhooks that ${app} has cannot be stored.`);
        });
      },
    };
  }

  /**
   * Hands over what it has for up to `drainMs`, and leaves the cluster: what is left then is taken over at once. It goes on answering, by
   * sending requests on, and resolves when no other node sends it any more. Later calls wait for the first.
   */
  leave(drainMs: number): Promise<void> {
    this.#left ??= this.#leaveCluster(drainMs);
    return this.#left;
  }

  /** Leaves, and lets what it has sent on end for up to `drainMs` more. Later calls wait for the first. */
  stop(drainMs: number): Promise<void> {
    this.#stopped ??= this.#stop(drainMs);
    return this.#stopped;
  }

  async #leaveCluster(drainMs: number): Promise<void> {
    await withinMs(drainMs, this.#membership.drain());
    await this.#membership.leave().catch((error: Error) => {
      const what = 'The cluster could not be told that this node ends; it notices in seconds.';
      this.#options.log.warn({ err: error }, what);
    });
    // Whoever is a node by then has looked who the owners are: a request to a connection that closes would be lost.
    const { node } = this.#options.settings;
    if (this.#membership.nodes.some(({ name, isLive }) => isLive && name !== node))
      await wait(Math.min(drainMs, LIMITS.nodeLeaseMs));
  }

  async #stop(drainMs: number): Promise<void> {
    await this.leave(drainMs);
    // What does not let go in time ends with its process.
    await withinMs(
      drainMs,
      Promise.all(this.#turns.values()).then(() => this.#calls.settled()),
    );
    this.#calls.close();
  }

  /** After the writers have ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#followingToken);
    this.#knownApps.close();
    clearInterval(this.#sweeping);
    await this.#ofFiles.close();
    await this.#database.close();
  }

  /** Why this node knows nothing of a bucket now; null while it has a lease. */
  #absenceIn(bucket: number): SvcError | null {
    const { leaseMs, databaseFault } = this.#membership;
    if (leaseMs > 0) return null;
    // Whom it gave the bucket to is known, and not who takes what it still had.
    if (this.#left !== null && databaseFault === null)
      return this.#membership.ownerOf(bucket).owner === this.#options.settings.node ? movedError() : null;
    const why =
      databaseFault === null ? 'This node is not in the cluster' : 'The database of the cluster does not answer';
    return unavailable(`${why}, so this node serves nothing now; try again in a moment.`);
  }

  /** Of the nodes whose leases have not ended. */
  get #addresses(): string[] {
    return this.#membership.nodes.filter(({ isLive }) => isLive).map(({ address }) => address);
  }

  /** Deletes contents of files that no app has any more. Any node may, beside the others. */
  async #sweep(): Promise<void> {
    try {
      while (!(await this.#files.sweep()).isRound);
    } catch (error) {
      this.#options.log.warn({ err: error }, 'Old files could not be removed from the database of the cluster.');
    }
  }

  #take(buckets: readonly Epoch[]): void {
    // What still goes on here of an earlier epoch writes nothing in this one.
    for (const { bucket, epoch } of buckets) if (!this.#turns.has(bucket)) this.#writable.set(bucket, epoch);
    void this.#own();
    const stored = this.#storedIn(buckets);
    for (const { bucket, epoch } of buckets)
      void this.#inTurn(bucket, async () => this.#serve(bucket, epoch, await stored));
  }

  async #serve(bucket: number, epoch: number, stored: ReadonlyMap<number, StoredBucket>): Promise<void> {
    const isOurs = (): boolean => this.#membership.epochOf(bucket) === epoch;
    const { subjects, ...rest } = stored.get(bucket) ?? NOTHING;
    if (isOurs() && this.#writable.get(bucket) !== epoch) {
      this.#writable.set(bucket, epoch);
      await this.#own();
    }
    const fetched: Subject[] = [];
    for (const subject of subjects) {
      const fetching = () => this.#files.fetch(subject);
      if (await this.#persist(isOurs, fetching, `${nameOf(subject)} cannot be fetched.`)) fetched.push(subject);
    }
    if (isOurs()) this.#fetched.set(bucket, epoch);
    const serving = async () => {
      await this.#serving?.serve(bucket, { ...rest, subjects: fetched });
      if (bucket === IDENTITY_BUCKET) await this.#identity?.own(epoch);
    };
    const isServed = await this.#persist(isOurs, serving, 'What is in a bucket of the cluster cannot be served.');
    if (isServed && isOurs()) this.#served.add(bucket);
    // What was left to `serve` is not known then.
    else this.#knownApps.forget();
  }

  /** Resolves when the node has nothing of the bucket under way. */
  #leave(bucket: number, isUrgent: boolean): Promise<void> {
    this.#served.delete(bucket);
    if (isUrgent) void this.#disown(bucket);
    if (bucket === IDENTITY_BUCKET) this.#identity?.follow();
    return this.#inTurn(bucket, async () => {
      this.#served.delete(bucket);
      const until = performance.now() + LIMITS.drainMs;
      // Runs and calls that end meanwhile would refuse the requests that were taken before.
      const ended = this.#writable.has(bucket) ? this.#owners.underWay.ended(bucket) : null;
      if (ended !== null) await withinMs(LIMITS.drainMs, ended);
      const releasing = async () => {
        const isLost = !this.#writable.has(bucket);
        await this.#serving?.release(bucket, isLost ? 0 : Math.max(0, until - performance.now()), isLost);
      };
      // What still runs would go on with the files of now when the bucket comes again.
      await this.#persist(() => !this.#isClosed, releasing, 'What is in a bucket of the cluster cannot be let go of.');
      await this.#disown(bucket);
    });
  }

  /** Writes nothing of it any more. */
  #disown(bucket: number): Promise<void> {
    this.#writable.delete(bucket);
    this.#fetched.delete(bucket);
    return this.#own();
  }

  async #storedIn(buckets: readonly Epoch[]): Promise<Map<number, StoredBucket>> {
    const found = new Map<number, StoredBucket>();
    const numbers = buckets.map(({ bucket }) => bucket);
    const of = (bucket: number): StoredBucket => {
      const known = found.get(bucket) ?? { subjects: [], apps: [], databases: [], webhooks: [] };
      found.set(bucket, known);
      return known;
    };
    const isOfAny = (): boolean => buckets.some(({ bucket, epoch }) => this.#membership.epochOf(bucket) === epoch);
    const read = async (): Promise<void> => {
      const [subjects, apps, databases, webhooks] = await Promise.all([
        this.#files.subjectsIn(numbers),
        this.apps.in(numbers),
        this.names.in(numbers),
        this.#webhooks.in(numbers),
      ]);
      for (const subject of subjects) of(bucketOfSubject(subject)).subjects.push(subject);
      for (const app of apps) of(bucketOf(app.id)).apps.push(app);
      for (const database of databases) of(bucketOf(database)).databases.push(database);
      for (const webhook of webhooks) of(bucketOf(webhook.app)).webhooks.push(webhook);
    };
    await this.#persist(isOfAny, read, 'What is in the buckets of this node cannot be read.');
    return found;
  }

  /** Tries again as long as it makes sense; false where it did not succeed. Only what is damaged is given up at once. */
  async #persist(makesSense: () => boolean, work: () => Promise<unknown>, message: string): Promise<boolean> {
    while (makesSense()) {
      try {
        await work();
        return true;
      } catch (error) {
        this.#options.log.error({ err: error }, message);
        if ((error as { code?: string }).code === 'STORE_DAMAGED') return false;
        await wait(LIMITS.nodeMovingLookMs);
      }
    }
    return false;
  }

  /** Changes of one turn of the event loop are told together. */
  #own(): Promise<void> {
    this.#owning ??= Promise.resolve().then(() => {
      this.#owning = null;
      return this.#serving?.own([...this.#writable]);
    });
    return this.#owning;
  }

  #inTurn(bucket: number, work: () => Promise<void>): Promise<void> {
    const done = (this.#turns.get(bucket) ?? Promise.resolve()).then(work).catch((error: unknown) => {
      this.#options.log.error({ err: error, bucket }, 'A bucket of the cluster could not be served or let go of.');
    });
    this.#turns.set(bucket, done);
    void done.then(() => {
      if (this.#turns.get(bucket) === done) this.#turns.delete(bucket);
    });
    return done;
  }
}

/** Resolves with the work, or after `ms`. */
async function withinMs(ms: number, work: Promise<unknown>): Promise<void> {
  const ended = new AbortController();
  const late = wait(ms, undefined, { signal: ended.signal }).catch(() => {});
  await Promise.race([work, late]);
  ended.abort();
}
