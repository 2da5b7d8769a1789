/** Runs the pure reads of handlers on the actor's read-only connection. */
import { readFileSync, statSync } from 'node:fs';
import type Sqlite from 'better-sqlite3';
import { isDiskFull } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Row, SqlParams } from '../../../protocol/wire/frames.ts';
import { statExisting } from '../../../storage/existing-file.ts';
import { type Program, programOf, UNKNOWN_PROGRAM } from '../../writer/programs.ts';
import {
  bindIntegers,
  collectRows,
  permit,
  type RowStatement,
  readRow,
  readRows,
  StatementCache,
} from '../../writer/statements.ts';
import { withoutPlannedLimits } from './limit-parameters.ts';
import { JsonStatement } from './rows-json.ts';

/** As `openSqlite`. */
export type OpenSqlite = (file: string | Buffer, options?: Sqlite.Options) => Sqlite.Database;

/** The actor's connection. The first read opens it. */
export class Reader {
  readonly #openSqlite: OpenSqlite;
  readonly #file: string;
  readonly #migrated: boolean;
  /** Null unless the text is a pure read. */
  #statements = new StatementCache<ReadStatement | null>(LIMITS.statementCache);
  #db: Sqlite.Database | null = null;
  #snapshot: Snapshot | null = null;
  /** Counts how often the schema may have changed. */
  schema = 0;

  /** `migrated`: the file is there and is not made. */
  constructor(openSqlite: OpenSqlite, file: string, migrated = false) {
    this.#openSqlite = openSqlite;
    this.#file = file;
    this.#migrated = migrated;
  }

  /**
   * The statement, when it can be answered here; null when it has to go to the writer: it writes, or there is no database yet,
   * which the writer then creates. Throws SQLite's errors, and `DataLost`.
   */
  statement(sql: string): ReadStatement | null {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const db = this.#open();
    if (db === null) return null;
    const prepared = this.#prepare(db, sql);
    let { statement } = prepared;
    let readable: ReadStatement | null = null;
    if (statement.reader && statement.readonly) {
      const rewritten = withoutPlannedLimits(sql);
      if (rewritten !== sql) statement = prepared.db.prepare<[SqlParams], unknown>(rewritten);
      readable = new ReadStatement(this, prepared.db, statement);
    }
    // A snapshot may be replaced, so its statements are not kept.
    if (prepared.db === db) this.#statements.set(sql, readable);
    return readable;
  }

  /** Whether the handle reads the database itself, and not a copy of it. */
  isLive(db: Sqlite.Database): boolean {
    return db === this.#db;
  }

  /** A statement outside the cache; null while there is no database. Throws SQLite's errors. */
  prepare(sql: string): RowStatement | null {
    const db = this.#open();
    return db === null ? null : this.#prepare(db, sql).statement;
  }

  /** Closes it until the next statement. */
  rest(): void {
    this.#statements = new StatementCache(LIMITS.statementCache);
    this.close();
  }

  close(): void {
    this.#snapshot?.db.close();
    this.#snapshot = null;
    this.#db?.close();
    this.#db = null;
  }

  /** On a disk without room for the index of the log, the statement reads a snapshot. */
  #prepare(db: Sqlite.Database, sql: string): { db: Sqlite.Database; statement: RowStatement } {
    permit(sql);
    try {
      return { db, statement: db.prepare<[SqlParams], unknown>(sql) };
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      if (this.#snapshot === null || stateOf(this.#file) !== this.#snapshot.state) {
        this.#snapshot?.db.close();
        this.#snapshot = makeSnapshot(this.#openSqlite, this.#file);
      }
      if (this.#snapshot === null) throw error;
      const snapshot = this.#snapshot.db;
      return { db: snapshot, statement: snapshot.prepare<[SqlParams], unknown>(sql) };
    }
  }

