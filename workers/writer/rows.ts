/** Rows as they come from better-sqlite3 with safe integers on: bounded, and with numbers wherever a number is exact. */
import type Sqlite from 'better-sqlite3';
import type { Row, SqlParams, SqlValue } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { StatementError } from './failure.ts';

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
 * All rows, taken one by one so that a limit is noticed when it is reached: throws `SQLITE_TOOBIG` beyond
 * `LIMITS.readRows` or `LIMITS.readBytes`. `bytesOf` says what a row takes; null as soon as it says less than 0.
 */
export function collectRows(source: IterableIterator<Row>, bytesOf: (row: Row) => number): Row[] | null {
  const rows: Row[] = [];
  let bytes = 0;
  for (const row of source) {
    const taken = bytesOf(row);
    if (taken < 0) return null;
    bytes += taken;
    if (rows.push(row) > LIMITS.readRows) {
      throw new StatementError('SQLITE_TOOBIG', `The result is over the limit of ${LIMITS.readRows} rows.`);
    }
    if (bytes > LIMITS.readBytes) {
      throw new StatementError('SQLITE_TOOBIG', `The result is over the limit of ${LIMITS.readBytes} bytes.`);
    }
  }
  return rows;
}

const MIN_SAFE = BigInt(Number.MIN_SAFE_INTEGER);
const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER);

export function numberIfSafe(value: bigint): number | bigint {
  return value >= MIN_SAFE && value <= MAX_SAFE ? Number(value) : value;
}

/**
 * Integers as integers, in place: better-sqlite3 binds every number as REAL, which a TEXT column would keep as `5.0`.
 */
export function bindIntegers(params: SqlParams): SqlParams {
  const values = params as Record<string, SqlValue>;
  for (const key in values) {
    const value = values[key];
    if (Number.isSafeInteger(value)) values[key] = BigInt(value as number);
  }
  return params;
}

/** About what a row takes: the length of its strings and blobs, and 8 bytes for every other value. */
function rowBytes(row: Row): number {
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
