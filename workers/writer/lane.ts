/**
 * The lane of one database: everything that writes to it stands in one queue. What waits when the lane comes round runs
 * in one transaction and is answered after its commit (group commit, output gate). `begin` takes the lane under a lease.
 */
import type { ErrorBody } from '../../protocol/errors.ts';
import { type DbFrame, DbOp } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Clock } from './clock.ts';
import type { Database } from './database.ts';
import { describeFailure } from './failure.ts';
import type { Pulse } from './pulse.ts';

/** What the writer has done since it started; shown in its heartbeats. */
export type Counters = { commits: number; statements: number; rows: number; groupMax: number; checkpoints: number };

export function newCounters(): Counters {
  return { commits: 0, statements: 0, rows: 0, groupMax: 0, checkpoints: 0 };
}

/** Who asked, and where the answer goes. One object per connection. */
export type Asker = {
  readonly closed: boolean;
  /** The operation of this id is about to begin. */
  begins(id: number): void;
  answer(id: number, value: unknown): void;
  fail(id: number, error: ErrorBody): void;
  close(reason: Error): void;
};

export type MigrateFrame = Extract<DbFrame, { 2: typeof DbOp.migrate }>;

/** What a lane is given; one set for all lanes of the writer. */
export type LaneTools = {
  clock: Clock;
  pulse: Pulse;
  counters: Counters;
  open(file: string): Database;
  /** The lane has something to do: its `turn` is to be called soon. */
  ready(lane: Lane): void;
  /** Applies migrations in a thread of their own. */
  migrate(file: string, files: MigrateFrame[4], backupTo: string | null): Promise<number[]>;
  /** Checkpoints in a thread of its own; never rejects. */
  checkpoint(file: string): Promise<void>;
  /** A number that no transaction had before, nor will have in a later writer. */
  nextTx(): number;
};

type Waiting = { asker: Asker; request: DbFrame };
type Lease = { tx: number; asker: Asker; cancelExpiry: () => void };
type LeaseEnd = 'committed' | 'rolled back' | 'expired';

/** A failed statement, where a value would stand. */
class Failure {
  readonly body: ErrorBody;

  constructor(body: ErrorBody) {
    this.body = body;
  }
}

export class Lane {
  readonly file: string;
  readonly #tools: LaneTools;
  readonly #name: Uint8Array;
  readonly #askers = new Set<Asker>();
  readonly #queue: Waiting[] = [];
  #database: Database | null = null;
  #lease: Lease | null = null;
  /** The last transaction that is over, so that a late operation hears why. */
  #ended: { tx: number; how: LeaseEnd } = { tx: 0, how: 'committed' };
  /** A migration works on the file; everything waits. */
  #held = false;
  #checkpoint: Promise<void> | null = null;
  #commitsSinceCheck = 0;
  #lastUsed: number;

  constructor(file: string, name: string, tools: LaneTools) {
    this.file = file;
    this.#name = Buffer.from(name);
    this.#tools = tools;
    this.#lastUsed = tools.clock.now();
  }

  get isOpen(): boolean {
    return this.#database !== null;
  }

  /** Nothing waits, runs or holds the lane. */
  get isQuiet(): boolean {
    return this.#queue.length === 0 && this.#lease === null && !this.#held && this.#checkpoint === null;
  }

  get hasAskers(): boolean {
    return this.#askers.size > 0;
  }

  /** On the writer's clock. */
  get lastUsed(): number {
    return this.#lastUsed;
  }

  join(asker: Asker): void {
    this.#askers.add(asker);
  }

