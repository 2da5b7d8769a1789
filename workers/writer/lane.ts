/**
 * Runs the writer's operations, one queue (lane) for each database. At a lane's turn, the waiting operations run in one
 * transaction and are answered after its commit (group commit, output gate). `begin` takes the lane under a lease.
 */
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isOfNode } from '../../protocol/buckets.ts';
import type { ErrorBody } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { DbOp, type FrameOf, GROUP_BUCKETS, LOG_WAIT_BUCKETS, type LogWaits } from '../../protocol/wire/frames.ts';
import { DataLost } from '../../storage/existing-file.ts';
import type { Change, Database } from './database.ts';
import { type Keeper, type KeptDatabase, notOurs } from './keeper.ts';
import { describeFailure, StatementError } from './statements.ts';
import { type Pulse, placeOf } from './watch.ts';

const DRAIN_POLL_MS = 10;

const MOVED = 'was removed or replaced while the gateway had it open';

/** The lanes' clock, so that tests can end a lease. */
export type Clock = {
  /** Milliseconds that only grow. */
  now(): number;
  /** Calls `then` once after `ms`, unless the returned function was called before. */
  after(ms: number, then: () => void): () => void;
};

/** Timing of an operation on the writer's clock, for requests that ask for it. */
export type Timing = { receivedAt: number; begunAt: number; endedAt: number; group: number };

/** The requester, which gets the answers. One object per connection. */
export type Asker = {
  readonly closed: boolean;
  /** Its statements may keep the writer busy for less time than others, see `Pulse.beat`. */
  readonly brief: boolean;
  /** From here on the operation of this id may be stored, or the transaction that it commits. */
  mayStore(id: number, isCommit: boolean): void;
  answer(id: number, value: unknown, timing?: Timing): void;
  fail(id: number, error: ErrorBody, timing?: Timing): void;
  close(reason: Error): void;
};

type CommitFrame = Extract<FrameOf<'db'>, { 2: typeof DbOp.commit }>;
type MigrateFrame = Extract<FrameOf<'db'>, { 2: typeof DbOp.migrate }>;

/** Shared by all lanes of a writer. */
export type LaneTools = {
  clock: Clock;
  pulse: Pulse;
  /** `migrated`: as in a `Ticket`. */
  open(file: string, migrated: boolean): Database;
  /** Applies migrations in a separate thread. */
  migrate(file: string, files: MigrateFrame[4], backupTo: string | null): Promise<number[]>;
  /** Checkpoints in a separate thread; never rejects. */
  checkpoint(file: string): Promise<void>;
  /** The database of `name` changed; answers follow after this. */
  committed(name: string, change: Change): void;
  /** Keeps the databases in the log of a cluster; null for a gateway of its own. */
  keeper: Keeper | null;
  /** The file of the database of `name` was removed, or another one took its place; answers follow after this. */
  replaced(name: string): void;
};

/** The bucket of a value, by the upper bounds of the buckets but the last. */
function placeIn(bounds: readonly number[], value: number): number {
  const place = bounds.findIndex((bound) => value <= bound);
  return place < 0 ? bounds.length : place;
}

/** Of a ticket; its maintenance says nothing of `migrated`. */
type Joined = { file: string; name: string; migrated?: boolean | undefined };

/** All lanes: decides whose turn it is, and opens and closes their files. */
export class Lanes {
  readonly tools: LaneTools;
  /** Operations since the start; shown in heartbeats. */
  readonly counters = { commits: 0, statements: 0, rows: 0, groupMax: 0, checkpoints: 0 };
  /** How many operations the commits had. */
  readonly groups = { operations: 0, buckets: Array<number>(GROUP_BUCKETS.length + 1).fill(0) };
  /** How long the commits waited for the log of pages. */
  readonly logged: LogWaits = {
    ms: 0,
    buckets: Array<number>(LOG_WAIT_BUCKETS.length + 1).fill(0),
    operations: 0,
    failed: 0,
  };
  readonly #lanes = new Map<string, Lane>();
  readonly #ready = new Set<Lane>();
  #roundScheduled = false;
  // Higher than all numbers of an earlier writer, if that began fewer than a thousand transactions per millisecond.
  #lastTx = Date.now() * 1000;

