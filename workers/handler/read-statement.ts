/**
 * A pure read. Its integers come as numbers, which costs much less than taking each as a bigint first; where a row holds a
 * number that may be a rounded integer, the read runs again with bigints. Nothing has changed by the first run, and what
 * somebody else wrote in between is merely newer.
 */
import type Sqlite from 'better-sqlite3';
import type { Row, SqlParams } from '../../protocol/frames.ts';
import { bindIntegers, collectRows, type RowStatement, readRow, readRows } from '../writer/rows.ts';

/** Integers from here on may have been rounded on their way into a number. */
const ROUNDED = 2 ** 53;

export class ReadStatement {
  readonly #db: Sqlite.Database;
  readonly #plain: RowStatement;
  #exact: RowStatement | null = null;

  constructor(db: Sqlite.Database, statement: RowStatement) {
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

  #withBigints(): RowStatement {
    this.#exact ??= this.#db.prepare<[SqlParams], unknown>(this.#plain.source).safeIntegers(true);
    return this.#exact;
  }
}

/** As `rowBytes`, but -1 when a number may be a rounded integer. */
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
