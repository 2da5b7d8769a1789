/** The log of pages on a real PostgreSQL: what a database was is what another node gets, and nobody else's entries are taken. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import type Sqlite from 'better-sqlite3';
import pg from 'pg';
import { bucketOf } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { database, postgres, whyNoPostgres } from '../../testing/postgres.ts';
import { Random } from '../../testing/random.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import { Database } from '../cluster/database.ts';
import { prepareTables } from '../cluster/tables.ts';
import { openSqlite } from '../sqlite.ts';
import { WalIndex } from '../wal-index.ts';
import { dropCopy, openCopy } from './local-copy.ts';
import { MarkWriter, readMark } from './mark.ts';
import { type Entry, PageLog } from './page-log.ts';
import { encodePages, type PageSet } from './page-set.ts';
import { NO_ENTRIES, type Position, positionAt, Shipper } from './shipper.ts';
import { fold } from './snapshot.ts';
import { readLog, WalPages } from './wal-pages.ts';

const skip = whyNoPostgres() ?? false;
const folder = mkdtempSync(join(tmpdir(), 'svc-replication-'));
const opened: { end(): Promise<unknown> }[] = [];
after(async () => {
  await Promise.allSettled(opened.map((one) => one.end()));
  rmSync(folder, { recursive: true, force: true });
});

let files = 0;
const newFile = (): string => join(folder, `${++files}.sqlite`);

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  opened.push(client);
  return client;
}

function databaseAt(url: string): Database {
  const db = new Database([url], { answerMs: LIMITS.logAnswerMs });
  opened.push({ end: () => db.close() });
  return db;
}

/** Tables, with node `a` as the owner of all buckets in epoch 1. */
async function cluster(url: string): Promise<Database> {
  const db = databaseAt(url);
  await prepareTables(db);
  await db.rows(`UPDATE svc.buckets SET owner = 'a', epoch = 1`);
  return db;
}

