/** Reads and changes the tables of an app with SQL: what there is, pages of rows, cells. */
import type { Received } from '../../../protocol/routes/api.ts';
import { gateway } from '../../gateway.ts';

export type SqlAnswer = Received<'POST /svc/_apps/:id/sql'>;
export type SqlRows = Extract<SqlAnswer, { rows: unknown }>;
export type SqlChange = Extract<SqlAnswer, { changes: unknown }>;
/** Integers beyond 2^53 and blobs (base64) are text. */
export type Cell = SqlRows['rows'][number][number];

/** `key` are the columns that name a row: the hidden `_rowid_`, or the primary key of a table without it; null for a view. */
export type Table = { name: string; type: 'table' | 'view'; key: readonly string[] | null; columns: readonly Column[] };
export type Column = {
  name: string;
  /** As declared, in capitals; empty for none. */
  type: string;
  isRequired: boolean;
  /** The text of its default. */
  fallback: string | null;
  isGenerated: boolean;
  /** Its place in the primary key, from 1; 0 for none. */
  inKey: number;
};

export const OPERATORS = ['=', '≠', 'contains', '<', '>', 'is null', 'is not null'] as const;
export type Operator = (typeof OPERATORS)[number];
export type Filter = { column: string; operator: Operator; value: string };
export type View = { filters: readonly Filter[]; sort: string | null; isDescending: boolean };

/** Rows that one request of the grid reads. */
export const PAGE_ROWS = 100;

/** A row: its key, its cells in the order of the columns, and what SQLite stores each as. */
export type Row = { key: Cell[]; cells: Cell[]; types: string[] };

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** The statement decides which of the answers it gets. */
export const run = async <T extends SqlAnswer = SqlAnswer>(
  app: string,
  sql: string,
  params: unknown[] = [],
  signal?: AbortSignal,
  rows?: number,
): Promise<T> => {
  const sent = { params: { id: app }, body: { sql, params, rows } };
  return (await gateway.call('POST /svc/_apps/:id/sql', sent, { signal })) as T;
};

const query = (app: string, sql: string, params: unknown[] = [], signal?: AbortSignal): Promise<SqlRows> =>
  run<SqlRows>(app, sql, params, signal);

/** Up to `rows` of a statement that only reads; the gateway refuses one that writes. */
export const runForRows = (
  app: string,
  sql: string,
  rows: number,
  params: unknown[] = [],
  signal?: AbortSignal,
): Promise<SqlRows> => run<SqlRows>(app, sql, params, signal, rows);

/** Those of the app itself, by name; SQLite's own are left out. */
export async function readTables(app: string, signal: AbortSignal): Promise<{ name: string; type: Table['type'] }[]> {
  const { rows } = await query(
    app,
    `SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
     ORDER BY type, name`,
    [],
    signal,
  );
  return rows.map(([name, type]) => ({ name: String(name), type: type as Table['type'] }));
}

/** Its columns and its key; null when there is none of this name. */
export async function readTable(app: string, name: string, signal: AbortSignal): Promise<Table | null> {
  const [columns, table] = await Promise.all([
    query(
      app,
      'SELECT name, upper(type), "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)',
      [name],
      signal,
    ),
    query(app, "SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", [name], signal),
  ]);
  const [found] = table.rows;
  if (!found || columns.rows.length === 0) return null;
  const [type, isWithoutRowid] = found;
  const shown = columns.rows
    .filter(([, , , , , hidden]) => hidden !== 1)
    .map(([column, declared, notNull, fallback, inKey, hidden]) => ({
      name: String(column),
      type: String(declared ?? ''),
      isRequired: notNull === 1,
      fallback: fallback === null || fallback === undefined ? null : String(fallback),
      isGenerated: hidden !== 0,
      inKey: Number(inKey),
    }));
  const keyColumns = shown.filter(({ inKey }) => inKey > 0).sort((a, b) => a.inKey - b.inKey);
  const key = type !== 'table' ? null : isWithoutRowid ? keyColumns.map((column) => column.name) : ['_rowid_'];
  return { name, type: type === 'view' ? 'view' : 'table', key, columns: shown };
}

