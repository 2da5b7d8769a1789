/** A writer with a log of pages, on a real PostgreSQL: what it answers is in the log, and what is not in the log it does not show. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import pg from 'pg';
import { BUCKETS } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { DbClient } from '../../protocol/wire/db-client.ts';
import { openLink } from '../../protocol/wire/link.ts';
import { Database } from '../../storage/cluster/database.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import { openCopy } from '../../storage/replication/local-copy.ts';
import { readMark } from '../../storage/replication/mark.ts';
import { reading } from '../../testing/databases.ts';
import { database, postgres, whyNoPostgres } from '../../testing/postgres.ts';
import { eventually, LIMIT_MS, within } from '../../testing/waiting.ts';
import { WriterProcess } from '../../testing/writer-process.ts';

const skip = whyNoPostgres() ?? false;
const UNAVAILABLE = { code: 'STORAGE_UNAVAILABLE' };
const INSERT = 'INSERT INTO notes VALUES (?)';
/** More than the write-ahead log may have before it is copied into the file. */
const LARGE = 6 * 1024 * 1024;

let ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.reverse()) await end();
  ends = [];
});

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  ends.push(() => client.end().catch(() => {}));
  return client;
}

/** A node with a writer, its folder and connections to the database of the app `todos`. */
class Node {
  readonly folder = mkdtempSync(join(tmpdir(), 'svc-keeper-'));
  readonly file = join(this.folder, 'todos.sqlite');
  readonly writer: WriterProcess;

  constructor(url: string, node: string) {
    this.writer = new WriterProcess(this.folder, { urls: [url], node });
    ends.push(async () => {
      await this.writer.end();
      rmSync(this.folder, { recursive: true, force: true });
    });
  }

  async start(epoch = 1): Promise<this> {
    await this.writer.start();
    this.own(epoch);
    return this;
  }

  own(epoch: number): void {
    this.writer.own(Array.from({ length: BUCKETS }, (_, bucket) => [bucket, epoch]));
  }

  client(name = 'todos'): DbClient {
    const ticket = this.writer.ticketFor(name, this.folder, true);
    const client = new DbClient((handlers, id) => openLink(this.writer.socket, ticket, handlers, id));
    ends.push(() => client.end());
    return client;
  }

  /** What its own file has, shown or not. */
  rows(): unknown[] {
    return reading(this.file, (db) => db.prepare('SELECT v FROM notes ORDER BY v').pluck().all());
  }
}

async function rowsOf(client: DbClient): Promise<unknown[]> {
  return (await client.all('SELECT v FROM notes ORDER BY v')).map(({ v }) => v);
}

function databaseAt(url: string): Database {
  const db = new Database([url], { answerMs: LIMITS.logAnswerMs });
  ends.push(() => db.close());
  return db;
}

/** Tables whose buckets `a` owns in epoch 1. */
async function cluster(url: string): Promise<Database> {
  const db = databaseAt(url);
  await prepareTables(db);
  await db.rows(`UPDATE svc.buckets SET owner = 'a', epoch = 1`);
  return db;
}

/** What another node would get. */
async function inLog(db: Database): Promise<unknown[]> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-keeper-'));
  ends.push(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'copy.sqlite');
  await openCopy(db, 'todos', file);
  return reading(file, (copy) => copy.prepare('SELECT v FROM notes ORDER BY v').pluck().all());
}

/** Lets no writer of node `a` write to the log, until it is called. */
async function holdLog(url: string): Promise<() => Promise<unknown>> {
  const client = await connected(url);
  await client.query('BEGIN');
  await client.query(`SELECT 1 FROM svc.writers WHERE node = 'a' FOR UPDATE`);
  return () => client.query('ROLLBACK');
}

