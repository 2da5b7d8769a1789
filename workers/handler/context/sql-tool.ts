/**
 * Runs the built-in tools behind `svc sql` and `svc_sql_*`: lists the tables of an app's database, and runs one statement of
 * the caller.
 */
import { DATA_LOST, isDamage, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import type { Row, SqlParams, SqlValue } from '../../../protocol/wire/frames.ts';
import { bindIntegers, numberIfSafe, type RowStatement } from '../../writer/statements.ts';
import type { Reader } from './reader.ts';
import { toParams } from './sql-params.ts';

/** Rows as arrays, at most `LIMITS.sqlRows` of them; `truncated` when there were more. */
type Rows = { columns: string[]; rows: SqlValue[][]; truncated: boolean };
/** `tables` are those that it wrote, also by triggers and cascades; null when that is not known. */
type Written = ({ changes: number; lastInsertRowid: number | bigint } | Rows) & { tables: string[] | null };

type Column = { name: string; type: string; notNull: boolean; primaryKey: boolean; default: string | null };
type Table = { name: string; type: string; sql: string; columns: Column[] };

/**
 * Runs `{ sql, params?, mode? }`; `status` is that of the result frame. With `mode` "read" it runs only statements that read,
 * with "write" only those that change rows, as decided by SQLite itself; "describe" takes no statement. A refusal of SQLite is
 * `BAD_REQUEST`, with SQLite's message. What is wrong with the file is thrown as it is.
 */
export async function runSql(
  request: Record<string, unknown>,
  reader: Reader,
  writer: DbClient,
): Promise<{ status: number; value: Rows | Written | { tables: Table[] } }> {
  const { sql, params, mode } = request;
  if (mode === 'describe') return { status: 200, value: { tables: tablesOf(reader) } };
  if (typeof sql !== 'string' || sql.trim() === '')
    throw new SvcError('BAD_REQUEST', 'The body needs a statement in "sql".');
  try {
    const bound = toParams(params === undefined || params === null ? [] : [params]);
    const statement = reader.prepare(sql) ?? (await createDatabase(reader, writer, sql));
    if (mode === 'read' && !statement.readonly) throw new Error('This statement writes; svc_sql_read only reads.');
    if (mode === 'write') checkChangesRows(reader, statement, sql, bound);
    if (statement.readonly && statement.reader) return { status: 200, value: read(statement, bound) };
    const tables = writtenTables(reader, sql, bound);
    const value = statement.reader ? fromRows(await writer.all(sql, bound)) : await writer.run(sql, bound);
    return { status: 201, value: { ...value, tables } };
  } catch (error) {
    if (isDamage(error) || (error as { code?: unknown }).code === DATA_LOST) throw error;
    throw new SvcError('BAD_REQUEST', (error as Error).message, { cause: error });
  }
}

/** The writer makes the file for its first statement. */
async function createDatabase(reader: Reader, writer: DbClient, sql: string): Promise<RowStatement> {
  await writer.all('SELECT 1');
  const statement = reader.prepare(sql);
  if (statement === null) throw new SvcError('INTERNAL', 'The database of the app cannot be opened.');
  return statement;
}

/** Steps of a program that change the schema or the whole file. */
const STRUCTURAL = ['SetCookie', 'ParseSchema', 'Destroy', 'Vacuum', 'JournalMode'];
/** Steps that change something without naming it in an operand: those, and changes of virtual tables. */
const UNNAMED = new Set(['VUpdate', ...STRUCTURAL]);
/** Steps that change rows. */
const ROWS = new Set(['OpenWrite', 'Clear', 'VUpdate']);

type Step = { opcode: string; p1: bigint; p2: bigint };

/** Throws unless SQLite's own program for the statement changes rows only. */
function checkChangesRows(reader: Reader, statement: RowStatement, sql: string, params: SqlParams): void {
  const steps = statement.readonly ? [] : programOf(reader, sql, params);
  const isStructural = steps.some(({ opcode }) => STRUCTURAL.includes(opcode));
  if (isStructural || !steps.some(({ opcode }) => ROWS.has(opcode)))
    throw new Error('svc_sql_write runs one INSERT, UPDATE, DELETE or REPLACE; tables are changed by migrations.');
}

/** The tables and views that an app made, with their columns; none before its first migration. */
function tablesOf(reader: Reader): Table[] {
  const rows = (sql: string, params: SqlParams) =>
    (reader.prepare(sql)?.all(params) ?? []) as Record<string, SqlValue>[];
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

function programOf(reader: Reader, sql: string, params: SqlParams): Step[] {
  return (reader.prepare(`EXPLAIN ${sql}`)?.all(bindIntegers(params)) ?? []) as Step[];
}

/** The tables that SQLite's program for the statement (`EXPLAIN`) opens for writing; null when unknown. Never throws. */
function writtenTables(reader: Reader, sql: string, params: SqlParams): string[] | null {
  try {
    const schema = reader.prepare('SELECT rootpage, tbl_name AS name FROM sqlite_schema WHERE rootpage > 0')?.all([]);
    const roots = new Map((schema as { rootpage: bigint; name: string }[]).map((one) => [one.rootpage, one.name]));
    const steps = programOf(reader, sql, params);
    if (steps.some(({ opcode }) => UNNAMED.has(opcode))) return null;
    const written = steps.flatMap(({ opcode, p1, p2 }) =>
      opcode === 'OpenWrite' ? [p2] : opcode === 'Clear' ? [p1] : [],
    );
    const tables = written.map((root) => roots.get(root));
    const named = [...new Set(tables)].filter((name) => name !== undefined);
    return named.length === 0 || tables.includes(undefined) ? null : named;
  } catch {
    return null;
  }
}

function read(statement: RowStatement, params: SqlParams): Rows {
  const columns = statement.columns().map((column) => column.name);
  const rows: SqlValue[][] = [];
  for (const row of statement.raw().iterate(bindIntegers(params)) as IterableIterator<SqlValue[]>) {
    if (rows.length === LIMITS.sqlRows) return { columns, rows, truncated: true };
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
