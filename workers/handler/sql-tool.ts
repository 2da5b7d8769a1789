/** The built-in tool behind `svc sql`: one statement of the caller's own against the app's database. */

import { SvcError } from '../../protocol/errors.ts';
import type { Row, SqlParams, SqlValue } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import { bindIntegers, numberIfSafe, type RowStatement } from '../writer/rows.ts';
import { toParams } from './parameters.ts';
import type { Reader } from './reader.ts';

/** Rows as arrays, at most `LIMITS.sqlRows` of them; `truncated` when there were more. */
type Rows = { columns: string[]; rows: SqlValue[][]; truncated: boolean };
/** `tables` are those that it wrote, by its triggers and cascades too; null where that cannot be told. */
type Written = ({ changes: number; lastInsertRowid: number | bigint } | Rows) & { tables: string[] | null };

/** Runs `{ sql, params? }`; `status` is that of the result frame. What SQLite refuses is `BAD_REQUEST`, with SQLite's own words. */
export async function runSql(
  request: Record<string, unknown>,
  reader: Reader,
  writer: DbClient,
): Promise<{ status: number; value: Rows | Written }> {
  const { sql, params } = request;
  if (typeof sql !== 'string' || sql.trim() === '')
    throw new SvcError('BAD_REQUEST', 'The body needs a statement in "sql".');
  try {
    const bound = toParams(params === undefined || params === null ? [] : [params]);
    const statement = reader.prepare(sql) ?? (await createDatabase(reader, writer, sql));
    if (statement.readonly && statement.reader) return { status: 200, value: read(statement, bound) };
    const tables = writtenTables(reader, sql, bound);
    const value = statement.reader ? fromRows(await writer.all(sql, bound)) : await writer.run(sql, bound);
    return { status: 201, value: { ...value, tables } };
  } catch (error) {
    throw new SvcError('BAD_REQUEST', (error as Error).message, { cause: error });
  }
}

/** The writer makes the file with the first statement that it is given. */
async function createDatabase(reader: Reader, writer: DbClient, sql: string): Promise<RowStatement> {
  await writer.all('SELECT 1');
  const statement = reader.prepare(sql);
  if (statement === null) throw new SvcError('INTERNAL', 'The database of the app cannot be opened.');
  return statement;
}

/** Steps of a program that change what their operands do not name: the schema, a virtual table, the whole file. */
const UNNAMED = new Set(['VUpdate', 'SetCookie', 'ParseSchema', 'Destroy', 'Vacuum']);

type Step = { opcode: string; p1: bigint; p2: bigint };

/** What SQLite's own program for the statement opens to write (`EXPLAIN`). Throws nothing: what it cannot tell is null. */
function writtenTables(reader: Reader, sql: string, params: SqlParams): string[] | null {
  try {
    const rows = (text: string, bound: SqlParams): unknown[] => reader.prepare(text)?.all(bound) ?? [];
    const schema = rows('SELECT rootpage, tbl_name AS name FROM sqlite_schema WHERE rootpage > 0', []);
    const roots = new Map((schema as { rootpage: bigint; name: string }[]).map((one) => [one.rootpage, one.name]));
    const steps = rows(`EXPLAIN ${sql}`, bindIntegers(params)) as Step[];
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

/** What a write with RETURNING gave. */
function fromRows(rows: Row[]): Rows {
  const columns = Object.keys(rows[0] ?? {});
  const shown = rows.slice(0, LIMITS.sqlRows);
  return {
    columns,
    rows: shown.map((row) => columns.map((column) => row[column] as SqlValue)),
    truncated: shown.length < rows.length,
  };
}
