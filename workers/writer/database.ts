/** Opens one database file, keeps its prepared statements, and runs operations, which return plain values. */
import { renameSync, type Stats, statSync } from 'node:fs';
import type Sqlite from 'better-sqlite3';
import { LIMITS } from '../../protocol/limits.ts';
import type { Row, RunResult, SqlParams, SqlStatement } from '../../protocol/wire/frames.ts';
import { openExisting } from '../../storage/data-file.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { isSameState, WalIndex } from '../../storage/wal-index.ts';
import { programOf } from './programs.ts';
import {
  bindIntegers,
  describeFailure,
  numberIfSafe,
  permit,
  type RowStatement,
  readRow,
  readRows,
  StatementCache,
  StatementError,
} from './statements.ts';

export type Durability = 'full' | 'normal';

/** Pages in the write-ahead log, and how many of them are in the database file already. */
type WalPages = { log: number; checkpointed: number };

/** A commit: the states before and after it, and the tables that it wrote; null for unknown parts. */
export type Change = { before: Uint8Array | null; after: Uint8Array | null; tables: string[] | null };

/** A statement, and the tables that it writes: null when not known, undefined when not looked for yet. */
type Prepared = { statement: RowStatement; writes: readonly string[] | null | undefined };

export class Database {
  readonly #db: Sqlite.Database;
  readonly #begin: Sqlite.Statement;
  readonly #commit: Sqlite.Statement;
  readonly #rollback: Sqlite.Statement;
  readonly #savepoint: Sqlite.Statement;
  readonly #release: Sqlite.Statement;
  readonly #undo: Sqlite.Statement;
  readonly #walPages: Sqlite.Statement<[], WalPages>;
  #statements = new StatementCache<Prepared>(LIMITS.statementCache);
  readonly #index: WalIndex;
  readonly #opened: Stats | undefined;
  /** The state before the open transaction, and the one after the latest commit. */
  #before: Uint8Array | null = null;
  #after: Uint8Array | null = null;
  /** The tables that the open transaction may have written; null when unknown. */
  #written: Set<string> | null = null;

