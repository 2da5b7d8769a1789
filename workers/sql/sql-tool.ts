/**
 * Runs the built-in tools behind `svc sql` and `svc_sql_*`: lists the tables of an app's database, and runs one statement of
 * the caller.
 */
import { damageCode, isDiskFault, isDiskFull, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import { type Row, type SqlParams, SqlStatus, type SqlValue } from '../../protocol/wire/frames.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { Reader } from '../handler/context/reader.ts';
import { toParams } from '../handler/context/sql-params.ts';
import { programOf, UNKNOWN_PROGRAM } from '../writer/programs.ts';
import { bindIntegers, numberIfSafe, permit, type RowStatement, rowBytes, tooBig } from '../writer/statements.ts';

/** Rows as arrays, at most `LIMITS.sqlRows` of them or as many as were asked for; `truncated` when there were more. */
type Rows = { columns: string[]; rows: SqlValue[][]; truncated: boolean };
/** `tables` are those that it wrote, also by triggers and cascades; null when that is not known. */
type Written = ({ changes: number; lastInsertRowid: number | bigint } | Rows) & { tables: readonly string[] | null };

type Column = { name: string; type: string; notNull: boolean; primaryKey: boolean; default: string | null };
type Table = { name: string; type: string; sql: string; columns: Column[] };

export type SqlAnswer =
  | { status: typeof SqlStatus.read; value: Rows | { tables: Table[] } }
  | { status: typeof SqlStatus.wrote; value: Written }
  | { status: typeof SqlStatus.writes; value: null };

/** The database of an app, for reading. */
export class ReadOnlyDatabase {
  readonly #reader: Reader;
  #empty: ReturnType<typeof openSqlite> | null = null;

  /** `migrated`: the file is there, and it is lost where it is not. */
  constructor(file: string, migrated: boolean) {
    this.#reader = new Reader(openSqlite, file, migrated);
  }

  /** Before its first write, an app has no file: what it holds is nothing. Throws SQLite's errors. */
  prepare(sql: string): RowStatement {
    return this.#reader.prepare(sql) ?? this.#prepareOnEmpty(sql);
  }

  close(): void {
    this.#reader.close();
    this.#empty?.close();
  }

  #prepareOnEmpty(sql: string): RowStatement {
    permit(sql);
    this.#empty ??= openSqlite(':memory:').defaultSafeIntegers(true);
    return this.#empty.prepare<[SqlParams], unknown>(sql);
  }
}

/**
 * Runs `{ sql, params?, mode?, rows? }`. With `mode` "read" it runs only statements that read, with "write" only those that change
 * rows, as decided by SQLite itself; "describe" takes no statement. `rows` is how many rows at most are answered, for a statement
 * that only reads. Without a writer, a statement that would write is checked only.
 * Rejects with `BAD_REQUEST` and SQLite's message for what SQLite refuses, with `OUTCOME_UNKNOWN`, `STORAGE_FULL`, `OVERLOADED`
 * and `INTERNAL` for what is not the statement's fault, and with what is wrong with the data as it is.
 */
export async function runSql(
  request: Record<string, unknown>,
  database: ReadOnlyDatabase,
  writer: DbClient | null,
): Promise<SqlAnswer> {
  const { params, mode } = request;
  const sql = mode === 'describe' ? null : statementOf(request);
  const most = rowsOf(request);
  let isSent = false;
  try {
    if (sql === null) return { status: SqlStatus.read, value: { tables: tablesOf(database) } };
    const bound = toParams(params === undefined || params === null ? [] : [params]);
    const statement = database.prepare(sql);
    if (mode === 'read' && !statement.readonly) throw new Error('This statement writes; svc_sql_read only reads.');
    const program = statement.readonly ? UNKNOWN_PROGRAM : programOf((text) => database.prepare(text), sql);
    if (mode === 'write' && !program.changesRows)
      throw new Error('svc_sql_write runs one INSERT, UPDATE, DELETE or REPLACE; tables are changed by migrations.');
    if (statement.readonly && statement.reader)
      return { status: SqlStatus.read, value: read(statement, bound, most ?? LIMITS.sqlRows) };
    if (most !== undefined) throw new Error('This statement writes; "rows" is for statements that only read.');
    if (writer === null) return { status: SqlStatus.writes, value: null };
    const tables = program.isVirtual || program.writes?.length === 0 ? null : program.writes;
    isSent = true;
    const value = statement.reader ? fromRows(await writer.all(sql, bound)) : await writer.run(sql, bound);
    return { status: SqlStatus.wrote, value: { ...value, tables } };
  } catch (error) {
    if (damageCode(error) !== undefined) throw error;
    throw refusalOf(error as Error & { code?: unknown }, isSent);
  }
}