/** Statements that wait for a lock. */
async function waiting(db: Database): Promise<number> {
  return (await db.rows(`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)).length;
}

function pageLog(url: string): PageLog {
  return new PageLog(databaseAt(url), 'a');
}

/** A database whose commits are shipped as a writer ships them. */
class Subject {
  static async open(name: string, log: PageLog): Promise<Subject> {
    return new Subject(name, await log.begin());
  }

  readonly file = newFile();
  readonly db: Sqlite.Database;
  readonly position: Position;
  readonly #index: WalIndex;
  readonly #pages: WalPages;
  readonly #mark: MarkWriter;
  #isFirst = true;

  private constructor(name: string, writer: string) {
    this.position = positionAt(name, writer, 1, NO_ENTRIES);
    this.db = openSqlite(this.file);
    this.db.pragma('journal_mode = WAL');
    this.db.pragma('wal_autocheckpoint = 0');
    this.#index = new WalIndex(this.file);
    this.#pages = new WalPages(this.file);
    this.#mark = new MarkWriter(this.file);
  }

  /** Commits, and ships what that changed. */
  commit(shipper: Shipper, sql: string): Promise<void> {
    this.db.exec(sql);
    const set = this.#pages.read(this.#index.read() as Buffer);
    // What SQLite wrote before there was a write-ahead log.
    if (this.#isFirst && !set.pages.has(1)) set.pages.set(1, readFileSync(this.file).subarray(0, set.pageBytes));
    this.#isFirst = false;
    return shipper.ship(this.position, set, this.#pages.place, (place) =>
      this.#mark.write({ ...this.position, place }),
    );
  }

  close(): void {
    this.db.close();
    this.#index.close();
    this.#pages.close();
    this.#mark.close();
  }
}

/** What `VACUUM INTO` makes of it: the same bytes for the same content. */
function vacuumed(file: string): Buffer {
  const copy = newFile();
  const db = openSqlite(file, { readonly: true });
  db.prepare('VACUUM INTO ?').run(copy);
  db.close();
  return readFileSync(copy);
}

/** A copy of the file, its log and its mark, as a machine has them after a crash. */
function crashed(file: string): string {
  const copy = newFile();
  for (const end of ['', '-wal', '-mark'])
    if (existsSync(`${file}${end}`)) copyFileSync(`${file}${end}`, `${copy}${end}`);
  return copy;
}

const ROWS = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
  INSERT INTO notes (text) SELECT hex(randomblob(100)) FROM n`;

test('what is fetched equals the database, by its log, by its snapshot and by both', { skip }, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const shipper = new Shipper(log, () => false);
  const subject = await Subject.open('todos', log);
  const same = async (): Promise<void> => {
    const file = newFile();
    const { end, how } = await openCopy(db, 'todos', file);
    assert.deepEqual([how, end.seq], ['fetched', subject.position.seq]);
    assert.ok(vacuumed(file).equals(vacuumed(subject.file)));
    assert.equal(openSqlite(file).pragma('integrity_check', { simple: true }), 'ok');
  };
  await subject.commit(shipper, 'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)');
  for (let n = 0; n < 20; n++) await subject.commit(shipper, ROWS);
  await same();
  const taken = await fold(db, 'todos', { node: 'a', epoch: 1 });
  assert.equal(taken.entries, subject.position.entries);
  assert.equal((await db.rows<{ n: number }>('SELECT count(*)::int AS n FROM svc.log'))[0]?.n, 0);
  await same();
  // Smaller, then larger again, with checkpoints and a log that begins anew between.
  await subject.commit(shipper, 'DELETE FROM notes WHERE id > 300');
  await subject.commit(shipper, 'VACUUM');
  subject.db.pragma('wal_checkpoint(PASSIVE)');
  await subject.commit(shipper, ROWS);
  await same();
  await fold(db, 'todos', { node: 'a', epoch: 1 });
  await subject.commit(shipper, 'UPDATE notes SET text = upper(text) WHERE id % 7 = 0');
  await same();
  subject.close();
});

test('commits of many databases share transactions, each page in its last version', { skip }, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const shipper = new Shipper(log, () => false);
  const subjects = await Promise.all(Array.from({ length: 8 }, (_, n) => Subject.open(`app-${n}`, log)));
  const commits = subjects.map((subject) =>
    subject.commit(shipper, 'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)'),
  );
  for (let n = 0; n < 50; n++) for (const subject of subjects) commits.push(subject.commit(shipper, ROWS));
  await Promise.all(commits);
  assert.ok(shipper.counters.groups <= 3, `${shipper.counters.groups} transactions`);
  for (const { file, position } of subjects) {
    const copy = newFile();
    await openCopy(db, position.database, copy);
    assert.ok(vacuumed(copy).equals(vacuumed(file)));
  }
  for (const subject of subjects) subject.close();
});

const setOf = (fill: string): Buffer =>
  encodePages({ pageBytes: 4096, size: 1, pages: new Map([[1, Buffer.alloc(4096, fill)]]) });

/** Entries of this writer. */
function entriesOf(writer: string) {
  return (database: string, more: Partial<Entry> = {}): Entry => {
    const bucket = bucketOf(database);
    return { database, bucket, writer, epoch: 1, seq: 1, sets: [setOf('x')], ...more };
  };
}

const storedIn = async (db: Database): Promise<string[]> =>
  (await db.rows<{ entry: string }>(`SELECT database || ' ' || seq AS entry FROM svc.log ORDER BY database, seq`)).map(
    ({ entry }) => entry,
  );

test('an entry of another owner, epoch or writer is fenced, and only that', { skip }, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const entry = entriesOf(await log.begin());
  await db.rows(`UPDATE svc.buckets SET owner = 'b' WHERE bucket = $1`, [bucketOf('theirs')]);
  const entries = [
    entry('theirs'),
    entry('mine'),
    entry('old', { epoch: 0 }),
    entry('new', { epoch: 2 }),
    entry('earlier', { writer: randomUUID() }),
    entry('large', { sets: [setOf('1'), setOf('2')] }),
  ];
  assert.deepEqual(await log.append(entries), ['fenced', 'stored', 'fenced', 'fenced', 'fenced', 'stored']);
  assert.deepEqual(await storedIn(db), ['large 1', 'large 2', 'mine 1']);
  assert.deepEqual(await log.append([entry('mine', { seq: 2 })]), ['stored']);
});

test('a group is stored as a whole: where one of its entries is there already, none is', { skip }, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const entry = entriesOf(await log.begin());
  assert.deepEqual(await log.append([entry('two')]), ['stored']);
  await assert.rejects(log.append([entry('one'), entry('two'), entry('three')]), { code: 'STORAGE_UNAVAILABLE' });
  assert.deepEqual(await storedIn(db), ['two 1']);
  assert.deepEqual(await log.append([entry('one'), entry('two', { seq: 2 })]), ['stored', 'stored']);
  assert.deepEqual(await storedIn(db), ['one 1', 'two 1', 'two 2']);
});

