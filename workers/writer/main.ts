/** Runs the SQLite writer, the only process that writes databases. Entry of dist/writer.cjs. */
import { chmodSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';
import { bucketOf } from '../../protocol/buckets.ts';
import type { ErrorBody } from '../../protocol/errors.ts';
import { isOwnDatabase } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { FrameError } from '../../protocol/wire/codec.ts';
import {
  type ConnectionProgress,
  DbOp,
  type EarlierClients,
  type Frame,
  type FrameOf,
  Kind,
  type OwnedBucket,
  type WriterTiming,
} from '../../protocol/wire/frames.ts';
import { Link, openLink, pong } from '../../protocol/wire/link.ts';
import { openTicket } from '../../protocol/wire/ticket.ts';
import { toMonotonic } from '../../protocol/wire/trace-context.ts';
import { PRIVATE_UMASK } from '../../storage/files/private-tree.ts';
import { loadSqlite } from '../../storage/sqlite.ts';
import { Database, type Durability } from './database.ts';
import { type ClusterOfWriter, Keeper } from './keeper.ts';
import { type Asker, type Lane, Lanes, type Timing } from './lane.ts';
import { Threads } from './threads.ts';
import { Progress, Pulse } from './watch.ts';

/** One line of JSON on stdin. When stdin ends, the parent is gone and so is the writer. */
type WriterBootstrap = {
  supervisorSocket: string;
  /** Where clients connect; made here, for this user only. */
  writerSocket: string;
  /** Role `writer`, and role `writer-watch` for the watch thread. */
  ticket: string;
  watchTicket: string;
  /** Hex; it signs the tickets of clients. */
  key: string;
  durability: Durability;
  /** The one database that it writes; null for all but those in `elsewhere`, which other writers write. */
  only: string | null;
  /** File → the socket of its writer. */
  elsewhere: Record<string, string>;
  before: EarlierClients;
  /** What the node owns now comes with it. Without it the databases are only here. */
  pageLog?: ClusterOfWriter & { owned: OwnedBucket[] };
};

class Writer {
  readonly lanes: Lanes;
  readonly progress = new Progress(() => performance.now());
  readonly key: Buffer;
  /** Connections whose answers may not have left yet. */
  readonly answered = new Set<Link>();
  /** No new work is taken; open transactions may end. */
  stopping = false;
  readonly #bootstrap: WriterBootstrap;
  readonly #elsewhere: ReadonlyMap<string, string>;
  readonly #before: ReadonlyMap<number, ConnectionProgress>;
  readonly #pulse = new Pulse();
  readonly #threads = new Threads(new URL('./writer-thread.cjs', import.meta.url));
  readonly #keeper: Keeper | null;
  #supervisor: Link | null = null;
  #isWatched = false;

  constructor(bootstrap: WriterBootstrap) {
    this.#bootstrap = bootstrap;
    this.#elsewhere = new Map(Object.entries(bootstrap.elsewhere));
    this.#before = new Map(bootstrap.before.progress.map((one) => [one[0], one]));
    this.key = Buffer.from(bootstrap.key, 'hex');
    this.#keeper = bootstrap.pageLog === undefined ? null : new Keeper(bootstrap.pageLog, () => this.lanes.isBusy);
    this.#keeper?.own(bootstrap.pageLog?.owned ?? []);
    this.lanes = new Lanes({
      keeper: this.#keeper,
      clock: {
        now: () => performance.now(),
        after: (ms, then) => {
          const timer = setTimeout(then, ms);
          return () => clearTimeout(timer);
        },
      },
      pulse: this.#pulse,
      // What a crash takes of the disk is in the log of pages; a sync before and after each checkpoint keeps the file itself sound.
      open: (file, migrated) => Database.open(file, this.#keeper === null ? bootstrap.durability : 'normal', migrated),
      migrate: (file, files, backupTo) => this.#threads.migrate(file, files, backupTo),
      checkpoint: (file) => this.#threads.checkpoint(file),
      committed: (name, { before, after, tables }) => {
        // They have no followers.
        if (isOwnDatabase(name)) return;
        this.#supervisor?.send([Kind.committed, name, before, after, tables]);
        this.#supervisor?.flush();
      },
      replaced: (name) => {
        this.#supervisor?.send([Kind.replaced, name]);
        this.#supervisor?.flush();
      },
    });
  }

  listen(): void {
    const { writerSocket } = this.#bootstrap;
    // The socket of a writer that was killed is still there.
    rmSync(writerSocket, { force: true });
    createServer((socket) => new Connection(socket, this)).listen(writerSocket, () => {
      chmodSync(writerSocket, 0o600);
      this.#report();
    });
  }

  /**
   * Has this thread watched from the first connection of an app on. A start without one needs no such thread: the gateway's own
   * statements are short.
   */
  watch(): void {
    if (this.#isWatched) return;
    this.#isWatched = true;
    const { supervisorSocket, watchTicket } = this.#bootstrap;
    this.#threads.watch({ pulse: this.#pulse.memory, progress: this.progress.memory }, supervisorSocket, watchTicket);
  }

  get isShared(): boolean {
    return this.#bootstrap.only === null;
  }

  /** Whether this writer writes that database; or the socket of the one that does, where it knows. */
  writes(file: string): boolean | string {
    const { only } = this.#bootstrap;
    return only === null ? (this.#elsewhere.get(file) ?? true) : file === only;
  }

  /** The progress of a connection at earlier writers. */
  cameTo(connectionId: number): FrameOf<'resumed'> {
    const [, operation, commit] = this.#before.get(connectionId) ?? [];
    if (operation !== undefined && commit !== undefined) return [Kind.resumed, operation, commit];
    // Or it asks about a connection that this writer itself closed: the outcome of its last operations is unknown.
    const isUnknown = this.#bootstrap.before.isPartial || this.progress.knows(connectionId);
    return isUnknown ? [Kind.resumed, -1, -1] : [Kind.resumed, 0, 0];
  }

  /** Sends the answers of all but `link`, so that no statement on that one keeps them waiting. */
  flushOthers(link: Link): void {
    for (const other of this.answered) if (other !== link) other.flush();
    this.answered.clear();
  }

  /** Takes operations for these buckets from now on. Says when nothing of others is under way. */
  async #own(keeper: Keeper, [, turn, buckets]: FrameOf<'owned'>, link: Link): Promise<void> {
    const lost = new Set(keeper.own(buckets));
    await this.lanes.release((name) => lost.has(bucketOf(name)));
    link.send([Kind.released, turn]);
    link.flush();
  }

  #report(): void {
    const { supervisorSocket, ticket } = this.#bootstrap;
    const link = openLink(supervisorSocket, ticket, {
      onFrame: (frame) => {
        const { counters, open, groups, logged } = this.lanes;
        const migrations = Number(this.#pulse.isMigrating);
        if (frame[0] === Kind.ping) {
          const ofLog = this.#keeper === null ? {} : { logged, logGroups: this.#keeper.groups };
          link.send(pong(frame[1], { ...counters, open, migrations }, { groups, ...ofLog }));
        } else if (frame[0] === Kind.owned && this.#keeper !== null) void this.#own(this.#keeper, frame, link);
        else if (frame[0] === Kind.stop && !this.stopping) {
          this.stopping = true;
          void this.lanes.drain().then(() => process.exit(0));
        }
      },
      onClose: () => process.exit(0),
    });
    this.#supervisor = link;
    link.send([Kind.ready, { pid: process.pid }]);
  }
}

/** One client: its ticket names the only database it reaches. An invalid frame ends it. */
class Connection implements Asker {
  readonly #writer: Writer;
  readonly #link: Link;
  readonly #helloTimer: NodeJS.Timeout;
  #lane: Lane | null = null;
  #name = 'a stranger';
  #maintain = false;
  #brief = false;
  #connectionId = 0;
  #place = -1;
  /** Another writer has its database. */
  #isSentOn = false;

  constructor(stream: Duplex, writer: Writer) {
    this.#writer = writer;
    this.#link = new Link(stream, {
      onFrame: (frame) => this.#receive(frame),
      onClose: (error) => this.#closed(error),
    });
    this.#helloTimer = setTimeout(() => this.close(new Error('No hello.')), LIMITS.helloMs);
  }

  get closed(): boolean {
    return this.#link.closed;
  }

  get brief(): boolean {
    return this.#brief;
  }

  mayStore(id: number, isCommit: boolean): void {
    const { progress } = this.#writer;
    if (isCommit) progress.commit(this.#place, id);
    else progress.operation(this.#place, id);
  }

  answer(id: number, value: unknown, timing?: Timing): void {
    this.#writer.answered.add(this.#link);
    try {
      this.#link.send(timing ? [Kind.dbResult, id, value, monotonicTiming(timing)] : [Kind.dbResult, id, value]);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.fail(id, { code: 'SQLITE_TOOBIG', message: 'The statement was run, but its result is too large to send.' });
    }
  }

  fail(id: number, error: ErrorBody, timing?: Timing): void {
    this.#writer.answered.add(this.#link);
    this.#link.send(timing ? [Kind.dbError, id, error, monotonicTiming(timing)] : [Kind.dbError, id, error]);
  }

  close(reason: Error): void {
    this.#link.close(reason);
  }

  #receive(frame: Frame): void {
    if (!this.#lane) {
      if (!this.#isSentOn) this.#hello(frame);
      return;
    }
    if (frame[0] === Kind.resume) {
      this.#link.send(this.#writer.cameTo(frame[1]));
      return;
    }
    if (!isRequest(frame)) {
      this.close(new Error('Not a request.'));
      return;
    }
    const [, id, op, tx] = frame;
    if (op >= DbOp.userVersion && !this.#maintain) {
      this.fail(id, { code: 'SQLITE_AUTH', message: 'This connection may not do maintenance.' });
    } else if (tx === 0 && this.#writer.stopping) {
      this.fail(id, { code: 'WRITER_UNAVAILABLE', message: 'The gateway is stopping; this statement was not run.' });
    } else {
      // It runs at once.
      if (tx !== 0) this.#writer.flushOthers(this.#link);
      this.#lane.receive(this, frame);
    }
  }

  #hello(frame: Frame): void {
    const ticket = frame[0] === Kind.hello ? openTicket(frame[1], this.#writer.key) : null;
    if (ticket?.role !== 'database') {
      this.close(new Error('No valid ticket.'));
      return;
    }
    const isOurs = this.#writer.writes(ticket.file);
    if (typeof isOurs === 'string') {
      this.#isSentOn = true;
      this.#link.send([Kind.elsewhere, isOurs]);
      this.#link.close();
      return;
    }
    if (!isOurs) {
      this.close(new Error(`Another writer writes the database of ${ticket.name}.`));
      return;
    }
    const connectionId = frame[2];
    if (Number.isSafeInteger(connectionId) && (connectionId as number) > 0) {
      this.#connectionId = connectionId as number;
      this.#place = this.#writer.progress.open(this.#connectionId);
    }
    clearTimeout(this.#helloTimer);
    this.#name = ticket.name;
    this.#maintain = ticket.maintain;
    // Where only this app writes, nobody else waits.
    this.#brief = ticket.brief === true && this.#writer.isShared;
    const { file, name, migrated } = ticket;
    if (!isOwnDatabase(name)) this.#writer.watch();
    this.#lane = this.#writer.lanes.join({ file, name, migrated }, this);
  }

  #closed(error: Error | null): void {
    clearTimeout(this.#helloTimer);
    if (error) process.stderr.write(`The connection of ${this.#name} was closed: ${error.message}\n`);
    this.#writer.answered.delete(this.#link);
    if (this.#connectionId > 0) this.#writer.progress.close(this.#connectionId, this.#place);
    if (this.#lane) this.#writer.lanes.leave(this.#lane, this);
  }
}

function monotonicTiming({ receivedAt, begunAt, endedAt, group }: Timing): WriterTiming {
  return [toMonotonic(receivedAt), toMonotonic(begunAt), toMonotonic(endedAt), group];
}

/** A worker's frames are hostile: each is checked to have the shape that its type promises. */
function isRequest(frame: Frame): frame is FrameOf<'db'> {
  if (frame[0] !== Kind.db) return false;
  const [, id, op, tx, first, second] = frame as unknown[];
  if (!Number.isSafeInteger(id) || !Number.isSafeInteger(tx)) return false;
  switch (op) {
    case DbOp.run:
    case DbOp.get:
    case DbOp.all:
      return typeof first === 'string' && isParams(second);
    case DbOp.batch:
      return Array.isArray(first) && first.length <= LIMITS.batchStatements && first.every(isStatement);
    case DbOp.exec:
      return typeof first === 'string';
    case DbOp.commit:
      return tx !== 0 && Number.isSafeInteger(first);
    case DbOp.rollback:
      return tx !== 0;
    case DbOp.begin:
    case DbOp.userVersion:
    case DbOp.close:
    case DbOp.settle:
      return tx === 0;
    case DbOp.migrate:
      return tx === 0 && Array.isArray(first) && first.every(isFile) && (second === null || typeof second === 'string');
    default:
      return false;
  }
}

/** SQLite checks the values. */
function isParams(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function isStatement(value: unknown): boolean {
  return Array.isArray(value) && typeof value[0] === 'string' && isParams(value[1]);
}

function isFile(value: unknown): boolean {
  const file = value as { name?: unknown; path?: unknown } | null;
  return typeof file?.name === 'string' && typeof file.path === 'string';
}

process.umask(PRIVATE_UMASK);
try {
  // Before the first call waits for it.
  loadSqlite();
} catch (error) {
  // The supervisor reports the text after these words as the reason.
  process.stderr.write(`FATAL ERROR: ${(error as Error).message}\n`);
  process.exit(1);
}
createInterface({ input: process.stdin })
  .once('line', (line) => new Writer(JSON.parse(line) as WriterBootstrap).listen())
  .once('close', () => process.exit(0));
