/** Adds the columns to a table of the gateway's own that earlier releases did not have. */
import type { DbClient } from '../protocol/wire/db-client.ts';

/** `columns` are definitions, as in `CREATE TABLE`. Those that are there stay, so that it may be repeated. */
export async function addColumns(
  db: Pick<DbClient, 'all' | 'exec'>,
  table: string,
  columns: readonly string[],
): Promise<void> {
  const known = (await db.all(`SELECT name FROM pragma_table_info('${table}')`)).map(({ name }) => name);
  const missing = columns.filter((column) => !known.includes(column.split(' ', 1)[0] as string));
  if (missing.length > 0)
    await db.exec(missing.map((column) => `ALTER TABLE ${table} ADD COLUMN ${column};`).join('\n'));
}