test('a group that comes again, or late, is not stored again, and its answer is the same', { skip }, async () => {
  const url = await database();
  const db = await cluster(url);
  const writer = await pageLog(url).begin();
  const append = async (group: number, names: string[], epoch = 1): Promise<number[] | null> => {
    const all = <T>(value: T): T[] => names.map(() => value);
    const values = [
      'a',
      writer,
      group,
      names.map(bucketOf),
      names,
      all(epoch),
      all(group),
      all(1),
      all(1),
      Buffer.from('x'),
    ];
    const text = 'SELECT svc.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS fenced';
    return (await db.rows<{ fenced: number[] | null }>(text, values))[0]?.fenced ?? null;
  };
  await db.rows(`UPDATE svc.buckets SET epoch = 2 WHERE bucket = $1`, [bucketOf('two')]);
  assert.equal(await append(2, ['one']), null);
  for (const _ of [1, 2]) assert.deepEqual(await append(1, ['one', 'two']), [2]);
  assert.deepEqual(await append(2, ['one']), []);
  for (const _ of [1, 2]) assert.deepEqual(await append(1, ['one', 'two', 'three']), []);
  assert.deepEqual(await storedIn(db), ['one 1', 'one 2']);
});

test('the writer before stores nothing once the next one of the node has begun', { skip }, async () => {
  const url = await database();
  const db = await cluster(url);
  const [old, next] = [pageLog(url), pageLog(url)];
  const stale = entriesOf(await old.begin());
  assert.deepEqual(await old.append([stale('todos')]), ['stored']);
  // The next one waits for what the one before has under way.
  const other = await connected(url);
  await other.query('BEGIN');
  await other.query(`UPDATE svc.writers SET groups = 2 WHERE node = 'a'`);
  const begun = next.begin();
  assert.ok(await eventually(LIMIT_MS, async () => (await waiting(db)) === 1, 5));
  await other.query('COMMIT');
  const entry = entriesOf(await begun);
  assert.deepEqual(await old.append([stale('todos', { seq: 2 })]), ['fenced']);
  assert.deepEqual(await next.append([entry('todos', { seq: 2 })]), ['stored']);
  assert.deepEqual(await old.append([stale('todos', { seq: 3 })]), ['fenced']);
  // If it lives, it is another writer from then on.
  const again = entriesOf(await old.begin());
  assert.deepEqual(await old.append([again('todos', { seq: 3 })]), ['stored']);
  assert.deepEqual(await next.append([entry('todos', { seq: 4 })]), ['fenced']);
  assert.deepEqual(await storedIn(db), ['todos 1', 'todos 2', 'todos 3']);
});

test('where the database lost a group, as a standby that did not have it yet, every database is read again', {
  skip,
}, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const entry = entriesOf(await log.begin());
  await log.append([entry('lost')]);
  await db.rows('DELETE FROM svc.log');
  await db.rows('UPDATE svc.writers SET groups = 0');
  assert.deepEqual(await log.append([entry('lost', { seq: 2 }), entry('other')]), ['fenced', 'fenced']);
  assert.deepEqual(await log.append([entry('other')]), ['fenced']);
  assert.deepEqual(await log.append([entriesOf(await log.begin())('lost')]), ['stored']);
});

test('a change of owner waits for the group under way, which is stored; a group waits for the change, and is fenced', {
  skip,
}, async () => {
  const url = await database();
  const db = await cluster(url);
  const other = await connected(url);
  const log = pageLog(url);
  const entry = entriesOf(await log.begin());
  const take = `UPDATE svc.buckets SET owner = 'b', epoch = epoch + 1 WHERE bucket = $1`;
  // A group that holds the row of its writer, and one row of the log.
  await other.query('BEGIN');
  await other.query(`UPDATE svc.writers SET groups = groups + 1 WHERE node = 'a'`);
  const taken = db.rows(take, [bucketOf('one')]);
  const watch = databaseAt(url);
  assert.ok(await eventually(LIMIT_MS, async () => (await waiting(watch)) === 1, 5));
  await other.query('INSERT INTO svc.log (bucket, database, epoch, seq, frames) VALUES ($1, $2, 1, 1, $3)', [
    bucketOf('one'),
    'one',
    setOf('x'),
  ]);
  await other.query('ROLLBACK');
  await taken;

  await other.query('BEGIN');
  await other.query(take, [bucketOf('todos')]);
  const appended = log.append([entry('todos'), entry('one'), entry('two')]);
  assert.ok(await eventually(LIMIT_MS, async () => (await waiting(watch)) === 1, 5));
  await other.query('COMMIT');
  assert.deepEqual(await appended, ['fenced', 'fenced', 'stored']);
  await assert.rejects(fold(db, 'todos', { node: 'a', epoch: 1 }), /another owner or epoch/);
});

