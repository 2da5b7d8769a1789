import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import type { MigrationFile } from '../../protocol/wire/frames.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { onDiskSteps } from '../../testing/disk-steps.ts';
import { migrate } from './maintenance.ts';

let directory: string;
let file: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'migrate-'));
  file = join(directory, 'data.sqlite');
});
afterEach(() => rmSync(directory, { recursive: true }));

function migrations(...texts: string[]): MigrationFile[] {
  return texts.map((text, i) => {
    const name = `000${i + 1}_step.sql`;
    const path = join(directory, name);
    writeFileSync(path, text);
    return { name, path };
  });
}

function read(path: string, sql: string): unknown {
  const db = openSqlite(path, { readonly: true });
  try {
    return db.prepare(sql).pluck().get();
  } finally {
    db.close();
  }
}

const CREATE = 'CREATE TABLE t (v); INSERT INTO t VALUES (1);';
const ADD = 'ALTER TABLE t ADD COLUMN w;';

test('pending files are applied in order, once', async () => {
  assert.deepEqual(await migrate(file, migrations(CREATE), null), [1]);
  assert.deepEqual(await migrate(file, migrations(CREATE, ADD, 'INSERT INTO t VALUES (2, 3);'), null), [2, 3]);
  assert.deepEqual(await migrate(file, migrations(CREATE, ADD, 'INSERT INTO t VALUES (2, 3);'), null), []);
  assert.equal(read(file, 'PRAGMA user_version'), 3);
  assert.equal(read(file, 'SELECT count(*) FROM t'), 2);
});

test('commits found in the log are flushed, with or without readers', async () => {
  const writing = openSqlite(file);
  writing.pragma('journal_mode = WAL');
  writing.exec(`${CREATE} PRAGMA user_version = 1`);
  assert.ok(statSync(`${file}-wal`).size > 0, 'there is something in the log');
  assert.deepEqual(await migrate(file, migrations(CREATE), null), []);
  copyFileSync(file, join(directory, 'alone.sqlite'));
  assert.equal(read(join(directory, 'alone.sqlite'), 'PRAGMA user_version'), 1, 'it is in the file');
  writing.exec('BEGIN; SELECT * FROM t');
  writing.prepare('SELECT * FROM t').all();
  const other = openSqlite(file);
  other.exec('INSERT INTO t VALUES (2)');
  const pages = () => (other.pragma('wal_checkpoint(NOOP)') as { log: number }[])[0]?.log ?? 0;
  const before = pages();
  assert.deepEqual(await migrate(file, migrations(CREATE), null), []);
  assert.ok(pages() > before, 'a commit came behind it');
  other.close();
  writing.close();
  assert.equal(read(file, 'PRAGMA user_version'), 1);
});

test('the next backup removes what an interrupted one left', async () => {
  await migrate(file, migrations(CREATE), null);
  const backups = join(directory, 'backups');
  mkdirSync(backups);
  writeFileSync(join(backups, '1.sqlite.tmp'), 'half');
  await migrate(file, migrations(CREATE, ADD), join(backups, '2.sqlite'));
  assert.deepEqual(readdirSync(backups), ['2.sqlite']);
});

const FAILURES: [name: string, texts: string[], path: string, message: RegExp][] = [
  ['SQL that fails', [ADD, 'INSERT INTO nowhere VALUES (1)'], 'migrations/0003_step.sql', /no such table: nowhere/],
  [
    'a file that ends the transaction',
    ['COMMIT; CREATE TABLE u (v)'],
    'migrations/0002_step.sql',
    /ended the transaction/,
  ],
  [
    'rows that refer to nothing afterwards',
    ['CREATE TABLE c (t REFERENCES t (v)); INSERT INTO c VALUES (99); CREATE UNIQUE INDEX i ON t (v);'],
    'migrations/0002_step.sql',
    /row of "c" refers to a row of "t"/,
  ],
];
for (const [name, texts, path, message] of FAILURES) {
  test(`rolled back as a whole: ${name}`, async () => {
    await migrate(file, migrations(CREATE), null);
    await assert.rejects(migrate(file, migrations(CREATE, ...texts), null), {
      code: 'MIGRATION_FAILED',
      path,
      message,
    });
    assert.equal(read(file, 'PRAGMA user_version'), 1);
    assert.equal(read(file, "SELECT count(*) FROM pragma_table_info('t')"), 1);
  });
}

test('a file that is gone is named without its folder', async () => {
  const gone = { name: '0001_step.sql', path: join(directory, '0001_step.sql') };
  await assert.rejects(migrate(file, [gone], null), (error: Error) => {
    assert.equal((error as Error & { code: string }).code, 'MIGRATION_FAILED');
    return !error.message.includes(directory);
  });
});

