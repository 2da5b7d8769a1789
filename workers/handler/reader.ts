/** The actor's own read-only connection to its database. */
import Sqlite from 'better-sqlite3';
import { isDiskFull } from '../../protocol/errors.ts';
import type { SqlParams } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { refuseUnsafe } from '../../protocol/rules/sql.ts';
import { StatementError } from '../writer/failure.ts';
import type { RowStatement } from '../writer/rows.ts';
import { StatementCache } from '../writer/statement-cache.ts';
import { ReadStatement } from './read-statement.ts';
import { Snapshot } from './snapshot.ts';

/** Loads SQLite's native code, so that the first read of a thread need not, and nothing loads after app code has run. */
export function loadSqlite(): void {
  new Sqlite(':memory:').close();
}

export class Reader {
  readonly #file: string;
  /** Null for a text that is no pure read. */
  readonly #statements = new StatementCache<ReadStatement | null>(LIMITS.statementCache);
  #db: Sqlite.Database | null = null;
  #snapshot: Snapshot | null = null;

  constructor(file: string) {
    this.#file = file;
  }

  /**
   * The statement, when it can be answered here; null when it has to go to the writer: it writes, or there is no
   * database yet, which the writer then creates. Throws SQLite's errors.
   */
  statement(sql: string): ReadStatement | null {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const db = this.#open();
    if (db === null) return null;
    const prepared = this.#prepare(db, sql);
    const { statement } = prepared;
    const readable = statement.reader && statement.readonly ? new ReadStatement(prepared.db, statement) : null;
    // What a snapshot answers is asked anew each time.
    if (prepared.db === db) this.#statements.set(sql, readable);
    return readable;
  }

  /** A statement of its own, outside the cache; null while there is no database. Throws SQLite's errors. */
  prepare(sql: string): RowStatement | null {
    const db = this.#open();
    return db === null ? null : this.#prepare(db, sql).statement;
  }

  /** On a disk without room for the index of the log, the statement is one of a snapshot. */
  #prepare(db: Sqlite.Database, sql: string): { db: Sqlite.Database; statement: RowStatement } {
    try {
      return { db, statement: prepareChecked(db, sql) };
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      if (this.#snapshot?.isCurrent !== true) {
        this.#snapshot?.db.close();
        this.#snapshot = Snapshot.take(this.#file);
      }
      if (this.#snapshot === null) throw error;
      const snapshot = this.#snapshot.db;
      return { db: snapshot, statement: prepareChecked(snapshot, sql) };
    }
  }

  close(): void {
    this.#snapshot?.db.close();
    this.#snapshot = null;
    this.#db?.close();
    this.#db = null;
  }

  #open(): Sqlite.Database | null {
    if (this.#db !== null) return this.#db;
    try {
      this.#db = new Sqlite(this.#file, { readonly: true, fileMustExist: true, timeout: LIMITS.readBusyMs });
    } catch (error) {
      if ((error as { code?: unknown }).code === 'SQLITE_CANTOPEN') return null;
      throw error;
    }
    this.#db.defaultSafeIntegers(true);
    return this.#db;
  }
}

function prepareChecked(db: Sqlite.Database, sql: string): RowStatement {
  const refusal = refuseUnsafe(sql);
  if (refusal !== null) throw new StatementError(refusal.code, refusal.message);
  return db.prepare<[SqlParams], unknown>(sql);
}
