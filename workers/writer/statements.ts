/** Prepares statements of apps for the writer and the actors' readers: what they may do, their values, rows and failures. */
import type Sqlite from 'better-sqlite3';
import type { ErrorBody } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { refuseUnsafe } from '../../protocol/rules/sql.ts';
import type { Row, SqlParams, SqlValue } from '../../protocol/wire/frames.ts';

/** SQL that is refused, or a value over a limit, in the shape of SQLite's own errors. */
export class StatementError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** A failed operation as its asker gets it. Errors that better-sqlite3 throws without a code are about the parameters. */
export function describeFailure(error: unknown): ErrorBody {
  const { code, message, path } = error as { code?: unknown; message: string; path?: unknown };
  const body: ErrorBody = { code: typeof code === 'string' ? code : 'SQLITE_MISUSE', message };
  if (typeof path === 'string') body.path = path;
  return body;
}

/** Throws a `StatementError` for SQL that apps may not run. */
export function permit(sql: string): void {
  const refusal = refuseUnsafe(sql);
  if (refusal) throw new StatementError(refusal.code, refusal.message);
}

/**
 * Prepared statements by their text. Two generations instead of a list ordered by use: a hit costs one look-up, and statements
 * that were unused while the younger generation filled up are dropped with the older one.
 */
export class StatementCache<T> {
  readonly #half: number;
  #young = new Map<string, T>();
  #old = new Map<string, T>();

  constructor(limit: number) {
    this.#half = limit / 2;
  }

  get(sql: string): T | undefined {
    const young = this.#young.get(sql);
    if (young !== undefined) return young;
    const old = this.#old.get(sql);
    if (old !== undefined) this.set(sql, old);
    return old;
  }

  set(sql: string, statement: T): void {
    if (this.#young.size >= this.#half) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(sql, statement);
  }
}

/** A statement that may be asked for rows; its integers come as bigint. */
export type RowStatement = Sqlite.Statement<[SqlParams], unknown>;

/** The first row, or null. */
export function readRow(statement: RowStatement, params: SqlParams): Row | null {
  const row = statement.get(bindIntegers(params)) as Row | undefined;
  return row === undefined ? null : withNumbers(row);
}

/** All rows. Throws as `collectRows` does. */
export function readRows(statement: RowStatement, params: SqlParams): Row[] {
  const rows = statement.iterate(bindIntegers(params)) as IterableIterator<Row>;
  return collectRows(rows, (row) => rowBytes(withNumbers(row))) as Row[];
}

/**
 * All rows, taken one by one so that a limit is noticed when it is reached: throws `SQLITE_TOOBIG` beyond `LIMITS.readRows` or
 * `LIMITS.readBytes`. `bytesOf` gives the size of a row; null as soon as that is less than 0.
 */
export function collectRows(source: IterableIterator<Row>, bytesOf: (row: Row) => number): Row[] | null {
  const rows: Row[] = [];
  let bytes = 0;
  for (const row of source) {
    const taken = bytesOf(row);
    if (taken < 0) return null;
    bytes += taken;
    if (rows.push(row) > LIMITS.readRows) throw tooBig(`${LIMITS.readRows} rows`);
    if (bytes > LIMITS.readBytes) throw tooBig(`${LIMITS.readBytes} bytes`);
  }
  return rows;
}

export function tooBig(limit: string): StatementError {
  return new StatementError('SQLITE_TOOBIG', `The result is over the limit of ${limit}.`);
}

const MIN_SAFE = BigInt(Number.MIN_SAFE_INTEGER);
const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER);

export function numberIfSafe(value: bigint): number | bigint {
  return value >= MIN_SAFE && value <= MAX_SAFE ? Number(value) : value;
}

/** Integers as integers, in place: better-sqlite3 binds every number as REAL, which a TEXT column would keep as `5.0`. */
export function bindIntegers(params: SqlParams): SqlParams {
  const values = params as Record<string, SqlValue>;
  for (const key in values) {
    const value = values[key];
    if (Number.isSafeInteger(value)) values[key] = BigInt(value as number);
  }
  return params;
}

/** Approximate size of a row: the length of its strings and blobs, and 8 bytes for every other value. */
export function rowBytes(row: Row): number {
  let bytes = 0;
  for (const key in row) {
    const value = row[key];
    bytes += typeof value === 'string' || value instanceof Uint8Array ? value.length : 8;
  }
  return bytes;
}

/** Changes integers that a number holds exactly to numbers, in place. */
function withNumbers(row: Row): Row {
  for (const key in row) {
    const value = row[key];
    if (typeof value === 'bigint') row[key] = numberIfSafe(value);
  }
  return row;
}