function statementOf({ sql }: Record<string, unknown>): string {
  if (typeof sql === 'string' && sql.trim() !== '') return sql;
  throw new SvcError('BAD_REQUEST', 'The body needs a statement in "sql".');
}

function rowsOf({ rows }: Record<string, unknown>): number | undefined {
  if (rows === undefined || rows === null) return undefined;
  const isCount = typeof rows === 'number' && Number.isInteger(rows) && rows >= 1 && rows <= LIMITS.sqlRowsMax;
  if (isCount) return rows;
  throw new SvcError('BAD_REQUEST', `"rows" must be a whole number from 1 to ${LIMITS.sqlRowsMax}.`, { path: 'rows' });
}

/** `isSent`: the statement went to the writer, which may have run it. */
function refusalOf(error: Error & { code?: unknown }, isSent: boolean): SvcError {
  const { code, message } = error;
  const unknown = 'It may be stored or not: look before you repeat it.';
  if (isDiskFull(error)) return new SvcError('STORAGE_FULL', 'The disk is full, and the statement took no effect.');
  if (isDiskFault(error))
    return isSent
      ? new SvcError('OUTCOME_UNKNOWN', `The disk failed (${message}). ${unknown}`)
      : new SvcError('INTERNAL', `The disk failed (${message}). Check the disk.`);
  if (code === 'WRITER_LOST')
    return new SvcError('OUTCOME_UNKNOWN', `The process that writes ended while the statement ran. ${unknown}`);
  if (code === 'WRITER_UNAVAILABLE' || code === 'SQLITE_BUSY')
    return new SvcError('OVERLOADED', message, { headers: { 'retry-after': '1' } });
  return new SvcError('BAD_REQUEST', message, { cause: error });
}

/** The tables and views that an app made, with their columns; none before its first migration. */
function tablesOf(database: ReadOnlyDatabase): Table[] {
  const rows = (sql: string, params: SqlParams) => database.prepare(sql).all(params) as Record<string, SqlValue>[];
  const tables = rows(
    "SELECT name, type, sql FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    [],
  );
  return tables.map(({ name, type, sql }) => ({
    name: name as string,
    type: type as string,
    sql: sql as string,
    columns: rows('SELECT name, type, "notnull", pk, dflt_value FROM pragma_table_xinfo(?) WHERE hidden <> 1', [
      name as string,
    ]).map((column) => ({
      name: column.name as string,
      type: column.type as string,
      notNull: column.notnull === 1n,
      primaryKey: column.pk !== 0n,
      default: column.dflt_value as string | null,
    })),
  }));
}

function read(statement: RowStatement, params: SqlParams, most: number): Rows {
  const columns = statement.columns().map((column) => column.name);
  const rows: SqlValue[][] = [];
  let bytes = 0;
  for (const row of statement.raw().iterate(bindIntegers(params)) as IterableIterator<SqlValue[]>) {
    if (rows.length === most) return { columns, rows, truncated: true };
    bytes += rowBytes(row as unknown as Row);
    if (bytes > LIMITS.readBytes) throw tooBig(`${LIMITS.readBytes} bytes`);
    rows.push(row.map((value) => (typeof value === 'bigint' ? numberIfSafe(value) : value)));
  }
  return { columns, rows, truncated: false };
}

/** For a write with RETURNING. */
function fromRows(rows: Row[]): Rows {
  const columns = Object.keys(rows[0] ?? {});
  const shown = rows.slice(0, LIMITS.sqlRows);
  return {
    columns,
    rows: shown.map((row) => columns.map((column) => row[column] as SqlValue)),
    truncated: shown.length < rows.length,
  };
}