async function isWaiting(db: Database): Promise<boolean> {
  return (await db.rows(`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)).length > 0;
}

test('what is answered is in the log: writes, transactions, a batch, and a migration', { skip }, async () => {
  const url = await database();
  const log = await cluster(url);
  const node = await new Node(url, 'a').start();
  const client = node.client();
  const migration = join(node.folder, '0001_notes.sql');
  writeFileSync(migration, 'CREATE TABLE notes (v INTEGER)');
  assert.deepEqual(await client.migrate([{ name: '0001_notes.sql', path: migration }], null), [1]);
  assert.deepEqual(await inLog(log), []);
  await client.run(INSERT, [1]);
  assert.deepEqual(await inLog(log), [1]);
  const tx = await client.begin();
  await client.run(INSERT, [2], tx);
  assert.deepEqual(await inLog(log), [1]);
  await client.commit(tx);
  assert.deepEqual(await inLog(log), [1, 2]);
  await client.batch([3, 4].map((v) => [INSERT, [v]]));
  assert.deepEqual(await inLog(log), [1, 2, 3, 4]);
  // Many at once go in few transactions.
  await Promise.all(Array.from({ length: 500 }, (_, n) => client.run(INSERT, [n + 5])));
  assert.equal((await inLog(log)).length, 504);
  assert.ok((await log.rows('SELECT 1 FROM svc.log')).length < 60);
});

test('a heartbeat says how many writes, commits and bytes went in how many groups', { skip }, async () => {
  const url = await database();
  await cluster(url);
  const node = await new Node(url, 'a').start();
  const clients = ['one', 'two', 'three'].map((name) => node.client(name));
  await Promise.all(clients.map((client) => client.exec('CREATE TABLE notes (v INTEGER)')));
  const before = await node.writer.stats();
  const release = await holdLog(url);
  const writes = clients.map((client) => client.run(INSERT, [0]));
  // These wait for the group that waits.
  const later = clients.flatMap((client) => [1, 2, 3].map((v) => client.run(INSERT, [v])));
  await release();
  await Promise.all([...writes, ...later]);
  const { logged, logGroups } = await node.writer.stats();
  const [operations, groups, bytes] = [
    (logged?.operations ?? 0) - (before.logged?.operations ?? 0),
    (logGroups?.groups ?? 0) - (before.logGroups?.groups ?? 0),
    (logGroups?.bytes ?? 0) - (before.logGroups?.bytes ?? 0),
  ];
  assert.equal(operations, 12);
  assert.ok(groups >= 1 && groups <= 6, `${groups} groups`);
  assert.ok(bytes > 0 && (logGroups?.ms ?? 0) > (before.logGroups?.ms ?? 0));
  await Promise.all(clients.map((client) => client.run('DELETE FROM notes WHERE v > 100')));
  assert.equal((await node.writer.stats()).logged?.operations, logged?.operations, 'nothing was written');
});

test('a write, a read after it and a transaction show nothing while the log lacks it, and no checkpoint copies it', {
  skip,
}, async () => {
  const url = await database();
  const log = await cluster(url);
  const node = await new Node(url, 'a').start();
  const writing = node.client();
  const reader = node.client();
  await writing.exec('CREATE TABLE notes (v INTEGER); CREATE TABLE texts (text TEXT)');
  assert.ok(await eventually(LIMIT_MS, () => node.writer.committed.length === 1));
  const release = await holdLog(url);
  const size = statSync(node.file).size;
  const answers: string[] = [];
  const told = (name: string, promise: Promise<unknown>) =>
    promise.then((value) => answers.push(`${name} ${JSON.stringify(value)}`));
  const written = told('write', writing.run(INSERT, [1]));
  const large = told(
    'large',
    writing.run('INSERT INTO texts VALUES (?)', ['x'.repeat(LARGE)]).then(() => null),
  );
  const isHere = () => reading(node.file, (db) => db.prepare('SELECT 1 FROM notes, texts').get() !== undefined);
  assert.ok(await eventually(LIMIT_MS, isHere));
  assert.ok(await eventually(LIMIT_MS, () => isWaiting(log)));
  const read = told('read', rowsOf(reader));
  const begun = told(
    'begin',
    reader.begin().then((tx) => reader.rollback(tx)),
  );
  assert.equal(await within(500, Promise.race([written, large, read, begun])), 'late');
  assert.equal(statSync(node.file).size, size);
  assert.deepEqual([answers, node.writer.committed], [[], ['todos']]);
  await release();
  await Promise.all([written, large, read, begun]);
  assert.deepEqual(answers.sort(), ['begin null', 'large null', 'read [1]', 'write {"changes":1,"lastInsertRowid":1}']);
  assert.ok(await eventually(LIMIT_MS, () => node.writer.committed.length > 1));
  // Now it may be copied.
  await writing.run(INSERT, [2]);
  assert.ok(await eventually(LIMIT_MS, () => statSync(node.file).size > size));
});

test('a transaction begins once the log has what it would read', { skip }, async () => {
  const url = await database();
  const log = await cluster(url);
  const node = await new Node(url, 'a').start();
  const client = node.client();
  await client.exec('CREATE TABLE notes (v INTEGER)');
  const release = await holdLog(url);
  const written = client.run(INSERT, [1]);
  assert.ok(await eventually(LIMIT_MS, () => isWaiting(log)));
  const begun = node.client().begin();
  assert.equal(await within(500, begun), 'late');
  await release();
  assert.ok((await begun) > 0);
  await written;
});

test('a writer of an old epoch loses its copy, and its callers get an error', { skip }, async () => {
  const url = await database();
  const log = await cluster(url);
  const old = await new Node(url, 'a').start();
  const client = old.client();
  await client.exec('CREATE TABLE notes (v INTEGER)');
  await client.run(INSERT, [1]);
  await log.rows(`UPDATE svc.buckets SET owner = 'b', epoch = 2`);
  const tx = await client.begin();
  await client.run(INSERT, [2], tx);
  await assert.rejects(client.commit(tx), UNAVAILABLE);
  // What it has is of no use, after a crash as well.
  assert.equal(readMark(old.file), null);
  const next = await new Node(url, 'b').start(2);
  assert.deepEqual(await rowsOf(next.client()), [1]);
  await next.client().run(INSERT, [3]);
  // It gets what the other wrote, and cannot write.
  assert.deepEqual(await rowsOf(client), [1, 3]);
  await assert.rejects(client.run(INSERT, [4]), UNAVAILABLE);
  assert.deepEqual(await inLog(log), [1, 3]);
});

test('while PostgreSQL is away writes get an error and are never half shown; then they succeed again', {
  skip,
}, async () => {
  const server = await postgres();
  ends.push(() => server.stop());
  await cluster(server.url);
  const node = await new Node(server.url, 'a').start();
  const client = node.client();
  await client.exec('CREATE TABLE notes (v INTEGER)');
  await client.run(INSERT, [1]);
  await server.kill();
  const refused = [client.run(INSERT, [2]), rowsOf(client), client.run(INSERT, [3])];
  for (const one of refused) await assert.rejects(one, UNAVAILABLE);
  assert.equal(readMark(node.file), null);
  await assert.rejects(rowsOf(client), UNAVAILABLE);
  await server.start();
  assert.deepEqual(await rowsOf(client), [1]);
  await client.run(INSERT, [4]);
  assert.deepEqual(await inLog(databaseAt(server.url)), [1, 4]);
});

test('after a kill between commit and log, what was not confirmed is gone or confirmed, and nothing shown goes', {
  skip,
}, async () => {
  const url = await database();
  const log = await cluster(url);
  const node = await new Node(url, 'a').start();
  const client = node.client();
  await client.exec('CREATE TABLE notes (v INTEGER)');
  await client.run(INSERT, [1]);
  const release = await holdLog(url);
  const lost = client.run(INSERT, [2]);
  const outcome = lost.then(
    () => 'stored',
    () => 'unknown',
  );
  assert.ok(await eventually(LIMIT_MS, () => node.rows().length === 2));
  assert.ok(await eventually(LIMIT_MS, () => isWaiting(log)));
  await node.writer.kill();
  assert.equal(await outcome, 'unknown');
  // The file has it, and the next writer does not show it.
  assert.deepEqual(node.rows(), [1, 2]);
  await node.start();
  // The transaction of the dead writer may still be done, so nothing is read before its end is known.
  const again = node.client();
  assert.equal(await within(500, rowsOf(again)), 'late');
  await release();
  assert.ok(await eventually(LIMIT_MS, async () => !(await isWaiting(log))));
  const shown = await rowsOf(again);
  assert.deepEqual(shown, await inLog(log));
  await again.run(INSERT, [3]);
  const rows = await rowsOf(again);
  assert.deepEqual(rows, [...shown, 3]);
  assert.deepEqual(rows, await inLog(log));
  assert.ok(rows.includes(1));
});

test('a copy that is used again has nothing of what the log lacked when its node was killed', { skip }, async () => {
  const url = await database();
  const log = await cluster(url);
  const [node, other] = [await new Node(url, 'a').start(), await new Node(url, 'b').start(2)];
  const client = node.client();
  await client.exec('CREATE TABLE notes (v INTEGER); CREATE TABLE texts (text TEXT)');
  await client.run('INSERT INTO texts VALUES (?)', ['x'.repeat(LARGE)]);
  await client.run(INSERT, [1]);
  // Copied into the file, and the write-ahead log began anew: an earlier version of its pages is in the log of pages only.
  const isAnew = async (): Promise<boolean> => {
    await client.run('UPDATE notes SET v = v');
    return (readMark(node.file)?.place.frames ?? LARGE) < 100;
  };
  assert.ok(await eventually(LIMIT_MS, isAnew));
  const changedAt = statSync(node.file).mtimeMs;
  const release = await holdLog(url);
  const lost = client.batch([
    [INSERT, [2]],
    ['UPDATE texts SET text = ?', ['y'.repeat(LARGE)]],
  ]);
  const outcome = lost.then(
    () => 'stored',
    () => 'unknown',
  );
  assert.ok(await eventually(LIMIT_MS, () => node.rows().length === 2));
  assert.ok(await eventually(LIMIT_MS, () => isWaiting(log)));
  // A checkpoint that does not wait for the log is over by then.
  await eventually(1000, () => statSync(node.file).mtimeMs > changedAt);
  await node.writer.kill();
  assert.equal(await outcome, 'unknown');
  await log.rows(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`);
  assert.ok(await eventually(LIMIT_MS, async () => !(await isWaiting(log))));
  await release();
  await log.rows(`UPDATE svc.buckets SET owner = 'b', epoch = 2`);
  await other.client().run(INSERT, [3]);
  other.writer.own([]);
  await log.rows(`UPDATE svc.buckets SET owner = 'a', epoch = 3`);
  await node.start(3);
  const again = node.client();
  assert.deepEqual(await rowsOf(again), [1, 3]);
  const [row] = await again.all('SELECT text FROM texts');
  assert.deepEqual([...new Set(row?.text as string)], ['x']);
  assert.equal(
    reading(node.file, (db) => db.pragma('integrity_check', { simple: true })),
    'ok',
  );
});

