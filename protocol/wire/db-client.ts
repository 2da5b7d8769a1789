/** Client of the SQLite writer: each operation is a promise, paired with its answer by a number. */
import type { ErrorBody } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import {
  DbOp,
  type Frame,
  type FrameOf,
  Kind,
  type MigrationFile,
  type Row,
  type RunResult,
  type SqlParams,
  type SqlStatement,
  type WriterTiming,
} from './frames.ts';
import type { Link, LinkHandlers } from './link.ts';

/**
 * A failed operation. `code` is SQLite's (`SQLITE_CONSTRAINT_UNIQUE`, …), `MIGRATION_FAILED` (the file is in `path`),
 * `WRITER_LOST` (the connection ended, the outcome is unknown) or `WRITER_UNAVAILABLE` (nothing was run).
 */
export class DbError extends Error {
  readonly code: string;
  readonly path?: string;

  constructor(body: ErrorBody) {
    super(body.message);
    this.name = 'DbError';
    this.code = body.code;
    if (body.path !== undefined) this.path = body.path;
  }
}

const LOST: ErrorBody = {
  code: 'WRITER_LOST',
  message: 'The connection to the database was lost; whether this statement took effect is unknown.',
};
const TRANSACTION_LOST: ErrorBody = {
  code: 'WRITER_LOST',
  message: 'The connection to the database was lost, and the transaction was rolled back.',
};
const UNAVAILABLE: ErrorBody = {
  code: 'WRITER_UNAVAILABLE',
  message: 'The database is not available; this statement was not run.',
};

type Outstanding = {
  frame: FrameOf<'db'>;
  resolve: (value: never) => void;
  reject: (error: Error) => void;
  timed: Timed | undefined;
};

/** Called with the writer's timing before the answer resolves; `error` is empty where the operation went well. */
export type Timed = (timing: WriterTiming, error: string) => void;

/** A lost connection: its session, and the last operation that was sent on it. */
type Left = { session: number; lastId: number };

// App code could replace them.
const { floor, random } = Math;
const SESSIONS = 2 ** 52;

/**
 * One database, as its ticket names it. The first operation connects, and so does the first one after the connection was lost.
 * While the writer is being replaced, all operations wait for the new one. It says how far the old one had come, and what had
 * not begun is sent again. Operations with `timed` are those of a traced call.
 */
export class DbClient {
  readonly #open: (handlers: LinkHandlers, session: number) => Link;
  readonly #errorOf: (body: ErrorBody) => Error;
  readonly #outstanding = new Map<number, Outstanding>();
  #link: Link | null = null;
  /** A new number for each connection. */
  #session = 0;
  #left: Left | null = null;
  #lastId = 0;
  #unreachableSince = 0;
  #retry: NodeJS.Timeout | null = null;

  /**
   * `open` connects to the writer's socket and says `hello` with the number of the session. `errorOf` makes the error of what the
   * writer answers that an operation failed with.
   */
  constructor(
    open: (handlers: LinkHandlers, session: number) => Link,
    errorOf: (body: ErrorBody) => Error = (body) => new DbError(body),
  ) {
    this.#open = open;
    this.#errorOf = errorOf;
  }