  #open(): Sqlite.Database | null {
    if (this.#db !== null) return this.#db;
    if (this.#migrated) statExisting(this.#file);
    try {
      this.#db = this.#openSqlite(this.#file, { readonly: true, fileMustExist: true, timeout: LIMITS.readBusyMs });
    } catch (error) {
      if ((error as { code?: unknown }).code === 'SQLITE_CANTOPEN') return null;
      throw error;
    }
    this.#db.defaultSafeIntegers(true);
    return this.#db;
  }
}

/** Integers from here on may have been rounded on their way into a number. */
const ROUNDED = 2 ** 53;

/**
 * A pure read. Its integers come as numbers, which costs much less than taking each as a bigint first; where a row holds a number
 * that may be a rounded integer, the read runs again with bigints. The first run changes nothing.
 */
export class ReadStatement {
  readonly #reader: Reader;
  readonly #db: Sqlite.Database;
  readonly #plain: RowStatement;
  #exact: RowStatement | null = null;
  #json: JsonStatement | null = null;
  #program: { of: Program; schema: number } | null = null;

  constructor(reader: Reader, db: Sqlite.Database, statement: RowStatement) {
    this.#reader = reader;
    this.#db = db;
    this.#plain = statement.safeIntegers(false);
  }

  /** The first row, or null. Throws SQLite's errors. */
  get(params: SqlParams): Row | null {
    const row = this.#plain.get(bindIntegers(params)) as Row | undefined;
    if (row === undefined) return null;
    return plainBytes(row) < 0 ? readRow(this.#withBigints(), params) : row;
  }

  /** All rows, within the limits of `readRows`. Throws SQLite's errors. */
  all(params: SqlParams): Row[] {
    const rows = this.#plain.iterate(bindIntegers(params)) as IterableIterator<Row>;
    return collectRows(rows, plainBytes) ?? readRows(this.#withBigints(), params);
  }

  /** The rows of `all` as JSON. Throws as that does. */
  json(params: SqlParams): Buffer {
    this.#json ??= new JsonStatement(this.#db, this.#plain, (given) => this.all(given));
    return this.#json.run(params);
  }

  /** What it reads, with the schema as it is. */
  program(): Program {
    const { schema } = this.#reader;
    if (this.#program?.schema !== schema) {
      const of = this.#reader.isLive(this.#db)
        ? programOf((text) => this.#db.prepare(text), this.#plain.source)
        : UNKNOWN_PROGRAM;
      this.#program = { of, schema };
    }
    return this.#program.of;
  }

  #withBigints(): RowStatement {
    this.#exact ??= this.#db.prepare<[SqlParams], unknown>(this.#plain.source).safeIntegers(true);
    return this.#exact;
  }
}

/** As the writer counts the bytes of a row, but -1 when a number may be a rounded integer. */
function plainBytes(row: Row): number {
  let bytes = 0;
  for (const key in row) {
    const value = row[key];
    if (typeof value === 'number') {
      if (value >= ROUNDED || value <= -ROUNDED) return -1;
      bytes += 8;
    } else bytes += typeof value === 'string' || value instanceof Uint8Array ? value.length : 8;
  }
  return bytes;
}

/** `state` as `stateOf` says when it was read. */
type Snapshot = { db: Sqlite.Database; state: string };

/** Bytes of a SQLite file that name the log for writing and for reading: 2 means a write-ahead log, 1 none. */
const LOG_KINDS = [18, 19];

/**
 * Opens the whole database in memory: for the first read of a file, SQLite makes the index of its log, which does not fit on a
 * full disk. Null when the file is too large, has a log, or is being changed. Throws SQLite's errors.
 */
function makeSnapshot(openSqlite: OpenSqlite, file: string): Snapshot | null {
  const state = stateOf(file);
  if (state === null) return null;
  const bytes = readFileSync(file);
  if (stateOf(file) !== state) return null;
  for (const at of LOG_KINDS) if (bytes[at] === 2) bytes[at] = 1;
  const db = openSqlite(bytes);
  db.pragma('query_only = ON');
  db.defaultSafeIntegers(true);
  return { db, state };
}

/** Differs after every change; null where no snapshot can be taken. A writer would have a log that is not empty. */
function stateOf(file: string): string | null {
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false });
  const found = statSync(file, { throwIfNoEntry: false, bigint: true });
  if (found === undefined || (log?.size ?? 0) > 0 || found.size > LIMITS.databaseSnapshotBytes) return null;
  return `${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}`;
}
