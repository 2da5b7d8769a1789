/** Splits `runtime.sqlite` of a gateway into the databases that a cluster has in its place, one for each bucket (specification, "Begin of a cluster"). */
import type Sqlite from 'better-sqlite3';
import { bucketOf, GATEWAY_BUCKET } from '../../protocol/buckets.ts';
import { openSqlite } from '../sqlite.ts';

type Owner = { key: string } | { of: string; by: string };

/**
 * Whose the rows of each table are: by an expression for the key of an app or draft, null for rows of no app, or with rows of a table
 * before it.
 */
const OWNERS: Readonly<Record<string, Owner>> = {
  runs: { key: 'app_id' },
  run_nodes: { of: 'runs', by: 'run_id' },
  automation_state: { key: 'app_id' },
  cron_fired: { key: 'app_id' },
  webhook_ids: { of: 'runs', by: 'run_id' },
  conversations: { key: 'app_id' },
  turns: { of: 'conversations', by: 'conversation_id' },
  items: { of: 'turns', by: 'turn_id' },
  attachments: { key: 'app_id' },
  turn_attachments: { of: 'turns', by: 'turn_id' },
  idempotency: { key: 'app' },
  notices: { key: "json_extract(notice, '$.app.id')" },
  // `<kind> <app>/<automation>`, or without a space for a failure of the gateway itself.
  told_failures: {
    key: "CASE WHEN instr(key, ' ') = 0 THEN NULL ELSE substr(key, instr(key, ' ') + 1, instr(substr(key, instr(key, ' ') + 1) || '/', '/') - 1) END",
  },
};

/** Tables whose rowids tell an order. */
const ORDERS: Readonly<Record<string, string>> = { items: 'ORDER BY rowid' };

/** Bytes of a database's header that say whether it has a write-ahead log. */
const MODE_AT = 18;
const WITH_LOG = 2;

/** Whose rows of no app are, among keys. */
const NOBODY = '';

/**
 * The databases one after the other, as bytes. Throws as SQLite does, and where the file has a table that nobody knows: its rows would be
 * lost.
 */
export function* runtimeByBucket(file: string): Generator<{ bucket: number; bytes: Buffer }> {
  const db = openSqlite(':memory:');
  try {
    db.prepare('ATTACH ? AS source').run(file);
    const tables = tablesOf(db);
    const schema = schemaOf(db);
    for (const [bucket, keys] of bucketsOf(db, tables)) yield { bucket, bytes: databaseOf(file, schema, tables, keys) };
  } finally {
    db.close();
  }
}

/** In the order of `OWNERS`: rows that others belong to come first. */
function tablesOf(db: Sqlite.Database): string[] {
  const rows = db.prepare<[], { name: string }>("SELECT name FROM source.sqlite_schema WHERE type = 'table'").all();
  const found = new Set(rows.map(({ name }) => name));
  const known = Object.keys(OWNERS).filter((name) => found.has(name));
  for (const name of known) found.delete(name);
  if (found.size > 0) throw new Error(`runtime.sqlite has tables of another release: ${[...found].join(', ')}.`);
  return known;
}

/** Tables first. */
function schemaOf(db: Sqlite.Database): string[] {
  const rows = db
    .prepare<[], { sql: string }>("SELECT sql FROM source.sqlite_schema WHERE sql IS NOT NULL ORDER BY type <> 'table'")
    .all();
  return rows.map(({ sql }) => sql);
}

function bucketsOf(db: Sqlite.Database, tables: readonly string[]): Map<number, string[]> {
  const keys = tables.flatMap((table) => {
    const owner = OWNERS[table];
    return owner !== undefined && 'key' in owner
      ? `SELECT ifnull(${owner.key}, '${NOBODY}') AS key FROM source.${table}`
      : [];
  });
  const buckets = new Map<number, string[]>();
  if (keys.length === 0) return buckets;
  for (const { key } of db.prepare<[], { key: string }>(keys.join(' UNION ')).all()) {
    const bucket = key === NOBODY ? GATEWAY_BUCKET : bucketOf(key);
    buckets.set(bucket, [...(buckets.get(bucket) ?? []), key]);
  }
  return buckets;
}

/** A database with the rows of these keys. */
function databaseOf(
  file: string,
  schema: readonly string[],
  tables: readonly string[],
  keys: readonly string[],
): Buffer {
  const db = openSqlite(':memory:');
  try {
    for (const statement of schema) db.exec(statement);
    db.prepare('ATTACH ? AS source').run(file);
    db.exec('CREATE TEMP TABLE wanted (key TEXT PRIMARY KEY) WITHOUT ROWID');
    const want = db.prepare('INSERT INTO wanted VALUES (?)');
    for (const key of keys) want.run(key);
    for (const table of tables)
      db.exec(
        `INSERT INTO main.${table} SELECT * FROM source.${table} WHERE ${isWanted(table)} ${ORDERS[table] ?? ''}`,
      );
    const bytes = db.serialize();
    bytes.fill(WITH_LOG, MODE_AT, MODE_AT + 2);
    return bytes;
  } finally {
    db.close();
  }
}

function isWanted(table: string): string {
  const owner = OWNERS[table] as Owner;
  if ('of' in owner) {
    const isOfWanted = `${owner.by} IN (SELECT ${owner.by} FROM main.${owner.of})`;
    // The run is deleted, and its message must still not count twice: whose it was is not known, and others do no harm.
    if (table === 'webhook_ids') return `${isOfWanted} OR run_id NOT IN (SELECT run_id FROM source.runs)`;
    return isOfWanted;
  }
  // A column, not an expression: it may have an index.
  const key = /^\w+$/.test(owner.key) ? owner.key : `ifnull(${owner.key}, '${NOBODY}')`;
  return `${key} IN (SELECT key FROM temp.wanted)`;
}
