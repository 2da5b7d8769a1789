/**
 * Gives handlers their database, as `db` and `tx` (decisions, section 3). Pure reads run here, on the actor's read-only
 * connection; everything else goes to the writer.
 */
import { readFileSync, statSync } from 'node:fs';
import type Sqlite from 'better-sqlite3';
import { isDiskFull } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient, Timed } from '../../../protocol/wire/db-client.ts';
import type { Row, RunResult, SqlParams } from '../../../protocol/wire/frames.ts';
import { openSqlite } from '../../../storage/sqlite.ts';
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
import { Asked } from '../asked.ts';
import type { Call } from '../calls.ts';
import { withoutPlannedLimits } from '../limit-parameters.ts';
import { type RowsJson, rowsJsonOf, rowsToJson } from '../result.ts';
import { statementRuns, writerAsked } from './reads.ts';
import { JsonStatement } from './rows-json.ts';
import { toParams, toStatements, toText } from './sql-params.ts';

/** What `db.prepare(sql)` gives. */
export type HandlerStatement = {
  get(...params: unknown[]): Promise<Row | null>;
  all(...params: unknown[]): Promise<Row[]>;
  json(...params: unknown[]): Promise<RowsJson>;
  run(...params: unknown[]): Promise<RunResult>;
};

const ENDED = 'This transaction has ended; tx cannot be used after its callback.';
// It would wait for the lane that the transaction holds, and the transaction for it.
const IN_TRANSACTION = 'A transaction of this call is open: write through its tx, not through db.';

// Not methods, because handlers hold the object.
/**
 * Resolves when the operations that the call did not await are answered, rejects when one of them failed; null when there are
 * none.
 */
export let settled: (db: CallDatabase) => Promise<void> | null;
/** Resolves when the call's operations are answered or have failed. */
export let finished: (db: CallDatabase) => Promise<void>;

/** The `db` of one call, or the `tx` of a transaction. Each operation is one message to the writer. Errors keep SQLite's `code`. */
export class CallDatabase {
  readonly #client: DbClient;
  /** Null in a transaction, which reads its own writes. */
  readonly #reader: Reader | null;
  readonly #call: Call;
  /** The number of the transaction; 0 outside. */
  readonly #tx: number;
  /** Why it cannot be used now. */
  #blocked: string | null = null;
  /** Unanswered operations; made with the first one, because most calls only read. */
  #pending: Set<Promise<unknown>> | null = null;