test('a copy is kept, brought forward, or dropped where it is ahead', { skip }, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const shipper = new Shipper(log, () => false);
  const subject = await Subject.open('todos', log);
  await subject.commit(shipper, 'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)');
  for (let n = 0; n < 5; n++) await subject.commit(shipper, ROWS);
  const whole = vacuumed(subject.file);
  const kept = crashed(subject.file);
  assert.equal((await openCopy(db, 'todos', kept)).how, 'kept');
  assert.ok(vacuumed(kept).equals(whole));

  // Committed here, and never sent: as after a kill between the two.
  subject.db.exec(ROWS);
  const ahead = crashed(subject.file);
  const twin = crashed(subject.file);
  assert.ok((readLog(ahead)?.frames ?? 0) > (readMark(ahead)?.place.frames ?? 0));
  assert.equal((await openCopy(db, 'todos', ahead)).how, 'forward');
  assert.ok(vacuumed(ahead).equals(whole));
  assert.equal((await openCopy(db, 'todos', ahead)).how, 'kept');

  // It was sent after all, and more came.
  await subject.commit(shipper, ROWS);
  const later = vacuumed(subject.file);
  for (const file of [twin, kept]) {
    assert.equal((await openCopy(db, 'todos', file)).how, 'forward');
    assert.ok(vacuumed(file).equals(later));
    assert.equal(readMark(file)?.seq, subject.position.seq);
  }

  // Where the log begins after the copy, or the copy lost what its mark says, it is fetched.
  const old = crashed(ahead);
  await fold(db, 'todos', { node: 'a', epoch: 1 });
  const cut = crashed(subject.file);
  rmSync(`${cut}-wal`);
  const unmarked = crashed(subject.file);
  rmSync(`${unmarked}-mark`);
  for (const file of [old, cut, unmarked]) {
    assert.equal((await openCopy(db, 'todos', file)).how, 'fetched');
    assert.ok(vacuumed(file).equals(later));
  }

  // Removed and made again by another: an entry of the same seq is another one.
  const stranger = crashed(subject.file);
  await db.rows('DELETE FROM svc.snapshots');
  const set: PageSet = { pageBytes: 4096, size: 1, pages: new Map([[1, readFileSync(kept).subarray(0, 4096)]]) };
  await db.rows('INSERT INTO svc.log (bucket, database, epoch, seq, frames) VALUES ($1, $2, 1, $3, $4)', [
    bucketOf('todos'),
    'todos',
    subject.position.seq,
    encodePages(set),
  ]);
  assert.equal((await openCopy(db, 'todos', stranger)).how, 'fetched');
  await db.rows('DELETE FROM svc.log');
  assert.equal((await openCopy(db, 'todos', stranger)).how, 'aside');
  assert.ok(!existsSync(stranger));
  // Whoever has lost the log still has the copy.
  const aside = readdirSync(folder).find((name) => name.startsWith(`${basename(stranger)}.removed-`));
  assert.ok(aside !== undefined && statSync(join(folder, aside)).size > 0);
  dropCopy(kept);
  assert.ok(!existsSync(kept) && readMark(kept) === null);
  subject.close();
});

test('a database that is killed and started again has each entry once; while it is away, writes are refused', {
  skip,
}, async () => {
  const server = await postgres();
  const db = await cluster(server.url);
  const log = pageLog(server.url);
  const shipper = new Shipper(log, () => false);
  const subject = await Subject.open('todos', log);
  await subject.commit(shipper, 'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)');
  // Some of it is sent when the server dies, and none of that may be lost, stored twice, or said to be fenced.
  const commits = Array.from({ length: 20 }, () => subject.commit(shipper, ROWS));
  await server.kill();
  await server.start();
  await Promise.all(commits);
  const copy = newFile();
  await openCopy(db, 'todos', copy);
  assert.ok(vacuumed(copy).equals(vacuumed(subject.file)));

  await server.kill();
  const refused = [subject.commit(shipper, ROWS), subject.commit(shipper, ROWS)];
  for (const one of refused) await assert.rejects(one, { code: 'STORAGE_UNAVAILABLE' });
  await server.start();
  // This copy stands on what the log lacks.
  await assert.rejects(subject.commit(shipper, ROWS), { code: 'STORAGE_UNAVAILABLE' });
  assert.equal((await openCopy(db, 'todos', copy)).end.seq, readMark(subject.file)?.seq);
  subject.close();
  await server.stop();
});

