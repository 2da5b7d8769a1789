import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { DbClient } from '../../protocol/wire/db-client.ts';
import { openLink } from '../../protocol/wire/link.ts';
import { WriterProcess } from '../../testing/writer-process.ts';
import { ReadOnlyDatabase, runSql } from './sql-tool.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-sql-'));
const writing = new WriterProcess(folder);
let client: DbClient;

before(async () => {
  await writing.start();
  client = new DbClient((handlers, connectionId) =>
    openLink(writing.socket, writing.ticketFor('app'), handlers, connectionId),
  );
  await run('create table t (id integer primary key, s text)');
  await run("insert into t (s) values ('one')");
});
after(async () => {
  client.end();
  await writing.end();
  rmSync(folder, { recursive: true, force: true });
});

async function answer(
  request: Record<string, unknown>,
  writer: DbClient | null = client,
  { name = 'app', migrated = false } = {},
) {
  const database = new ReadOnlyDatabase(join(folder, `${name}.sqlite`), migrated);
  try {
    return await runSql(request, database, writer);
  } finally {
    database.close();
  }
}

async function run(sql: string, params?: unknown) {
  return (await answer({ sql, params })).value;
}

async function failure(sql: string, writer: DbClient | null = client): Promise<SvcError> {
  const failed = await answer({ sql }, writer).catch((error: SvcError) => error);
  assert.ok('code' in failed, `${sql} did not fail`);
  return failed;
}

test('the sql tool: rows, writes, limits and refusals', async () => {
  assert.deepEqual(await run('select id, s from t where id = ?', [1]), {
    columns: ['id', 's'],
    rows: [[1, 'one']],
    truncated: false,
  });
  assert.deepEqual(await run('select id from t where s = :s', { s: 'none' }), {
    columns: ['id'],
    rows: [],
    truncated: false,
  });
  assert.deepEqual(await run("insert into t(s) values ('two')"), {
    changes: 1,
    lastInsertRowid: 2,
    tables: ['t'],
  });
  assert.deepEqual(await run("insert into t(s) values ('x') returning id, s"), {
    columns: ['id', 's'],
    rows: [[3, 'x']],
    truncated: false,
    tables: ['t'],
  });
  const endless = 'with n(v) as (select 1 union all select v + 1 from n) select v from n';
  const { rows, truncated } = (await run(endless)) as { rows: unknown[]; truncated: boolean };
  assert.deepEqual([rows.length, truncated], [200, true]);
  const asked = (await answer({ sql: endless, rows: LIMITS.sqlRowsMax })).value as {
    rows: unknown[];
    truncated: boolean;
  };
  assert.deepEqual([asked.rows.length, asked.truncated], [LIMITS.sqlRowsMax, true]);
  for (const rows of [0, 1.5, LIMITS.sqlRowsMax + 1, '7'])
    await assert.rejects(answer({ sql: 'select 1', rows }), { code: 'BAD_REQUEST', path: 'rows' });
  await assert.rejects(answer({ sql: "insert into t(s) values ('y') returning id", rows: 500 }), /only read/);
  for (const [sql, message] of [
    ['selec 1', /syntax error/],
    ['select 1; select 2', /more than one statement/],
    ["attach 'x' as y", /ATTACH is refused/],
    ['', /needs a statement/],
    ['insert into t(id) values (1)', /UNIQUE constraint failed/],
    [endless.replace('select v from', 'select zeroblob(1000000) from'), /over the limit of 67108864 bytes/],
  ] as const) {
    const error = await failure(sql);
    assert.equal(error.code, 'BAD_REQUEST');
    assert.match(error.message, message);
  }
});