  static {
    settled = (db) => (db.#pending !== null && db.#pending.size > 0 ? db.#settle(db.#pending) : null);
    finished = async (db) => {
      while (db.#pending !== null && db.#pending.size > 0) await Promise.allSettled(db.#pending);
    };
  }

  constructor(client: DbClient, reader: Reader | null, call: Call, tx = 0) {
    this.#client = client;
    this.#reader = reader;
    this.#call = call;
    this.#tx = tx;
  }

  prepare(sql: string): HandlerStatement {
    return {
      get: (...params) => this.get(sql, ...params),
      all: (...params) => this.all(sql, ...params),
      json: (...params) => this.json(sql, ...params),
      run: (...params) => this.run(sql, ...params),
    };
  }

  /** The first row, or null. */
  get(sql: string, ...params: unknown[]): Promise<Row | null> {
    try {
      const statement = this.#readable(sql);
      if (statement !== null) return Promise.resolve(statement.get(toParams(params)));
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#ask((client) => client.get(toText(sql), toParams(params), this.#tx, this.#timed(sql)));
  }

  all(sql: string, ...params: unknown[]): Promise<Row[]> {
    try {
      const statement = this.#readable(sql);
      if (statement !== null) return Promise.resolve(statement.all(toParams(params)));
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#ask((client) => client.all(toText(sql), toParams(params), this.#tx, this.#timed(sql)));
  }

  /** All rows as JSON for a handler to return: the same bytes as for the rows of `all`. */
  json(sql: string, ...params: unknown[]): Promise<RowsJson> {
    try {
      const statement = this.#readable(sql);
      if (statement !== null) return Promise.resolve(rowsJsonOf(statement.json(toParams(params))));
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#ask(async (client) => {
      const rows = await client.all(toText(sql), toParams(params), this.#tx, this.#timed(sql));
      return rowsJsonOf(rowsToJson(rows));
    });
  }

  run(sql: string, ...params: unknown[]): Promise<RunResult> {
    return this.#ask((client) => client.run(toText(sql), toParams(params), this.#tx, this.#timed(sql)));
  }

  /** `[[sql, ...params], …]`: all of them or none. */
  batch(statements: [sql: string, ...params: unknown[]][]): Promise<RunResult[]> {
    return this.#ask((client) =>
      client.batch(toStatements(statements), this.#tx, this.#call.trace?.operation('BATCH')),
    );
  }

  /** Several statements in one text, all of them or none. */
  exec(sql: string): Promise<null> {
    return this.#ask((client) => client.exec(toText(sql), this.#tx, this.#call.trace?.operation('EXEC')));
  }

  /**
   * Runs `work` while holding the app's write lane, commits when it returns, and rolls back when it throws, when the call is over,
   * or (in the writer) when the lease is over.
   */
  transaction<T>(work: (tx: CallDatabase) => Promise<T> | T): Promise<T> {
    if (this.#tx !== 0) return Promise.reject(new Error('Transactions do not nest: use the open tx.'));
    if (typeof work !== 'function') return Promise.reject(new TypeError('db.transaction takes a function (tx) => ….'));
    return this.#ask((client) => this.#inTransaction(client, work));
  }

  async #inTransaction<T>(client: DbClient, work: (tx: CallDatabase) => Promise<T> | T): Promise<T> {
    this.#blocked = IN_TRANSACTION;
    try {
      const { trace } = this.#call;
      const number = await client.begin(trace?.operation('BEGIN'));
      const tx = new CallDatabase(client, null, this.#call, number);
      try {
        this.#call.assertWanted();
        const value = await Promise.race([work(tx), new Promise<never>((_, reject) => this.#call.onOver(reject))]);
        if (tx.#mustSettle()) await settled(tx);
        tx.#blocked = ENDED;
        // Operations that are not awaited travel together with the commit. The writer refuses the commit if one failed, with a
        // better message.
        const committed = client.commit(number, trace?.operation('COMMIT'));
        committed.catch(() => {});
        await settled(tx);
        await committed;
        return value;
      } catch (error) {
        tx.#blocked = ENDED;
        // Not awaited: a writer that was lost has rolled back already. It comes before later operations of this connection, and
        // may fail if the transaction has ended by itself.
        client.rollback(number).catch(() => {});
        throw error;
      }
    } finally {
      this.#blocked = null;
    }
  }

  #timed(sql: string): Timed | undefined {
    const { trace } = this.#call;
    return trace === null ? undefined : trace.statement(sql);
  }

  /** The statement when it is a pure read that this thread can answer, else null. */
  #readable(sql: string): ReadStatement | null {
    if (this.#reader === null) return null;
    this.#call.assertWanted();
    const statement = this.#reader.statement(toText(sql));
    if (statement !== null) statementRuns(statement);
    return statement;
  }

  /** An operation failed that was not awaited; or the handler awaits one, and may send more after it. */
  #mustSettle(): boolean {
    for (const asked of (this.#pending ?? []) as Set<Asked<unknown>>) {
      if (asked.failed && asked.awaited) this.#pending?.delete(asked);
      else if (asked.failed || asked.awaited) return true;
    }
    return false;
  }

  async #settle(pending: Set<Promise<unknown>>): Promise<void> {
    while (pending.size > 0) await Promise.all(pending);
  }

  #ask<T>(operation: (client: DbClient) => Promise<T>): Promise<T> {
    let asked: Promise<T>;
    try {
      this.#call.assertWanted();
      writerAsked();
      if (this.#blocked !== null) throw new Error(this.#blocked);
      asked = operation(this.#client);
    } catch (error) {
      return Promise.reject(error);
    }
    // We handle the inner promise only, so that a failure that the handler ignores is still reported as unhandled.
    this.#pending ??= new Set();
    const pending = this.#pending;
    // Not with `finally`, which makes three more promises for each statement.
    const Tracked = this.#tx === 0 ? Promise : Asked;
    const tracked = new Tracked<T>((resolve, reject) => {
      asked.then(
        (value) => {
          pending.delete(tracked);
          if (this.#tx === 0) this.#call.wrote = true;
          resolve(value);
        },
        (error: unknown) => {
          if (tracked instanceof Asked && !tracked.awaited) tracked.failed = true;
          else pending.delete(tracked);
          reject(error as Error);
        },
      );
    });
    pending.add(tracked);
    return tracked;
  }
}

/** The actor's connection. The first read opens it. */
export class Reader {
  readonly #file: string;
  /** Null unless the text is a pure read. */
  readonly #statements = new StatementCache<ReadStatement | null>(LIMITS.statementCache);
  #db: Sqlite.Database | null = null;
  #snapshot: Snapshot | null = null;
  /** Counts how often the schema may have changed. */
  schema = 0;

  constructor(file: string) {
    this.#file = file;
  }

  /**
   * The statement, when it can be answered here; null when it has to go to the writer: it writes, or there is no database yet,
   * which the writer then creates. Throws SQLite's errors.
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
        this.#snapshot = takeSnapshot(this.#file);
      }
      if (this.#snapshot === null) throw error;
      const snapshot = this.#snapshot.db;
      return { db: snapshot, statement: snapshot.prepare<[SqlParams], unknown>(sql) };
    }
  }

  #open(): Sqlite.Database | null {
    if (this.#db !== null) return this.#db;
    try {
      this.#db = openSqlite(this.#file, { readonly: true, fileMustExist: true, timeout: LIMITS.readBusyMs });
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
class ReadStatement {
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
function takeSnapshot(file: string): Snapshot | null {
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