  run(sql: string, params: SqlParams = [], tx = 0, timed?: Timed): Promise<RunResult> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.run, tx, sql, params], timed);
  }

  get(sql: string, params: SqlParams = [], tx = 0, timed?: Timed): Promise<Row | null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.get, tx, sql, params], timed);
  }

  all(sql: string, params: SqlParams = [], tx = 0, timed?: Timed): Promise<Row[]> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.all, tx, sql, params], timed);
  }

  /** All statements or none. */
  batch(statements: SqlStatement[], tx = 0, timed?: Timed): Promise<RunResult[]> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.batch, tx, statements], timed);
  }

  /** Several statements in one text, all or none. */
  exec(sql: string, tx = 0, timed?: Timed): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.exec, tx, sql], timed);
  }

  /** Waits for the database's lane and takes it; resolves with the number to pass as `tx` to later operations. */
  begin(timed?: Timed): Promise<number> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.begin, 0], timed);
  }

  /** Rejects and rolls back when an operation of the transaction fails that is under way now: it need not be awaited before. */
  commit(tx: number, timed?: Timed): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.commit, tx, this.#firstOf(tx)], timed);
  }

  rollback(tx: number): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.rollback, tx]);
  }

  userVersion(): Promise<number> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.userVersion, 0]);
  }

  /** Applies the pending files in one transaction, after a copy to `backupTo`; resolves with the numbers applied. */
  migrate(files: MigrationFile[], backupTo: string | null): Promise<number[]> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.migrate, 0, files, backupTo]);
  }

  /** Makes the writer close the file and every other connection to it. */
  close(): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.close, 0]);
  }

  /** Ends the connection and rejects what is outstanding. A later operation would connect again. */
  end(): void {
    if (this.#retry) clearTimeout(this.#retry);
    this.#retry = null;
    this.#link?.close();
    this.#link = null;
    this.#left = null;
    this.#rejectUpTo(Number.POSITIVE_INFINITY, LOST);
  }

  /** The number of the transaction's first operation that is under way; 0 when none is. */
  #firstOf(tx: number): number {
    for (const [id, { frame }] of this.#outstanding) if (frame[3] === tx) return id;
    return 0;
  }

  #ask<T>(frame: FrameOf<'db'>, timed?: Timed): Promise<T> {
    if (timed !== undefined) (frame as unknown[]).push(true);
    return new Promise<T>((resolve, reject) => {
      if (frame[3] !== 0 && (!this.#link || this.#left)) {
        reject(new DbError(TRANSACTION_LOST));
        return;
      }
      this.#outstanding.set(frame[1], { frame, resolve, reject, timed });
      if (!this.#retry && !this.#left) this.#send(frame, reject);
    });
  }

  #send(frame: FrameOf<'db'>, reject: (error: DbError) => void): void {
    try {
      // The next operation of a transaction often follows at once.
      if (frame[3] === 0) this.#connection().send(frame);
      else this.#connection().sendLater(frame);
    } catch (error) {
      // The frame is too large, or holds an integer of more than 64 bits.
      this.#outstanding.delete(frame[1]);
      reject(new DbError({ code: 'SQLITE_TOOBIG', message: (error as Error).message }));
    }
  }

  #connection(): Link {
    if (this.#link) return this.#link;
    this.#session = 1 + floor(random() * SESSIONS);
    const handlers: LinkHandlers = {
      onFrame: (frame, link) => this.#receive(frame, link),
      onClose: (error, link) => this.#lost(error, link),
    };
    this.#link = this.#open(handlers, this.#session);
    if (this.#left) this.#link.send([Kind.resume, this.#left.session]);
    return this.#link;
  }

  #receive(frame: Frame, link: Link): void {
    this.#unreachableSince = 0;
    if (frame[0] === Kind.resumed && this.#left) {
      this.#resumed(frame[1]);
      return;
    }
    if (frame[0] !== Kind.dbResult && frame[0] !== Kind.dbError) {
      link.close(new Error('The writer sent a frame that is not an answer.'));
      return;
    }
    const asked = this.#outstanding.get(frame[1]);
    if (!asked) return;
    this.#outstanding.delete(frame[1]);
    if (frame[3] !== undefined) asked.timed?.(frame[3], frame[0] === Kind.dbResult ? '' : frame[2].code);
    if (frame[0] === Kind.dbResult) asked.resolve(frame[2] as never);
    else asked.reject(this.#errorOf(frame[2]));
  }

  #lost(error: Error | null, link: Link): void {
    if (link !== this.#link) return;
    this.#link = null;
    if ((error as NodeJS.ErrnoException | null)?.syscall === 'connect') {
      this.#unreachableSince ||= performance.now();
      if (performance.now() - this.#unreachableSince > LIMITS.childStartMs) {
        this.#unreachableSince = 0;
        this.#giveUp();
        return;
      }
    } else if (this.#left) {
      // The second writer is lost too, before it said how far the first one came.
      this.#giveUp();
      return;
    } else this.#keep({ session: this.#session, lastId: this.#lastId });
    if (this.#outstanding.size > 0) this.#retry = setTimeout(() => this.#again(), LIMITS.writerRetryMs);
    else this.#left = null;
  }

  /** The connection broke. Its transaction ends with it. */
  #keep(left: Left): void {
    this.#left = left;
    for (const [id, { frame, reject }] of [...this.#outstanding]) {
      if (frame[3] === 0) continue;
      this.#outstanding.delete(id);
      reject(new DbError(LOST));
    }
  }

  #again(): void {
    this.#retry = null;
    if (this.#left) this.#connection();
    else this.#sendAll();
  }

  /** The outcome of what had begun is unknown; the rest is sent again. `begun` is -1 when the writer does not know. */
  #resumed(begun: number): void {
    const lastBegun = begun < 0 ? (this.#left?.lastId ?? 0) : begun;
    this.#left = null;
    this.#rejectUpTo(lastBegun, LOST);
    this.#sendAll();
  }

  #sendAll(): void {
    for (const { frame, reject } of [...this.#outstanding.values()]) this.#send(frame, reject);
  }

  /** No writer takes over. Operations that were never sent were not run. */
  #giveUp(): void {
    const lastSent = this.#left?.lastId ?? 0;
    this.#left = null;
    this.#rejectUpTo(lastSent, LOST);
    this.#rejectUpTo(Number.POSITIVE_INFINITY, UNAVAILABLE);
  }

  #rejectUpTo(lastId: number, body: ErrorBody): void {
    for (const [id, { reject }] of [...this.#outstanding]) {
      if (id > lastId) continue;
      this.#outstanding.delete(id);
      reject(new DbError(body));
    }
  }
}
