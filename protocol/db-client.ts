/** The asking side of the SQLite writer: each operation is a promise, paired with its answer by a number. */
import type { ErrorBody } from './errors.ts';
import {
  type DbFrame,
  DbOp,
  type Frame,
  Kind,
  type MigrationFile,
  type Row,
  type RunResult,
  type SqlParams,
  type SqlStatement,
} from './frames.ts';
import { LIMITS } from './limits.ts';
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

type Outstanding = { frame: DbFrame; resolve: (value: never) => void; reject: (error: DbError) => void };

/**
 * One database, as its ticket names it. The connection is made by the first operation and again by the first one after
 * it was lost. While the writer is being replaced, operations that were never sent wait for the new one.
 */
export class DbClient {
  readonly #open: (handlers: LinkHandlers) => Link;
  readonly #outstanding = new Map<number, Outstanding>();
  #link: Link | null = null;
  #lastId = 0;
  #unreachableSince = 0;
  #retry: NodeJS.Timeout | null = null;

  /** `open` connects to the writer's socket and says `hello`. */
  constructor(open: (handlers: LinkHandlers) => Link) {
    this.#open = open;
  }

  run(sql: string, params: SqlParams = [], tx = 0): Promise<RunResult> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.run, tx, sql, params]);
  }

  get(sql: string, params: SqlParams = [], tx = 0): Promise<Row | null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.get, tx, sql, params]);
  }

  all(sql: string, params: SqlParams = [], tx = 0): Promise<Row[]> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.all, tx, sql, params]);
  }

  /** All statements or none. */
  batch(statements: SqlStatement[], tx = 0): Promise<RunResult[]> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.batch, tx, statements]);
  }

  /** Several statements in one text, all or none. */
  exec(sql: string, tx = 0): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.exec, tx, sql]);
  }

  /** Waits for the database's lane and takes it; resolves with the number that later operations pass as `tx`. */
  begin(): Promise<number> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.begin, 0]);
  }

  commit(tx: number): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.commit, tx]);
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

  /** Makes the writer let go of the file and of everybody else who is connected to it. */
  close(): Promise<null> {
    return this.#ask([Kind.db, ++this.#lastId, DbOp.close, 0]);
  }

  /** Ends the connection; what is outstanding is rejected. A later operation would open it again. */
  end(): void {
    if (this.#retry) clearTimeout(this.#retry);
    this.#retry = null;
    this.#link?.close();
    this.#link = null;
    this.#rejectAll(LOST);
  }

  #ask<T>(frame: DbFrame): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (frame[3] !== 0 && !this.#link) {
        reject(new DbError(TRANSACTION_LOST));
        return;
      }
      this.#outstanding.set(frame[1], { frame, resolve, reject });
      if (!this.#retry) this.#send(frame, reject);
    });
  }

  #send(frame: DbFrame, reject: (error: DbError) => void): void {
    try {
      this.#connection().send(frame);
    } catch (error) {
      // What cannot be written as a frame: too many bytes, or an integer of more than 64 bits.
      this.#outstanding.delete(frame[1]);
      reject(new DbError({ code: 'SQLITE_TOOBIG', message: (error as Error).message }));
    }
  }

  #connection(): Link {
    this.#link ??= this.#open({
      onFrame: (frame, link) => this.#receive(frame, link),
      onClose: (error, link) => this.#lost(error, link),
    });
    return this.#link;
  }

  #receive(frame: Frame, link: Link): void {
    this.#unreachableSince = 0;
    if (frame[0] !== Kind.dbResult && frame[0] !== Kind.dbError) {
      link.close(new Error('The writer sent a frame that is no answer.'));
      return;
    }
    const asked = this.#outstanding.get(frame[1]);
    if (!asked) return;
    this.#outstanding.delete(frame[1]);
    if (frame[0] === Kind.dbResult) asked.resolve(frame[2] as never);
    else asked.reject(new DbError(frame[2]));
  }

  #lost(error: Error | null, link: Link): void {
    if (link !== this.#link) return;
    this.#link = null;
    const neverConnected = (error as NodeJS.ErrnoException | null)?.syscall === 'connect';
    if (!neverConnected) {
      this.#rejectAll(LOST);
      return;
    }
    this.#unreachableSince ||= performance.now();
    if (performance.now() - this.#unreachableSince > LIMITS.childStartMs) {
      this.#unreachableSince = 0;
      this.#rejectAll(UNAVAILABLE);
      return;
    }
    this.#retry = setTimeout(() => this.#resend(), LIMITS.writerRetryMs);
  }

  /** The writer was not there, so nothing of this was run: it is sent to the one that takes its place. */
  #resend(): void {
    this.#retry = null;
    for (const { frame, reject } of this.#outstanding.values()) this.#send(frame, reject);
  }

  #rejectAll(body: ErrorBody): void {
    const all = [...this.#outstanding.values()];
    this.#outstanding.clear();
    for (const { reject } of all) reject(new DbError(body));
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