function whereOf({ filters }: View): { where: string; params: unknown[] } {
  const params: unknown[] = [];
  const terms = filters.map(({ column, operator, value }) => {
    const name = quoted(column);
    if (operator === 'is null') return `${name} IS NULL`;
    if (operator === 'is not null') return `${name} IS NOT NULL`;
    if (operator === 'contains') {
      params.push(value);
      return `instr(lower(CAST(${name} AS TEXT)), lower(?)) > 0`;
    }
    params.push(isNumber(value) ? Number(value) : value);
    return `${name} ${operator === '≠' ? 'IS NOT' : operator === '=' ? 'IS' : operator} ?`;
  });
  return { where: terms.length > 0 ? ` WHERE ${terms.join(' AND ')}` : '', params };
}

/** What a number is when people type one, and may be stored as one without a loss. */
const isNumber = (text: string): boolean =>
  /^-?(?:0|[1-9]\d{0,14})(?:\.\d+)?$/.test(text.trim()) && Number.isFinite(Number(text));

export async function countRows(app: string, table: Table, view: View, signal: AbortSignal): Promise<number> {
  const { where, params } = whereOf(view);
  const { rows } = await query(app, `SELECT count(*) FROM ${quoted(table.name)}${where}`, params, signal);
  return Number(rows[0]?.[0] ?? 0);
}

/** `limit` rows behind the first `offset`. Rows that are equal in what they are sorted by come in the order of their key. */
export async function readRows(
  app: string,
  table: Table,
  view: View,
  { offset, limit }: { offset: number; limit: number },
  signal?: AbortSignal,
): Promise<Row[]> {
  const { where, params } = whereOf(view);
  const names = table.columns.map(({ name }) => quoted(name));
  const key = (table.key ?? []).map(keyName);
  const types = `json_array(${names.map((name) => `typeof(${name})`).join(', ')})`;
  const way = view.isDescending ? ' DESC' : '';
  const order = [...(view.sort === null ? [] : [`${quoted(view.sort)}${way}`]), ...key.map((name) => `${name}${way}`)];
  const { rows } = await runForRows(
    app,
    `SELECT ${[types, ...key, ...names].join(', ')} FROM ${quoted(table.name)}${where}${
      order.length > 0 ? ` ORDER BY ${order.join(', ')}` : ''
    } LIMIT ${limit} OFFSET ${offset}`,
    limit,
    params,
    signal,
  );
  return rows.map(([types, ...values]) => ({
    types: JSON.parse(String(types)) as string[],
    key: values.slice(0, key.length),
    cells: values.slice(key.length),
  }));
}

/** `_rowid_` is no column: in quotes it would be a text. */
const keyName = (name: string): string => (name === '_rowid_' ? name : quoted(name));

/** Writes one cell unless it has changed since it was read; false then. `was` is what was shown. */
export async function writeCell(
  app: string,
  table: Table,
  row: Row,
  column: string,
  was: Cell,
  value: Cell,
): Promise<boolean> {
  const terms = (table.key ?? []).map((name) => `${keyName(name)} IS ?`).join(' AND ');
  const name = quoted(column);
  const { changes } = await run<SqlChange>(
    app,
    `UPDATE ${quoted(table.name)} SET ${name} = ? WHERE ${terms} AND ${name} IS ?`,
    [value, ...row.key, was],
  );
  return changes > 0;
}

/** Adds a row with the values that are given; the others get their defaults. */
export function addRow(app: string, table: Table, values: ReadonlyMap<string, Cell>): Promise<SqlChange> {
  const names = [...values.keys()].map(quoted);
  const what =
    names.length > 0 ? `(${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})` : 'DEFAULT VALUES';
  return run<SqlChange>(app, `INSERT INTO ${quoted(table.name)} ${what}`, [...values.values()]);
}

/** Answers how many rows are gone. */
export async function deleteRows(app: string, table: Table, rows: readonly Row[]): Promise<number> {
  const terms = (table.key ?? []).map((name) => `${keyName(name)} IS ?`).join(' AND ');
  const any = rows.map(() => `(${terms})`).join(' OR ');
  const params = rows.flatMap(({ key }) => key);
  return (await run<SqlChange>(app, `DELETE FROM ${quoted(table.name)} WHERE ${any}`, params)).changes;
}

/** What was typed, as a column of this declared type stores it. */
export function cellOf(text: string, { type }: Pick<Column, 'type'>): Cell {
  const isText = /CHAR|CLOB|TEXT/.test(type);
  return !isText && isNumber(text) ? Number(text) : text;
}