  /** The connection of `asker` ended: its transaction is rolled back, and what it has waiting is dropped at its turn. */
  leave(asker: Asker): void {
    this.#askers.delete(asker);
    if (this.#lease?.asker === asker) this.#endLease('rolled back');
  }

  receive(asker: Asker, request: DbFrame): void {
    if (request[3] !== 0) {
      this.#inTransaction(asker, request);
    } else if (this.#queue.length >= LIMITS.laneQueue) {
      asker.fail(request[1], {
        code: 'SQLITE_BUSY',
        message: `${LIMITS.laneQueue} statements wait for this database.`,
      });
    } else {
      this.#queue.push({ asker, request });
      this.#wake();
    }
  }

  /** Runs the next group, or the next operation that needs the lane for itself. */
  turn(): void {
    if (this.#lease || this.#held) return;
    this.#lastUsed = this.#tools.clock.now();
    this.#tools.pulse.enter(this.#name);
    const length = groupLength(this.#queue);
    if (length > 0) this.#commitGroup(this.#queue.splice(0, length), this.#lastUsed + LIMITS.groupMs);
    else if (this.#queue.length > 0) this.#alone(this.#queue.shift() as Waiting);
    this.#tools.pulse.leave();
    this.#wake();
  }

  /** Rolls back what is open and closes the file. The lane stays; its next statement opens the file again. */
  close(): void {
    if (this.#lease) this.#endLease('rolled back');
    const database = this.#database;
    this.#database = null;
    this.#tools.pulse.enter(this.#name);
    database?.close();
    this.#tools.pulse.leave();
  }

  #wake(): void {
    if (this.#queue.length > 0 && !this.#lease && !this.#held) this.#tools.ready(this);
  }

  #open(): Database {
    this.#database ??= this.#tools.open(this.file);
    return this.#database;
  }

  /**
   * Commits the group and answers it. When the transaction fails, half of the group runs again and the rest goes back
   * to the head of the queue, until whoever is to blame is alone: an error reaches exactly those whom it concerns, and a
   * success is only ever told of a commit.
   */
  #commitGroup(group: Waiting[], until = Number.POSITIVE_INFINITY): void {
    const { clock, counters } = this.#tools;
    let database: Database;
    try {
      database = this.#open();
      database.begin();
    } catch (error) {
      failAll(group, error);
      return;
    }
    const outcomes: unknown[] = [];
    for (const { asker, request } of group) {
      asker.begins(request[1]);
      outcomes.push(asker.closed ? null : this.#perform(database, request));
      // SQLite rolls everything back by itself when the disk is full or cannot be read.
      if (!database.inTransaction || clock.now() > until) break;
    }
    const ran = outcomes.length;
    if (ran < group.length) this.#queue.unshift(...group.splice(ran));
    try {
      if (!database.inTransaction) throw (outcomes.at(-1) as Failure).body;
      database.commit();
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
    counters.commits++;
    if (ran > counters.groupMax) counters.groupMax = ran;
    for (let i = 0; i < ran; i++) reply(group[i] as Waiting, outcomes[i]);
    this.#afterCommit(database);
  }

  #perform(database: Database, request: DbFrame): unknown {
    const { counters, pulse } = this.#tools;
    pulse.beat();
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
      // A handle that cannot even roll back is not used again; the file is consistent without it.
      this.#database = null;
      database.abandon();
    }
  }

  #alone(waiting: Waiting): void {
    const { asker, request } = waiting;
    if (asker.closed) return;
    asker.begins(request[1]);
    this.#tools.pulse.beat();
    if (request[2] === DbOp.begin) this.#begin(waiting);
    else if (request[2] === DbOp.migrate) void this.#migrate(asker, request);
    else void this.#release(asker, request[1]);
  }

  #begin(waiting: Waiting): void {
    const { asker, request } = waiting;
    const { clock, nextTx } = this.#tools;
    try {
      this.#open().begin();
    } catch (error) {
      failAll([waiting], error);
      return;
    }
    const tx = nextTx();
    this.#lease = { tx, asker, cancelExpiry: clock.after(LIMITS.leaseMs, () => this.#endLease('expired')) };
    asker.answer(request[1], tx);
  }

  /** An operation of the transaction that holds the lane runs at once: nobody else can be in between. */
  #inTransaction(asker: Asker, request: DbFrame): void {
    const [, id, op, tx] = request;
    const database = this.#database;
    if (!database || this.#lease?.tx !== tx || this.#lease.asker !== asker) {
      asker.fail(id, { code: 'SQLITE_TX_ENDED', message: this.#whyEnded(tx) });
      return;
    }
    this.#tools.pulse.enter(this.#name);
    if (op === DbOp.rollback) {
      this.#endLease('rolled back');
      asker.answer(id, null);
    } else if (op === DbOp.commit) {
      this.#commit(database, asker, id);
    } else {
      reply({ asker, request }, this.#perform(database, request));
      if (!database.inTransaction) this.#endLease('rolled back');
    }
    this.#tools.pulse.leave();
  }

  #commit(database: Database, asker: Asker, id: number): void {
    try {
      database.commit();
    } catch (error) {
      this.#endLease('rolled back');
      asker.fail(id, describeFailure(error));
      return;
    }
    this.#tools.counters.commits++;
    this.#endLease('committed');
    asker.answer(id, null);
    this.#afterCommit(database);
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

  async #migrate(asker: Asker, request: MigrateFrame): Promise<void> {
    const [, id, , , files, backupTo] = request;
    this.#held = true;
    // Nothing but the migration has the file open.
    await this.#checkpoint;
    // Statements prepared for the old schema go with the handle.
    this.close();
    try {
      asker.answer(id, await this.#tools.migrate(this.file, files, backupTo));
    } catch (error) {
      asker.fail(id, describeFailure(error));
    }
    this.#held = false;
    this.#wake();
  }

  /** The app goes: the file is let go of, and whoever else is still connected to it is cut off. */
  async #release(asker: Asker, id: number): Promise<void> {
    this.#held = true;
    await this.#checkpoint;
    for (const other of this.#askers) {
      if (other !== asker) other.close(new Error('The database was closed.'));
    }
    this.close();
    asker.answer(id, null);
    this.#held = false;
    this.#wake();
  }

  #afterCommit(database: Database): void {
    if (this.#queue.length > 0 && ++this.#commitsSinceCheck < LIMITS.checkpointCommits) return;
    this.#commitsSinceCheck = 0;
    if (this.#checkpoint) return;
    const { log, checkpointed } = database.walPages();
    const pending = log - checkpointed;
    if (pending < LIMITS.checkpointPages && (log < LIMITS.walPages || pending === 0)) return;
    this.#checkpoint = this.#tools.checkpoint(this.file).then(() => this.#checkpointed());
  }

  /**
   * The log starts over only when all of it is in the database file, which under constant writing a thread never
   * reaches. Once the log is long, the little that came in meanwhile is copied here, between two groups.
   */
  #checkpointed(): void {
    this.#checkpoint = null;
    this.#tools.counters.checkpoints++;
    if (!this.#database || this.#lease || this.#held) return;
    if (this.#database.walPages().log >= LIMITS.walPages) this.#database.checkpoint();
  }
}

/**
 * How many from the head of the queue go into one transaction: up to `LIMITS.groupCommit` statements, and none behind
 * an operation that needs the lane for itself. A batch counts as its statements; the first one is always taken.
 */
export function groupLength(queue: readonly { request: DbFrame }[]): number {
  let statements = 0;
  let length = 0;
  for (const { request } of queue) {
    const op = request[2];
    if (op === DbOp.begin || op === DbOp.migrate || op === DbOp.close) break;
    statements += op === DbOp.batch ? request[4].length : 1;
    if (length > 0 && statements > LIMITS.groupCommit) break;
    length++;
  }
  return length;
}

function reply({ asker, request }: Waiting, outcome: unknown): void {
  if (outcome instanceof Failure) asker.fail(request[1], outcome.body);
  else asker.answer(request[1], outcome);
}

function failAll(group: Waiting[], error: unknown): void {
  const body = describeFailure(error);
  for (const { asker, request } of group) asker.fail(request[1], body);
}
