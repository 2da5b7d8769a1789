import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { LIMIT_MS } from '../../testing/waiting.ts';
import { Database } from '../cluster/database.ts';
import { prepareTables } from '../cluster/tables.ts';
import { openSqlite } from '../sqlite.ts';
import { markCopy, storeBytes, storeFile } from './first-snapshot.ts';
import { openCopy } from './local-copy.ts';

test('a database that a killed process left is fetched as it was, with what its write-ahead log has, and kept where it is', {
  skip: whyNoPostgres() ?? false,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [live, left, other] = ['live', 'left', 'other'].map((name) => join(folder, `${name}.sqlite`)) as [
    string,
    string,
    string,
  ];
  const db = openSqlite(live);
  t.after(() => db.close());
  db.pragma('journal_mode = WAL');
  db.pragma('wal_autocheckpoint = 0');
  db.exec('CREATE TABLE notes (text TEXT)');
  const insert = db.prepare(
    'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO notes SELECT hex(randomblob(2000)) FROM n',
  );
  insert.run(600);
  db.pragma('wal_checkpoint(PASSIVE)');
  db.exec("UPDATE notes SET text = 'changed' WHERE rowid % 100 = 7");
  insert.run(50);
  for (const ending of ['', '-wal']) copyFileSync(live + ending, left + ending);
  const files = () => ['', '-wal'].map((ending) => readFileSync(left + ending));
  const was = files();

  const cluster = new Database([await database()], { answerMs: LIMIT_MS });
  t.after(() => cluster.close());
  await prepareTables(cluster);
  const mark = await cluster.transaction((session) => storeFile(session, 'notes', left));
  assert.ok(mark !== null);
  assert.equal((await openCopy(cluster, 'notes', other)).how, 'fetched');
  const rows = (file: string) => {
    const one = openSqlite(file);
    try {
      assert.equal(one.pragma('integrity_check', { simple: true }), 'ok');
      return one.prepare('SELECT text FROM notes').pluck().all();
    } finally {
      one.close();
    }
  };
  assert.deepEqual(rows(other), db.prepare('SELECT text FROM notes').pluck().all());
  markCopy(left, mark);
  assert.equal((await openCopy(cluster, 'notes', left)).how, 'kept');
  assert.deepEqual(files(), was);
});

test('a database with the longest pages that SQLite has is fetched as it was', {
  skip: whyNoPostgres() ?? false,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [own, fetched] = ['own', 'fetched'].map((name) => join(folder, `${name}.sqlite`)) as [string, string];
  const db = openSqlite(own);
  db.pragma('page_size = 65536');
  db.exec('CREATE TABLE notes (text TEXT)');
  db.exec(
    'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO notes SELECT hex(randomblob(32000)) FROM n',
  );
  db.close();
  const bytes = readFileSync(own);
  const cluster = new Database([await database()], { answerMs: LIMIT_MS });
  t.after(() => cluster.close());
  await prepareTables(cluster);
  await cluster.transaction((session) => storeBytes(session, 'notes', bytes));
  assert.equal((await openCopy(cluster, 'notes', fetched)).how, 'fetched');
  assert.ok(readFileSync(fetched).equals(bytes));
});