  constructor(tools: LaneTools) {
    this.tools = tools;
  }

  /** Databases that are open. */
  get open(): number {
    let count = 0;
    for (const lane of this.#lanes.values()) if (lane.isOpen) count++;
    return count;
  }

  /** A lane has something to do. */
  get isBusy(): boolean {
    return this.#ready.size > 0;
  }

  /** The lane of the file of a ticket, which has the supervisor's name for it. */
  join({ file, name, migrated }: Joined, asker: Asker): Lane {
    let lane = this.#lanes.get(file);
    if (!lane) {
      lane = new Lane(file, name, this);
      this.#lanes.set(file, lane);
    }
    lane.join(asker, migrated);
    return lane;
  }

  leave(lane: Lane, asker: Asker): void {
    lane.leave(asker);
    if (lane.askers.size === 0) this.#retireLater(lane);
  }

  /** Resolves once everything that was accepted is done and every file is closed. */
  async drain(): Promise<void> {
    do await delay(DRAIN_POLL_MS);
    while ([...this.#lanes.values()].some((lane) => !lane.isQuiet));
    // The last answers are on their way out.
    await delay(DRAIN_POLL_MS);
    for (const lane of this.#lanes.values()) lane.close();
  }

  /** Closes the databases for which `isLost` holds, once what was accepted for them is done and in the log of pages. */
  async release(isLost: (name: string) => boolean): Promise<void> {
    for (;;) {
      const lost = [...this.#lanes.values()].filter((lane) => lane.isKept && isLost(lane.name));
      for (const lane of lost) if (lane.isQuiet) lane.close();
      if (lost.every((lane) => !lane.isKept)) return;
      await delay(DRAIN_POLL_MS);
    }
  }

  /** A commit of so many operations. */
  grouped(operations: number): void {
    const { counters, groups } = this;
    counters.commits++;
    if (operations > counters.groupMax) counters.groupMax = operations;
    groups.operations += operations;
    (groups.buckets[placeIn(GROUP_BUCKETS, operations)] as number)++;
  }

  /** A commit of so many operations that the log of pages had after `ms`. */
  shipped(operations: number, ms: number): void {
    this.logged.operations += operations;
    this.logged.ms += ms;
    (this.logged.buckets[placeIn(LOG_WAIT_BUCKETS, ms)] as number)++;
  }

  /** A number for one transaction, which later writers do not reuse. */
  nextTx(): number {
    return ++this.#lastTx;
  }

  /** The lane has something to do: its turn comes soon. */
  schedule(lane: Lane): void {
    this.#ready.add(lane);
    if (this.#roundScheduled) return;
    this.#roundScheduled = true;
    setImmediate(this.#round);
  }

  /** Opens `file`; over `LIMITS.openDatabases` closes the least recently used idle one. */
  openDatabase(file: string, migrated: boolean): Database {
    if (this.open >= LIMITS.openDatabases) {
      let oldest: Lane | null = null;
      for (const lane of this.#lanes.values()) {
        if (lane.isOpen && lane.isQuiet && (!oldest || lane.lastUsed < oldest.lastUsed)) oldest = lane;
      }
      oldest?.close();
    }
    return this.tools.open(file, migrated);
  }

  /** One lane at a time: between two commits, answers go out and requests come in. */
  readonly #round = (): void => {
    const [lane] = this.#ready;
    if (lane) {
      this.#ready.delete(lane);
      lane.turn();
    }
    this.#roundScheduled = this.#ready.size > 0;
    if (this.#roundScheduled) setImmediate(this.#round);
  };

  #retireLater(lane: Lane): void {
    this.tools.clock.after(LIMITS.databaseIdleMs, () => {
      if (lane.askers.size > 0 || this.#lanes.get(lane.file) !== lane) return;
      if (!lane.isQuiet) {
        this.#retireLater(lane);
        return;
      }
      lane.close();
      this.#lanes.delete(lane.file);
    });
  }
}

/** `timing` is of a request that asks for it, complete when it is answered. */
type Waiting = { asker: Asker; request: FrameOf<'db'>; timing: Timing | undefined };
/** `failedId` is the latest of its operations that failed; 0 when none did. */
type Lease = { tx: number; asker: Asker; cancelExpiry: () => void; failedId: number };
type LeaseEnd = 'committed' | 'rolled back' | 'expired';

/** Stands for a failed statement among the values. */
class Failure {
  readonly body: ErrorBody;

  constructor(body: ErrorBody) {
    this.body = body;
  }
}

export class Lane {
  readonly file: string;
  readonly name: string;
  readonly askers = new Set<Asker>();
  /** On the writer's clock. */
  lastUsed: number;
  readonly #lanes: Lanes;
  readonly #tools: LaneTools;
  /** Null for a database that no log of pages has. */
  readonly #keeper: Keeper | null;
  readonly #place: Uint8Array;
  readonly #queue: Waiting[] = [];
  #database: Database | null = null;
  /** Of the database, where there is a log of pages. What it has not confirmed is not shown: answers wait for it. */
  #kept: KeptDatabase | null = null;
  /** Whether the file is there and is not made, as the latest asker says who knows. */
  #migrated = false;
  /** The file was removed or replaced while it was open: what is written now would be lost. */
  #moved = false;
  #lease: Lease | null = null;
  /** The latest transaction that ended, for the error of late operations. */
  #ended: { tx: number; how: LeaseEnd } = { tx: 0, how: 'committed' };
  /** A migration or a release works on the file; everything waits. */
  #held = false;
  #checkpoint: Promise<void> | null = null;
  #commitsSinceCheck = 0;

  constructor(file: string, name: string, lanes: Lanes) {
    this.file = file;
    this.name = name;
    this.#place = placeOf(name, file);
    this.#lanes = lanes;
    this.#tools = lanes.tools;
    this.#keeper = isOfNode(name) ? null : lanes.tools.keeper;
    this.lastUsed = lanes.tools.clock.now();
  }

  get isOpen(): boolean {
    return this.#database !== null;
  }

  /** It has a local copy in use of what is in the log of pages. */
  get isKept(): boolean {
    return this.#kept !== null;
  }

  /** The lane has no waiting, running or holding operation. */
  get isQuiet(): boolean {
    const isAtRest = this.#lease === null && !this.#held && this.#checkpoint === null;
    return this.#queue.length === 0 && isAtRest && (this.#kept?.isSettled ?? true);
  }

  /** Also looks whether the open file is still the one that its name stands for. */
  join(asker: Asker, migrated: boolean | undefined): void {
    this.askers.add(asker);
    if (migrated !== undefined) this.#migrated = migrated;
    if (this.#database?.hasMoved()) this.#moved = true;
  }

  /** The connection of `asker` ended: its transaction is rolled back; its waiting operations are dropped at their turn. */
  leave(asker: Asker): void {
    this.askers.delete(asker);
    if (this.#lease?.asker === asker) this.#endLease('rolled back');
  }

  receive(asker: Asker, request: FrameOf<'db'>): void {
    if (request[3] !== 0) {
      this.#inTransaction(asker, request);
    } else if (this.#queue.length >= LIMITS.laneQueue) {
      asker.fail(request[1], {
        code: 'SQLITE_BUSY',
        message: `${LIMITS.laneQueue} statements wait for this database.`,
      });
    } else if (this.#keeper !== null && this.#keeper.epochOf(this.name) === undefined) {
      asker.fail(request[1], notOurs(this.name).toBody());
    } else {
      this.#queue.push({ asker, request, timing: this.#timingOf(request) });
      this.#wake();
    }
  }

  #timingOf(request: FrameOf<'db'>): Timing | undefined {
    if (request[request.length - 1] !== true) return undefined;
    const at = this.#tools.clock.now();
    return { receivedAt: at, begunAt: at, endedAt: at, group: 1 };
  }

  /** Runs the next group, or the next operation that needs the lane alone. */
  turn(): void {
    if (this.#lease || this.#held) return;
    if (!this.#isReady) {
      if (this.#queue.length > 0) void this.#prepare();
      return;
    }
    this.lastUsed = this.#tools.clock.now();
    this.#tools.pulse.enter(this.#place);
    const length = groupLength(this.#queue);
    if (length > 0) this.#commitGroup(this.#queue.splice(0, length), this.lastUsed + LIMITS.groupMs);
    else if (this.#queue.length > 0) this.#alone(this.#queue.shift() as Waiting);
    this.#tools.pulse.leave();
    this.#wake();
  }

  /** Rolls back what is open and closes the file. The lane stays; its next statement opens the file again. */
  close(): void {
    this.#closeFile();
    const kept = this.#kept;
    this.#kept = null;
    kept?.closed();
  }

  #closeFile(): void {
    if (this.#lease) this.#endLease('rolled back');
    const database = this.#database;
    this.#database = null;
    this.#moved = false;
    this.#tools.pulse.enter(this.#place);
    database?.close();
    this.#tools.pulse.leave();
  }

  /** The local copy is what the log of pages has, in this node's epoch; always so without such a log. */
  get #isReady(): boolean {
    const keeper = this.#keeper;
    return keeper === null || (this.#kept !== null && this.#kept.epoch === keeper.epochOf(this.name));
  }

  /** Gets the local copy from the log of pages, while everything waits. Where that fails, what waits fails. */
  async #prepare(): Promise<void> {
    const keeper = this.#keeper;
    this.#held = true;
    try {
      await this.#kept?.settled();
      this.close();
      const { kept, isReplaced } = await (keeper as Keeper).open(this.name, this.file);
      this.#kept = kept;
      if (isReplaced) this.#tools.replaced(this.name);
    } catch (error) {
      failAll(this.#queue.splice(0), error);
    }
    this.#held = false;
    this.#afterHold();
  }

  /** What this lane does alone is done. */
  #afterHold(): void {
    if (this.#kept?.hasFailed) this.#lose();
    this.#wake();
  }

  /** The log of pages lacks a commit: the local copy is of no use. The next operation gets it again. */
  #lose(): void {
    if (this.#held || this.#kept === null) return;
    // Closing copies the write-ahead log into the file: from here on the copy is of no use, after a crash as well.
    this.#kept.rewriting();
    this.#closeFile();
    if (this.#kept.lost()) this.#tools.replaced(this.name);
    this.#kept = null;
    this.#wake();
  }

  /** Ships a commit of so many operations. */
  #ship(database: Database, change: Change, operations: number): void {
    const kept = this.#kept;
    if (kept === null) return;
    const { clock } = this.#tools;
    const from = clock.now();
    kept.committed(database, change.after).then(
      () => this.#lanes.shipped(operations, clock.now() - from),
      () => {
        this.#lanes.logged.failed++;
        if (this.#kept === kept) this.#lose();
      },
    );
  }

  /** Calls `then` once the log of pages has all that is committed now, or `fail`; at once without such a log. */
  #afterLog(then: () => void, fail: (error: unknown) => void): void {
    if (this.#kept === null || this.#kept.isSettled) then();
    else this.#kept.settled().then(then, fail);
  }

  #wake(): void {
    if (this.#queue.length > 0 && !this.#lease && !this.#held) this.#lanes.schedule(this);
  }

  #open(): Database {
    if (this.#moved) throw new DataLost(MOVED);
    if (this.#database === null) {
      this.#database = this.#lanes.openDatabase(this.file, this.#migrated);
      this.#kept?.opened(this.#database.state());
    }
    return this.#database;
  }

  /**
   * Commits the group and answers it. When the transaction fails, half of the group runs again and the rest goes back to the head
   * of the queue, until the operation that fails is alone. So an error reaches only its own asker, and success means a commit.
   */
  #commitGroup(group: Waiting[], until = Number.POSITIVE_INFINITY): void {
    const { clock } = this.#tools;
    let database: Database;
    try {
      database = this.#open();
      database.begin();
    } catch (error) {
      failAll(group, error);
      return;
    }
    const outcomes: unknown[] = [];
    for (const { asker, request, timing } of group) {
      if (timing !== undefined) timing.begunAt = clock.now();
      outcomes.push(asker.closed ? null : this.#perform(database, request, asker.brief));
      // SQLite rolls everything back by itself when the disk is full or cannot be read.
      if (!database.inTransaction || clock.now() > until) break;
    }
    const ran = outcomes.length;
    if (ran < group.length) this.#queue.unshift(...group.splice(ran));
    let change: Change | null;
    try {
      if (!database.inTransaction) throw (outcomes.at(-1) as Failure).body;
      // What a commit takes depends on the disk. After a verdict none begins, so that what was stuck is not stored.
      this.#tools.pulse.beat();
      for (let i = 0; i < ran; i++) (group[i] as Waiting).asker.mayStore((group[i] as Waiting).request[1], false);
      change = database.commit();
    } catch (error) {
      this.#rollback(database);
      if (ran === 1) {
        failAll(group, error);
      } else {
        this.#queue.unshift(...group.splice(ran >> 1));
        this.#commitGroup(group);
      }
      return;
    }
    this.#lanes.grouped(ran);
    if (change) this.#ship(database, change, ran);
    this.#afterLog(
      () => {
        if (change) this.#tools.committed(this.name, change);
        for (let i = 0; i < ran; i++) this.#reply(group[i] as Waiting, outcomes[i], ran);
      },
      (error) => failAll(group, error),
    );
    this.#afterCommit(database);
  }

  #perform(database: Database, request: FrameOf<'db'>, brief: boolean): unknown {
    const { counters } = this.#lanes;
    this.#tools.pulse.beat(brief);
    counters.statements++;
    try {
      switch (request[2]) {
        case DbOp.run: {
          const result = database.run(request[4], request[5]);
          counters.rows += result.changes;
          return result;
        }
        case DbOp.get:
          return database.get(request[4], request[5]);
        case DbOp.all:
          return database.all(request[4], request[5]);
        case DbOp.batch:
          return database.batch(request[4]);
        case DbOp.exec:
          return database.exec(request[4]);
        case DbOp.userVersion:
          return database.userVersion();
        default:
          throw new Error(`Operation ${request[2]} has no place in a transaction.`);
      }
    } catch (error) {
      return new Failure(describeFailure(error));
    }
  }

  #rollback(database: Database): void {
    try {
      database.rollback();
    } catch {
      // The file is consistent without a handle that cannot even roll back.
      this.#database = null;
      database.abandon();
    }
  }

  #alone(waiting: Waiting): void {
    const { asker, request } = waiting;
    if (asker.closed) return;
    this.#tools.pulse.beat();
    if (request[2] === DbOp.begin) this.#begin(waiting);
    else if (request[2] === DbOp.settle) void this.#hold(asker, request[1], () => this.#settle());
    else if (request[2] !== DbOp.migrate) void this.#hold(asker, request[1], () => this.#release(asker));
    else {
      const [, id, , , files, backupTo] = request;
      asker.mayStore(id, false);
      void this.#hold(asker, id, () => this.#migrate(files, backupTo));
    }
  }

  #begin(waiting: Waiting): void {
    const { asker, timing } = waiting;
    if (timing !== undefined) timing.begunAt = this.#tools.clock.now();
    try {
      this.#open().begin();
    } catch (error) {
      failAll([waiting], error);
      return;
    }
    const tx = this.#lanes.nextTx();
    const cancelExpiry = this.#tools.clock.after(LIMITS.leaseMs, () => this.#endLease('expired'));
    this.#lease = { tx, asker, cancelExpiry, failedId: 0 };
    // Its reads see what was committed before.
    this.#afterLog(
      () => this.#reply(waiting, tx),
      (error) => failAll([waiting], error),
    );
  }

  /** An operation of the transaction that holds the lane runs at once. */
  #inTransaction(asker: Asker, request: FrameOf<'db'>): void {
    const [, id, op, tx] = request;
    const database = this.#database;
    if (!database || this.#lease?.tx !== tx || this.#lease.asker !== asker) {
      asker.fail(id, { code: 'SQLITE_TX_ENDED', message: this.#whyEnded(tx) });
      return;
    }
    this.#tools.pulse.enter(this.#place);
    if (op === DbOp.rollback) {
      this.#endLease('rolled back');
      asker.answer(id, null);
    } else if (op === DbOp.commit) {
      this.#commit(database, this.#lease, request);
    } else {
      const timing = this.#timingOf(request);
      const outcome = this.#perform(database, request, asker.brief);
      if (outcome instanceof Failure) this.#lease.failedId = id;
      this.#reply({ asker, request, timing }, outcome);
      if (!database.inTransaction) this.#endLease('rolled back');
    }
    this.#tools.pulse.leave();
  }

  #commit(database: Database, { asker, failedId }: Lease, request: CommitFrame): void {
    const [, , , , since] = request;
    const waiting = { asker, request, timing: this.#timingOf(request) };
    let change: Change | null;
    try {
      if (since > 0 && failedId >= since) throw new StatementError('SQLITE_ABORT', 'An operation before it failed.');
      this.#tools.pulse.beat();
      asker.mayStore(request[1], true);
      change = database.commit();
    } catch (error) {
      this.#endLease('rolled back');
      this.#reply(waiting, new Failure(describeFailure(error)));
      return;
    }
    this.#lanes.grouped(1);
    if (change) this.#ship(database, change, 1);
    this.#endLease('committed');
    this.#afterLog(
      () => {
        if (change) this.#tools.committed(this.name, change);
        this.#reply(waiting, null);
      },
      (error) => failAll([waiting], error),
    );
    this.#afterCommit(database);
  }

  /** `group` operations were committed together. */
  #reply({ asker, request, timing }: Waiting, outcome: unknown, group = 1): void {
    if (timing !== undefined) {
      timing.endedAt = this.#tools.clock.now();
      timing.group = group;
    }
    if (outcome instanceof Failure) asker.fail(request[1], outcome.body, timing);
    else asker.answer(request[1], outcome, timing);
  }

  #endLease(how: LeaseEnd): void {
    const lease = this.#lease;
    if (!lease) return;
    lease.cancelExpiry();
    this.#lease = null;
    this.#ended = { tx: lease.tx, how };
    if (this.#database) this.#rollback(this.#database);
    this.#wake();
  }

  #whyEnded(tx: number): string {
    if (tx !== this.#ended.tx) return 'There is no such transaction; it was rolled back, or never begun.';
    if (this.#ended.how !== 'expired') return `The transaction was ${this.#ended.how} already.`;
    return `The transaction held the database for more than ${LIMITS.leaseMs} ms and was rolled back.`;
  }

  /** Waits for the checkpoint, works while everything else waits, and answers. */
  async #hold(asker: Asker, id: number, work: () => unknown): Promise<void> {
    this.#held = true;
    await this.#checkpoint;
    try {
      await this.#kept?.settled();
      asker.answer(id, await work());
    } catch (error) {
      asker.fail(id, describeFailure(error));
    }
    this.#held = false;
    this.#afterHold();
  }

  async #migrate(files: MigrateFrame[4], backupTo: string | null): Promise<number[]> {
    // Nothing but the migration may have the file open, and statements prepared for the old schema go with the handle.
    this.#closeFile();
    this.#kept?.rewriting();
    const { pulse } = this.#tools;
    pulse.migrations(1);
    let applied: number[];
    try {
      applied = await this.#tools.migrate(this.file, files, backupTo);
    } finally {
      pulse.migrations(-1);
    }
    if (applied.length === 0) return applied;
    if (this.#kept !== null) {
      const database = this.#open();
      await this.#kept.rewritten(database, database.state());
    }
    this.#tools.committed(this.name, { before: null, after: null, tables: null });
    return applied;
  }

  /** The local copy is what the log of pages has. A file that is not a copy of anything goes there. */
  async #settle(): Promise<null> {
    if (this.#kept?.isUnknown && existsSync(this.file)) {
      const database = this.#open();
      await this.#kept.rewritten(database, database.state());
    }
    return null;
  }

  /** The app is being removed: closes the file and every other connection to it. */
  #release(asker: Asker): null {
    for (const other of this.askers) {
      if (other !== asker) other.close(new Error('The database was closed.'));
    }
    this.close();
    return null;
  }

  #afterCommit(database: Database): void {
    if (this.#queue.length > 0 && ++this.#commitsSinceCheck < LIMITS.checkpointCommits) return;
    this.#commitsSinceCheck = 0;
    if (this.#checkpoint) return;
    const { log, checkpointed } = database.walPages();
    const pending = log - checkpointed;
    if (pending < LIMITS.checkpointPages && (log < LIMITS.walPages || pending === 0)) return;
    // What could not be copied now is tried again after later commits.
    const copied = this.#kept === null ? this.#tools.checkpoint(this.file) : this.#checkpointKept(this.#kept);
    this.#checkpoint = copied.then(() => this.#checkpointed()).catch(() => {});
  }

  /** Copies nothing that the log of pages has not: no commit comes between, and what came is there. */
  async #checkpointKept(kept: KeptDatabase): Promise<void> {
    this.#held = true;
    await kept.settled().then(
      () => this.#tools.checkpoint(this.file),
      () => {},
    );
    this.#held = false;
    setImmediate(() => this.#afterHold());
  }

  /**
   * The log starts over only when all of it is in the database file, which a thread never reaches under constant writing. Once
   * the log is long, what is left is copied here, between two groups.
   */
  #checkpointed(): void {
    this.#checkpoint = null;
    this.#lanes.counters.checkpoints++;
    if (!this.#database || this.#lease || this.#held || this.#kept?.hasFailed) return;
    if (this.#database.walPages().log >= LIMITS.walPages) this.#database.checkpoint();
  }
}

/** What needs the lane alone. */
const ALONE: ReadonlySet<number> = new Set([DbOp.begin, DbOp.migrate, DbOp.close, DbOp.settle]);

/**
 * How many from the head of the queue go into one transaction: up to `LIMITS.groupCommit` statements, before the next operation
 * that needs the lane alone. A batch counts as its statements; the first operation is always taken.
 */
export function groupLength(queue: readonly { request: FrameOf<'db'> }[]): number {
  let statements = 0;
  let length = 0;
  for (const { request } of queue) {
    const op = request[2];
    if (ALONE.has(op)) break;
    statements += op === DbOp.batch ? request[4].length : 1;
    if (length > 0 && statements > LIMITS.groupCommit) break;
    length++;
  }
  return length;
}

function failAll(group: Waiting[], error: unknown): void {
  const body = describeFailure(error);
  for (const { asker, request } of group) asker.fail(request[1], body);
}