test('an answer that is lost after its commit is found out', { skip }, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const entry = entriesOf(await log.begin());
  assert.deepEqual(await log.append([entry('todos')]), ['stored']);
  // The commit waits for a lock that the test has, while its client gives up; then it is done.
  const lock = await connected(url);
  await lock.query('BEGIN');
  await lock.query('SELECT FROM svc.writers FOR UPDATE');
  const appended = log.append([entry('todos', { seq: 2 })]);
  assert.ok(await eventually(LIMIT_MS, async () => (await waiting(db)) === 2, 5));
  await lock.query('COMMIT');
  assert.deepEqual(await appended, ['stored']);
  assert.deepEqual(await storedIn(db), ['todos 1', 'todos 2']);
  assert.ok(LIMITS.logPatienceMs > 2 * LIMITS.logAnswerMs);
});

test('a group whose end nobody knows fails, and is stored before the next one or never; other databases go on', {
  skip,
}, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const entry = entriesOf(await log.begin());
  const lock = await connected(url);
  await lock.query('BEGIN');
  await lock.query('SELECT FROM svc.writers FOR UPDATE');
  await assert.rejects(log.append([entry('failed')]), { code: 'STORAGE_UNAVAILABLE' });
  assert.ok((await waiting(db)) > 0, 'what was sent waits');
  const appended = log.append([entry('other')]);
  await lock.query('COMMIT');
  assert.deepEqual(await appended, ['stored']);
  assert.equal(await waiting(db), 0);
  const stored = await storedIn(db);
  assert.equal(stored.at(-1), 'other 1');
  await log.begin();
  assert.deepEqual(await storedIn(db), stored);
});

test('whatever is written, folded, copied into the file and lost by crashes: each copy is the database', {
  skip,
}, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const shipper = new Shipper(log, () => false);
  const subject = await Subject.open('todos', log);
  const random = new Random(20);
  await subject.commit(
    shipper,
    'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); CREATE INDEX texts ON notes (text)',
  );
  const behind: string[] = [newFile()];
  const id = (): number => random.between(1, 800);
  const steps: (() => Promise<unknown> | unknown)[] = [
    () => subject.commit(shipper, `INSERT INTO notes (text) VALUES (hex(randomblob(${random.between(1, 200)})))`),
    () => subject.commit(shipper, `UPDATE notes SET text = text || 'x' WHERE id = ${id()}`),
    () => subject.commit(shipper, `DELETE FROM notes WHERE id BETWEEN ${id()} AND ${id()}`),
    () => Promise.all([1, 2, 3].map((n) => subject.commit(shipper, `INSERT INTO notes (text) VALUES ('${n}')`))),
    () => subject.commit(shipper, ROWS),
    () => subject.commit(shipper, 'VACUUM'),
    () => subject.db.pragma('wal_checkpoint(PASSIVE)'),
    () => fold(db, 'todos', { node: 'a', epoch: 1 }),
    () => behind.push(crashed(subject.file)),
    async () => {
      const file = behind.splice(random.between(0, behind.length - 1), 1)[0] as string;
      await openCopy(db, 'todos', file);
      assert.ok(vacuumed(file).equals(vacuumed(subject.file)));
      assert.equal(openSqlite(file).pragma('integrity_check', { simple: true }), 'ok');
      behind.push(file);
    },
  ];
  const often = [0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 9];
  for (let n = 0; n < 300; n++) await steps[random.pick(often)]?.();
  for (const file of behind) {
    await openCopy(db, 'todos', file);
    assert.ok(vacuumed(file).equals(vacuumed(subject.file)));
  }
  subject.close();
});

test('an entry that is larger than a statement is stored as a whole, or not at all', { skip }, async () => {
  const url = await database();
  const db = await cluster(url);
  const log = pageLog(url);
  const shipper = new Shipper(log, () => false);
  const subject = await Subject.open('todos', log);
  const large = `CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES (hex(randomblob(${LIMITS.logGroupBytes})))`;
  await subject.commit(shipper, `BEGIN; ${large}; COMMIT`);
  assert.ok(subject.position.bytes > 2 * LIMITS.logGroupBytes);
  const file = newFile();
  await openCopy(db, 'todos', file);
  assert.ok(vacuumed(file).equals(vacuumed(subject.file)));
  const stored = subject.position.seq;
  await db.rows(`UPDATE svc.buckets SET epoch = 2`);
  await assert.rejects(
    subject.commit(shipper, 'DELETE FROM notes; INSERT INTO notes VALUES (hex(randomblob(20000000)))'),
    {
      code: 'STORAGE_UNAVAILABLE',
    },
  );
  assert.equal((await openCopy(db, 'todos', file)).end.seq, stored);
  subject.close();
});