test('rebuilding a table that others refer to keeps their rows', async () => {
  const parent = 'CREATE TABLE p (id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1);';
  const child = 'CREATE TABLE c (p REFERENCES p ON DELETE CASCADE); INSERT INTO c VALUES (1);';
  const rebuild =
    'CREATE TABLE n (id INTEGER PRIMARY KEY, x); INSERT INTO n (id) SELECT id FROM p; DROP TABLE p; ALTER TABLE n RENAME TO p;';
  await migrate(file, migrations(parent + child, rebuild), null);
  assert.equal(read(file, 'SELECT count(*) FROM c'), 1);
});

test('existing data is copied first, whole and only under its final name', async () => {
  const backups = join(directory, 'backups');
  await migrate(file, migrations(CREATE), join(backups, 'first'));
  assert.equal(existsSync(backups), false, 'a new database is not worth a copy');
  await migrate(file, migrations(CREATE, ADD), join(backups, 'second'));
  assert.deepEqual(readdirSync(backups), ['second']);
  assert.equal(read(join(backups, 'second'), 'PRAGMA user_version'), 1);
  assert.equal(read(join(backups, 'second'), 'SELECT v FROM t'), 1);
  await migrate(file, migrations(CREATE, ADD), join(backups, 'third'));
  assert.deepEqual(readdirSync(backups), ['second'], 'nothing pending, no copy');
});

test('the copy is on the disk before it has its name and the data change, and its name before they do', {
  skip: process.platform !== 'linux',
}, async (t) => {
  await migrate(file, migrations(CREATE), null);
  const backups = join(directory, 'backups');
  const backup = join(backups, 'second');
  const steps: [step: string, path: string, version: unknown][] = [];
  await onDiskSteps(t, (step, path) => steps.push([step, path, read(file, 'PRAGMA user_version')]));
  await migrate(file, migrations(CREATE, ADD), backup);
  assert.deepEqual(steps, [
    ['flush', `${backup}.tmp`, 1],
    ['rename', backup, 1],
    ['flush', backups, 1],
  ]);
});

test('a file that the disk damaged is not blamed on the migration', async () => {
  const fill = `INSERT INTO t SELECT hex(randomblob(1000)) FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50) SELECT i FROM n);`;
  await migrate(file, migrations(`CREATE TABLE t (v); ${fill}`), null);
  const bytes = readFileSync(file);
  bytes.fill(0xff, 4096, 3 * 4096);
  writeFileSync(file, bytes);
  await assert.rejects(migrate(file, migrations(CREATE, 'UPDATE t SET v = 1;'), null), { code: 'SQLITE_CORRUPT' });
  assert.equal(read(file, 'PRAGMA user_version'), 1);
});

test('the log of a large migration is emptied', async () => {
  await migrate(file, migrations(CREATE), null);
  const other = openSqlite(file);
  try {
    other.prepare('SELECT v FROM t').get();
    const rows =
      'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO t SELECT hex(zeroblob(1000)) FROM n;';
    await migrate(file, migrations(CREATE, rows), null);
    assert.equal(statSync(`${file}-wal`).size, 0);
    assert.equal(other.prepare('SELECT count(*) FROM t').pluck().get(), 2001);
  } finally {
    other.close();
  }
});

test('a copy that shares the blocks of the file has all that was committed', async () => {
  await migrate(file, migrations(CREATE), null);
  const writing = openSqlite(file);
  writing.exec('INSERT INTO t VALUES (7)');
  const copies: string[] = [];
  const backup = join(directory, 'backup.sqlite');
  const clone = (from: string, to: string): void => {
    assert.equal(statSync(`${from}-wal`).size, 0, 'nothing is in the log alone');
    copies.push(to);
    copyFileSync(from, to);
  };
  await migrate(file, migrations(CREATE, ADD), backup, clone);
  writing.close();
  assert.equal(copies.length, 1);
  assert.equal(read(backup, 'SELECT group_concat(v) FROM t'), '1,7');
  assert.equal(read(backup, 'PRAGMA user_version'), 1);
  assert.equal(read(file, 'PRAGMA user_version'), 2);
});

test('without shared blocks, or with a reader of the log, the copy is written', async () => {
  await migrate(file, migrations(CREATE), null);
  const backup = join(directory, 'backup.sqlite');
  const refuse = (_: string, to: string): void => {
    writeFileSync(to, 'half');
    throw Object.assign(new Error('not supported'), { code: 'ENOTSUP' });
  };
  await migrate(file, migrations(CREATE, ADD), backup, refuse);
  assert.equal(read(backup, 'SELECT count(*) FROM t'), 1);
  const reading = openSqlite(file);
  reading.exec('INSERT INTO t VALUES (8, 9)');
  const rows = reading.prepare('SELECT v FROM t').iterate();
  rows.next();
  try {
    const again = join(directory, 'again.sqlite');
    const never = (): void => assert.fail('the file is not all there is');
    await migrate(file, migrations(CREATE, ADD, 'INSERT INTO t VALUES (5, 6);'), again, never);
    assert.equal(read(again, 'SELECT count(*) FROM t'), 2);
  } finally {
    rows.return?.();
    reading.close();
  }
  assert.equal(read(file, 'SELECT count(*) FROM t'), 3);
});