test('a bucket that is given up is released once all is in the log, and taken over with it', { skip }, async () => {
  const url = await database();
  const log = await cluster(url);
  const [from, to] = [await new Node(url, 'a').start(), await new Node(url, 'b').start(2)];
  const client = from.client();
  await client.exec('CREATE TABLE notes (v INTEGER)');
  const release = await holdLog(url);
  const written = client.run(INSERT, [1]);
  assert.ok(await eventually(LIMIT_MS, () => isWaiting(log)));
  const released = from.writer.released();
  from.writer.own([]);
  await assert.rejects(from.client().run(INSERT, [2]), UNAVAILABLE);
  assert.equal(await within(100, released), 'late');
  await release();
  await written;
  await released;
  await log.rows(`UPDATE svc.buckets SET owner = 'b', epoch = 2`);
  assert.deepEqual(await rowsOf(to.client()), [1]);
  await to.client().run(INSERT, [3]);
  // Back again: the copy that is still there is brought forward.
  to.writer.own([]);
  await log.rows(`UPDATE svc.buckets SET owner = 'a', epoch = 3`);
  from.own(3);
  assert.deepEqual(await rowsOf(client), [1, 3]);
});

test('data that was there before the cluster comes into the log with its first write', { skip }, async () => {
  const url = await database();
  const log = await cluster(url);
  const node = new Node(url, 'a');
  const { openSqlite } = await import('../../storage/sqlite.ts');
  const db = openSqlite(node.file);
  db.exec('CREATE TABLE notes (v INTEGER); INSERT INTO notes VALUES (1)');
  db.close();
  await node.start();
  await node.client().run(INSERT, [2]);
  assert.deepEqual(await inLog(log), [1, 2]);
});

test('a long log becomes a snapshot, and a copy from it has everything', { skip }, async () => {
  const url = await database();
  const log = await cluster(url);
  const node = await new Node(url, 'a').start();
  const client = node.client();
  await client.exec('CREATE TABLE notes (v INTEGER); CREATE TABLE texts (text TEXT)');
  for (let n = 1; n * LARGE < 1.5 * LIMITS.logBytes; n++) {
    await client.batch([
      [INSERT, [n]],
      ['INSERT INTO texts VALUES (?)', ['x'.repeat(LARGE)]],
    ]);
  }
  const bytes = async () =>
    Number((await log.rows<{ n: string }>('SELECT coalesce(sum(length(frames)), 0) AS n FROM svc.log'))[0]?.n);
  assert.ok(await eventually(LIMIT_MS, async () => (await bytes()) < LIMITS.logBytes));
  await client.run(INSERT, [0]);
  assert.deepEqual(await inLog(log), node.rows());
});