  /** Opens `file`, or creates it unless it is `migrated`: then it throws `DataLost`. Throws SQLite's error. */
  static open(file: string, durability: Durability, migrated = false): Database {
    const db = (migrated ? openExisting : openSqlite)(file, { timeout: LIMITS.writerBusyMs });
    try {
      return new Database(db, durability);
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Sets up a new handle. */
  constructor(db: Sqlite.Database, durability: Durability) {
    db.pragma('journal_mode = WAL');
    db.pragma(`synchronous = ${durability}`);
    db.pragma('foreign_keys = ON');
    db.pragma('wal_autocheckpoint = 0');
    db.pragma(`journal_size_limit = ${LIMITS.walBytes}`);
    db.pragma(`cache_size = ${-LIMITS.databaseCacheBytes / 1024}`);
    this.#db = db;
    this.#index = new WalIndex(db.name);
    this.#opened = statSync(db.name, { throwIfNoEntry: false });
    this.#begin = db.prepare('BEGIN IMMEDIATE');
    this.#commit = db.prepare('COMMIT');
    this.#rollback = db.prepare('ROLLBACK');
    this.#savepoint = db.prepare('SAVEPOINT part');
    this.#release = db.prepare('RELEASE part');
    this.#undo = db.prepare('ROLLBACK TO part');
    this.#walPages = db.prepare('PRAGMA wal_checkpoint(NOOP)');
    // Integers in statements of callers, prepared from here on, come as bigint, so that none is rounded.
    db.defaultSafeIntegers(true);
  }

  get inTransaction(): boolean {
    return this.#db.inTransaction;
  }

  begin(): void {
    this.#begin.run();
    this.#before = this.#index.read();
    this.#written = new Set();
    // Another process has written since, maybe the schema.
    if (!isSameState(this.#before, this.#after)) this.#forget();
  }

  /** Answers null when nothing has changed. */
  commit(): Change | null {
    this.#commit.run();
    const before = this.#before;
    const after = this.#index.read();
    this.#after = after;
    if (isSameState(before, after)) return null;
    return { before, after, tables: this.#written && [...this.#written] };
  }

  rollback(): void {
    if (this.#db.inTransaction) this.#rollback.run();
  }

  run(sql: string, params: SqlParams): RunResult {
    const result = this.#writing(sql).run(bindIntegers(params));
    return { changes: result.changes, lastInsertRowid: numberIfSafe(result.lastInsertRowid as bigint) };
  }

  get(sql: string, params: SqlParams): Row | null {
    return readRow(this.#writing(sql), params);
  }

  /** Throws and undoes the statement's writes when the rows are over `LIMITS.readRows` or `LIMITS.readBytes`. */
  all(sql: string, params: SqlParams): Row[] {
    const statement = this.#writing(sql);
    return statement.readonly ? readRows(statement, params) : this.#allOrNone(() => readRows(statement, params));
  }

  batch(statements: SqlStatement[]): RunResult[] {
    const runAll = () => statements.map((statement, index) => this.#runOf(statement, index));
    // A single statement is atomic by itself.
    return statements.length === 1 ? runAll() : this.#allOrNone(runAll);
  }

  exec(sql: string): null {
    permit(sql);
    this.#forget();
    return this.#allOrNone(() => {
      this.#db.exec(sql);
      return null;
    });
  }

  /** Whether its file was removed or replaced since it was opened. */
  hasMoved(): boolean {
    const found = statSync(this.#db.name, { throwIfNoEntry: false });
    return found?.ino !== this.#opened?.ino || found?.dev !== this.#opened?.dev;
  }

  userVersion(): number {
    return Number(this.#db.pragma('user_version', { simple: true }));
  }

  walPages(): WalPages {
    return this.#walPages.get() as WalPages;
  }

  /** All pages of the database, as its latest commit left them. */
  serialize(): Buffer {
    return this.#db.serialize();
  }

  /** The state of the write-ahead log now; null when it cannot be read. */
  state(): Uint8Array | null {
    // A file that came without a write-ahead log has an index once it was read.
    this.#db.pragma('schema_version');
    return this.#index.read();
  }

  /** Copies the log into the database file, as far as no reader needs the old pages. */
  checkpoint(): void {
    this.#db.pragma('wal_checkpoint(PASSIVE)');
  }

  /** Empties the log, unless there is a reader, and closes the file. What only this handle still has is kept beside it. Never throws. */
  close(): void {
    try {
      this.#db.pragma('busy_timeout = 0');
      if (this.hasMoved()) this.#keep();
      this.#db.pragma('wal_checkpoint(TRUNCATE)');
    } catch {
      // What could not be copied stays in the log, for the next one to open the file.
    }
    this.#db.close();
    this.#index.close();
  }

  /** The file has no name any more, or another file has it. */
  #keep(): void {
    const kept = `${this.#db.name}.removed-${Date.now()}`;
    this.#db.prepare('VACUUM INTO ?').run(`${kept}.tmp`);
    renameSync(`${kept}.tmp`, kept);
  }

  /** Closes a handle whose state is in doubt, which rolls back its transaction. A checkpoint may need the locks of the index. */
  abandon(): void {
    this.#db.close();
  }

  /** Returns a statement that is about to run, and counts its tables as written. */
  #writing(sql: string): RowStatement {
    const prepared = this.#prepare(sql);
    if (prepared.statement.readonly || this.#written === null) return prepared.statement;
    prepared.writes ??= programOf((text) => this.#db.prepare(text), sql).writes;
    if (prepared.writes === null) this.#forget();
    else for (const table of prepared.writes) this.#written.add(table);
    return prepared.statement;
  }

  #prepare(sql: string): Prepared {
    const known = this.#statements.get(sql);
    if (known) return known;
    permit(sql);
    const prepared = { statement: this.#db.prepare<[SqlParams], unknown>(sql), writes: undefined };
    this.#statements.set(sql, prepared);
    return prepared;
  }

  /**
   * The schema may have changed: the transaction may write any table, and the tables of each statement are determined again.
   */
  #forget(): void {
    this.#written = null;
    this.#statements = new StatementCache(LIMITS.statementCache);
  }

  #runOf([sql, params]: SqlStatement, index: number): RunResult {
    try {
      return this.run(sql, params);
    } catch (error) {
      const { code, message } = describeFailure(error);
      throw new StatementError(code, `Statement ${index + 1} of the batch: ${message}`);
    }
  }

  #allOrNone<T>(work: () => T): T {
    this.#savepoint.run();
    try {
      const value = work();
      this.#release.run();
      return value;
    } catch (error) {
      // An error that ended the whole transaction took the savepoint with it.
      if (this.#db.inTransaction) {
        this.#undo.run();
        this.#release.run();
      }
      throw error;
    }
  }
}
