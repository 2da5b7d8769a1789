import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type Sqlite from 'better-sqlite3';
import { openSqlite } from '../../storage/sqlite.ts';
import { programOf } from './programs.ts';

function open(schema: string): Sqlite.Database {
  const db = openSqlite(':memory:');
  db.pragma('foreign_keys = ON');
  db.exec(schema);
  return db;
}

const db = open(`
  CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT);
  CREATE TABLE item (id INTEGER PRIMARY KEY, list REFERENCES list ON DELETE CASCADE, text TEXT, at TEXT DEFAULT CURRENT_TIMESTAMP);
  CREATE INDEX item_text ON item (text);
  CREATE TABLE tag (item REFERENCES item ON DELETE SET NULL, name) ;
  CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, what);
  CREATE TRIGGER list_changed AFTER UPDATE ON list BEGIN INSERT INTO audit (what) VALUES (new.name); END;
  CREATE VIEW named AS SELECT l.name, i.text FROM list l JOIN item i ON i.list = l.id;
  CREATE VIEW schema_of AS SELECT * FROM pragma_table_info('list');
  CREATE VIRTUAL TABLE search USING fts5 (text);
  CREATE TABLE alone (v);
`);
const ALL = (db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all() as string[]).sort();

const of = (sql: string) => {
  const { reads, writes, isDeterministic } = programOf((text) => db.prepare(text), sql);
  return { reads: reads && [...reads].sort(), writes: writes && [...writes].sort(), isDeterministic };
};

const deterministicReads: [sql: string, tables: string[]][] = [
  ['SELECT * FROM list WHERE id = ?', ['list']],
  ['SELECT * FROM list WHERE id = @id AND name = :name', ['list']],
  [`SELECT * FROM list WHERE id IN (${'?, '.repeat(300)}?) AND name = @name`, ['list']],
  ['SELECT ?7, id FROM list', ['list']],
  ['SELECT count(*) FROM item', ['item']],
  ['SELECT text FROM item ORDER BY text', ['item']],
  ['SELECT * FROM named', ['item', 'list']],
  ['WITH a AS (SELECT * FROM list) SELECT upper(name), json_object(1, 2) FROM a', ['list']],
  ['SELECT (SELECT max(id) FROM item), name FROM list WHERE name LIKE ?', ['item', 'list']],
  ['-- why\n SELECT 1', []],
  ['VALUES (1), (2)', []],
  ['SELECT name FROM list UNION SELECT name FROM tag', ['list', 'tag']],
  ['SELECT row_number() OVER (ORDER BY id), group_concat(name) OVER (ORDER BY id) FROM list', ['list']],
  ["SELECT text ->> '$.a' FROM item", ['item']],
  ['SELECT * FROM item WHERE id IN (SELECT value FROM json_each(?))', ALL],
  ["SELECT * FROM search WHERE search MATCH 'a' ORDER BY bm25(search)", ALL],
];
for (const [sql, tables] of deterministicReads) {
  test(`the tables of: ${sql}`, () => {
    // A view over pragma_table_info may be behind any virtual table.
    assert.deepEqual(of(sql), { reads: tables, writes: [], isDeterministic: tables !== ALL });
  });
}

for (const sql of [
  'SELECT random()',
  "SELECT datetime('now')",
  'SELECT date(at) FROM item',
  'SELECT CURRENT_TIMESTAMP',
  'SELECT last_insert_rowid()',
  'SELECT changes(), total_changes() FROM list',
  'SELECT hex(randomblob(4)) FROM list ORDER BY id',
  'SELECT * FROM list ORDER BY random()',
  "SELECT * FROM pragma_table_info('list')",
  'SELECT * FROM schema_of',
  'PRAGMA table_info(list)',
  'PRAGMA data_version',
  'EXPLAIN SELECT 1',
  'SELECT nothing FROM nowhere',
]) {
  test(`not the same with the same data: ${sql}`, () => assert.equal(of(sql).isDeterministic, false));
}

const writes: [sql: string, tables: string[] | null][] = [
  ["INSERT INTO alone VALUES ('a')", ['alone']],
  ['DELETE FROM alone', ['alone']],
  ['UPDATE list SET name = 1', ['audit', 'list', 'sqlite_sequence']],
  ['DELETE FROM list WHERE id = 1', ['item', 'list', 'tag']],
  ['DELETE FROM list', ['item', 'list', 'tag']],
  ['REPLACE INTO list (id) VALUES (1)', ['item', 'list', 'tag']],
  ['INSERT INTO alone SELECT name FROM tag RETURNING *', ['alone']],
  ["INSERT INTO search VALUES ('a')", ALL],
  ['CREATE TABLE more (v)', null],
  ['ALTER TABLE alone ADD COLUMN w', null],
  ['DROP INDEX item_text', null],
  ['ANALYZE', null],
];
for (const [sql, tables] of writes) {
  test(`what is written by: ${sql}`, () => {
    const found = of(sql).writes;
    if (tables === null) assert.equal(found, null);
    else for (const table of tables) assert.ok(found?.includes(table), `${table}: ${found}`);
    if (tables !== null && tables !== ALL) assert.deepEqual(found, tables);
  });
}

test('a virtual table is deterministic unless a view shows the schema', () => {
  const plain = open('CREATE TABLE a (v); CREATE VIRTUAL TABLE search USING fts5 (text)');
  for (const sql of ['SELECT value FROM json_each(?)', "SELECT text FROM search WHERE search MATCH 'a'"])
    assert.equal(programOf((text) => plain.prepare(text), sql).isDeterministic, true);
});

test('a schema that another connection changed is seen', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'programs-'));
  const file = join(folder, 'data.sqlite');
  const writer = openSqlite(file);
  const reader = openSqlite(file);
  t.after(() => {
    writer.close();
    reader.close();
    rmSync(folder, { recursive: true });
  });
  writer.exec('CREATE TABLE a (v); CREATE TABLE b (v); CREATE VIEW shown AS SELECT * FROM a');
  const read = () => programOf((text) => reader.prepare(text), 'SELECT * FROM shown').reads;
  assert.deepEqual(read(), ['a']);
  writer.exec('DROP VIEW shown; CREATE VIEW shown AS SELECT * FROM b');
  assert.deepEqual(read(), ['b']);
});