test('what a view needs too much for is an error of the caller, in the list of tables too', async () => {
  const views = (client: DbClient | null, request: object) => answer({ ...request }, client, { name: 'views' });
  const own = new DbClient((handlers, connectionId) =>
    openLink(writing.socket, writing.ticketFor('views'), handlers, connectionId),
  );
  try {
    await own.exec(
      [
        'CREATE VIEW v0 AS SELECT 1 x',
        ...Array.from({ length: 17 }, (_, i) => `CREATE VIEW v${i + 1} AS SELECT a.x FROM v${i} a, v${i} b`),
      ].join(';'),
    );
  } finally {
    own.end();
  }
  for (const request of [{ sql: 'SELECT * FROM v17' }, { mode: 'describe', sql: 'SELECT 1' }])
    await assert.rejects(views(null, request), { code: 'BAD_REQUEST', message: /too many references/ });
});

test('a statement that would write is only found to, without a writer', async () => {
  for (const sql of ['delete from t', 'create table u (a)', "insert into t(s) values ('y') returning id"])
    assert.deepEqual(await answer({ sql }, null), { status: 202, value: null });
  assert.equal((await failure('delete from missing', null)).code, 'BAD_REQUEST');
  assert.deepEqual(await run('select count(*) from t'), { columns: ['count(*)'], rows: [[3]], truncated: false });
});

test('an app without a database reads from an empty one', async () => {
  const read = async (request: Record<string, unknown>) => await answer(request, null, { name: 'fresh' });
  assert.deepEqual(await read({ sql: 'select 1 a' }), {
    status: 200,
    value: { columns: ['a'], rows: [[1]], truncated: false },
  });
  assert.deepEqual(await read({ mode: 'describe' }), { status: 200, value: { tables: [] } });
  assert.equal((await read({ sql: 'create table t (a)' })).status, 202);
  await assert.rejects(read({ sql: 'select fts3_tokenizer(?, ?)', params: ['simple', 'x'] }), /is refused/);
});

test('a database that is lost or damaged is told as it is, and none is made in its place', async () => {
  const file = join(folder, 'lost.sqlite');
  const said = async (expected: object) =>
    await assert.rejects(answer({ sql: 'SELECT 1 FROM t' }, null, { name: 'lost', migrated: true }), expected);
  await said({ code: 'DATA_LOST', message: 'is missing' });
  assert.ok(!existsSync(file));
  writeFileSync(file, '');
  writeFileSync(`${file}-wal`, 'frames');
  await said({ code: 'DATA_LOST', message: 'is empty' });
  assert.equal(readFileSync(`${file}-wal`, 'utf8'), 'frames', 'SQLite would have deleted it');
  writeFileSync(file, 'this is no database, but it is long enough to be looked at as one'.repeat(20));
  await said({ code: 'SQLITE_NOTADB' });
});

test('the sql tool names the tables that a statement wrote, by triggers and cascades too', async () => {
  for (const sql of [
    'create table parent (id integer primary key)',
    'create table child (id integer primary key, of references parent (id) on delete cascade)',
    'create index children on child (of)',
    'create table notes (text primary key) without rowid',
    "create trigger noted after delete on child begin insert into notes values ('gone'); end",
    'create virtual table words using fts5 (word)',
  ])
    await run(sql);
  for (const [sql, tables] of [
    ['insert into parent values (1)', ['parent']],
    ['insert into child values (1, ?)', ['child']],
    ['delete from parent', ['parent', 'child', 'notes']],
    ['update notes set text = 1 where 0', ['notes']],
    ['delete from notes', ['notes']],
    ["insert into words values ('a')", null],
    ['drop table notes', null],
  ] as const) {
    const value = (await run(sql, sql.includes('?') ? [1] : undefined)) as { tables: unknown };
    assert.deepEqual(value.tables, tables, sql);
  }
});

test('a write whose writer ends may be stored, and the answer says so; reads go on', async () => {
  const endless = 'insert into t(s) with n(v) as (select 1 union all select v + 1 from n) select count(*) from n';
  const failed = failure(endless);
  // The statement has left for the writer.
  await new Promise((resolve) => setImmediate(resolve));
  await writing.kill();
  assert.deepEqual(await run('select s from t where id = 1'), { columns: ['s'], rows: [['one']], truncated: false });
  await writing.start();
  const { code, status, message } = await failed;
  assert.deepEqual([code, status], ['OUTCOME_UNKNOWN', 500]);
  assert.match(message, /It may be stored or not/);
});
