/** Finds what in an app names its files: rows of its tables, and the tools that work with those tables. A file has no name of its own. */
import type { Manifest } from '../../../protocol/manifest.ts';
import { hrefOf } from '../../address.ts';
import { usePolled } from '../../polled.ts';
import { type Cell, quoted, run, type SqlRows } from '../data/tables.ts';

/**
 * A row that names a file in one of its columns, alone or within a longer text. `key` is its rowid, null in a table without one; `name`
 * is what the row calls the file, if it has a column for that.
 */
export type Use = { table: string; column: string; isWithin: boolean; key: Cell; name: string | null };
/** By the SHA-256 of the file. */
export type Uses = ReadonlyMap<string, readonly Use[]>;

type Table = { name: string; columns: readonly string[]; hasRowid: boolean };

/** What rows call a file, the best first. */
const NAMES = [/^(?:original_?|file_?)?name$/i, /^title$/i, /^(?:label|caption|subject|description)$/i];
const MOST_TABLES = 50;
/** Rows of a table that are read. */
const MOST_ROWS = 200;

/** The tables of an app, with those of their columns that may hold texts. */
async function tablesOf(app: string, signal?: AbortSignal): Promise<Table[]> {
  const { rows } = await run<SqlRows>(
    app,
    `SELECT t.name, t.wr, json_group_array(c.name) FROM pragma_table_list t JOIN pragma_table_xinfo(t.name) c
     WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite~_%' ESCAPE '~' AND c.hidden <> 1
       AND upper(c.type) NOT GLOB '*INT*' AND upper(c.type) NOT IN ('REAL', 'BLOB', 'NUMERIC', 'BOOLEAN')
     GROUP BY t.name LIMIT ${MOST_TABLES}`,
    [],
    signal,
  );
  return rows.map(([name, wr, columns]) => ({
    name: String(name),
    columns: JSON.parse(String(columns)) as string[],
    hasRowid: wr === 0,
  }));
}

/** As SQL: what a row calls its file; null where it does not. */
function nameOf({ columns }: Table): string {
  const found = NAMES.flatMap((pattern) => columns.filter((column) => pattern.test(column)));
  return found.length === 0
    ? 'NULL'
    : `coalesce(${found.map((column) => `nullif(CAST(${quoted(column)} AS TEXT), '')`).join(', ')}, NULL)`;
}

/** The rows whose columns are one of these; with `isWithin` the rows that have the only one of them within a longer text too. */
async function usesIn(
  app: string,
  table: Table,
  files: readonly string[],
  isWithin: boolean,
  signal?: AbortSignal,
): Promise<[sha256: string, use: Use][]> {
  const { name, hasRowid, columns } = table;
  const parts = columns.map((column, at) => {
    const own = quoted(column);
    const one = '(SELECT file FROM sought)';
    const [where, sha256] = isWithin ? [`instr(${own}, ${one}) > 0`, one] : [`${own} IN sought`, own];
    return `SELECT ${at}, ${sha256}, ${own} <> ${sha256}, ${hasRowid ? '_rowid_' : 'NULL'}, ${nameOf(table)}
      FROM ${quoted(name)} WHERE ${where}`;
  });
  const sql = `WITH sought(file) AS (SELECT value FROM json_each(?))
    SELECT * FROM (${parts.join(' UNION ALL ')}) LIMIT ${MOST_ROWS}`;
  const { rows } = await run<SqlRows>(app, sql, [JSON.stringify(files)], signal);
  return rows.map(([at, sha256, longer, key = null, called]) => [
    String(sha256),
    {
      table: name,
      column: columns[Number(at)] ?? '',
      isWithin: longer === 1,
      key,
      name: called === null || called === undefined ? null : String(called),
    },
  ]);
}

/** Where each of these files is named. With `isWithin`, for a single one, also in longer texts, which takes a look at every row. */
export async function usesOf(
  app: string,
  files: readonly string[],
  { isWithin = false, signal }: { isWithin?: boolean; signal?: AbortSignal } = {},
): Promise<Uses> {
  const uses = new Map<string, Use[]>();
  if (files.length === 0) return uses;
  for (const table of await tablesOf(app, signal)) {
    for (const [sha256, use] of await usesIn(app, table, files, isWithin, signal)) {
      const known = uses.get(sha256) ?? [];
      // A row may name it twice.
      const isKnown = known.some(({ table: other, key }) => key !== null && key === use.key && other === use.table);
      if (!isKnown) uses.set(sha256, [...known, use]);
    }
  }
  return uses;
}

/** Undefined until they were read, and where they cannot be. */
export function useUses(app: string, files: readonly string[], { isWithin = false } = {}): Uses | undefined {
  const load = (signal: AbortSignal) => usesOf(app, files, { isWithin, signal });
  return usePolled(load, `${app} ${isWithin} ${files.join()}`, 0).value;
}

/** The row, in the view of its table. */
export const rowHref = (app: string, sha256: string, { table, column, isWithin }: Use): string =>
  hrefOf(['apps', app, 'data'], { table, where: `${column}~${isWithin ? 'contains' : '='}~${sha256}` });

export const rowText = ({ table, key }: Use): string => (key === null ? table : `${table} ${key}`);

/** The queries and actions that say that they work with these tables. */
export function toolsOf(
  { queries, actions }: Pick<Manifest, 'queries' | 'actions'>,
  uses: readonly Use[],
): { kind: 'query' | 'action'; name: string }[] {
  const tables = new Set(uses.map(({ table }) => table));
  const isOne = (list: readonly string[] = []) => list.some((table) => tables.has(table));
  return [
    ...queries.filter(({ reads }) => isOne(reads)).map(({ name }) => ({ kind: 'query' as const, name })),
    ...actions.filter(({ writes }) => isOne(writes)).map(({ name }) => ({ kind: 'action' as const, name })),
  ];
}
