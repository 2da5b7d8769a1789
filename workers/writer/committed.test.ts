import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { DbOp, type FrameOf, Kind } from '../../protocol/wire/frames.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { isSameState, WalIndex } from '../../storage/wal-index.ts';
import { type Change, Database } from './database.ts';
import { type Asker, Lanes } from './lane.ts';
import { checkpoint, migrate } from './maintenance.ts';
import { Pulse } from './watch.ts';

const folder = mkdtempSync(join(tmpdir(), 'committed-'));
after(() => rmSync(folder, { recursive: true }));

type Told = { name: string } & Change;

/** What happened, in order: commits, and answers by their operation's number. */
let course: (Told | number)[];
let lanes: Lanes;
let file: string;
let files = 0;
let ask: (op: number, tx: number, ...rest: unknown[]) => Promise<unknown>;

beforeEach(async () => {
  course = [];
  file = join(folder, `${++files}.sqlite`);
  lanes = new Lanes({
    // It stands still: no group is cut because the machine is busy.
    clock: { now: () => 0, after: () => () => {} },
    pulse: new Pulse(),
    open: (path) => Database.open(path, 'normal'),
    migrate,
    checkpoint,
    keeper: null,
    replaced: () => {},
    committed: (name, change) => void course.push({ name, ...change }),
  });
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  const asker: Asker = {
    closed: false,
    brief: false,
    mayStore: () => {},
    answer: (id, value) => {
      course.push(id);
      waiting.get(id)?.resolve(value);
    },
    fail: (id, error) => {
      course.push(id);
      waiting.get(id)?.reject(new Error(error.message));
    },
    close: () => {},
  };
  const lane = lanes.join({ file, name: 'app' }, asker);
  let lastId = 0;
  ask = (op, tx, ...rest) =>
    new Promise((resolve, reject) => {
      waiting.set(++lastId, { resolve, reject });
      lane.receive(asker, [Kind.db, lastId, op, tx, ...rest] as unknown as FrameOf<'db'>);
    });
  await ask(DbOp.exec, 0, 'CREATE TABLE t (v); CREATE TABLE u (v)');
});

const run = (sql: string, tx = 0) => ask(DbOp.run, tx, sql, []);
const told = (): Told[] => course.filter((one) => typeof one !== 'number');

/** The state as another process sees it. */
function state(): Uint8Array {
  const index = new WalIndex(file);
  const read = index.read();
  index.close();
  return read as Uint8Array;
}

test('a commit is reported before any of its answers, with the states before and after it', async () => {
  const before = state();
  course = [];
  await Promise.all([run('INSERT INTO t VALUES (1)'), run('INSERT INTO t VALUES (2)')]);
  assert.deepEqual(
    course.map((one) => typeof one),
    ['object', 'number', 'number'],
  );
  const [one] = told() as [Told];
  assert.equal(one.name, 'app');
  assert.deepEqual(one.tables, ['t']);
  assert.ok(isSameState(one.before as Uint8Array, before));
  assert.ok(isSameState(one.after as Uint8Array, state()));
  assert.ok(!isSameState(one.before as Uint8Array, one.after as Uint8Array));
});

test('a commit without changes is not reported', async () => {
  course = [];
  await run('DELETE FROM t WHERE v = 7');
  await ask(DbOp.all, 0, 'SELECT * FROM t', []);
  await run('INSERT INTO nowhere VALUES (1)').catch(() => {});
  assert.deepEqual(told(), []);
});

test('a transaction is reported at its commit, and not when it is rolled back', async () => {
  course = [];
  const first = (await ask(DbOp.begin, 0)) as number;
  await run('INSERT INTO t VALUES (1)', first);
  await ask(DbOp.rollback, first);
  const second = (await ask(DbOp.begin, 0)) as number;
  await run('INSERT INTO t VALUES (1)', second);
  assert.deepEqual(told(), []);
  await ask(DbOp.commit, second);
  assert.equal(told().length, 1);
  assert.equal(typeof course.at(-1), 'number');
});

test('a commit of another process in between shows in the states', async () => {
  await run('INSERT INTO t VALUES (1)');
  const other = openSqlite(file);
  other.exec('INSERT INTO t VALUES (2)');
  await run('INSERT INTO t VALUES (3)');
  other.close();
  const [one, two] = told().slice(-2) as [Told, Told];
  assert.ok(!isSameState(one.after as Uint8Array, two.before as Uint8Array));
});

const tables = () => told().at(-1)?.tables;

test('the tables of a group, of a batch and of a transaction are reported together', async () => {
  await Promise.all([run('INSERT INTO t VALUES (1)'), run('DELETE FROM u'), run('INSERT INTO u VALUES (1)')]);
  assert.deepEqual(tables(), ['t', 'u']);
  await ask(DbOp.batch, 0, [['INSERT INTO u VALUES (?)', [1]]]);
  assert.deepEqual(tables(), ['u']);
  const tx = (await ask(DbOp.begin, 0)) as number;
  await run('INSERT INTO t VALUES (1)', tx);
  await ask(DbOp.all, tx, 'INSERT INTO u VALUES (1) RETURNING v', []);
  await ask(DbOp.commit, tx);
  assert.deepEqual(tables(), ['t', 'u']);
});

test('a change of the schema is reported as all tables, and later statements see it', async () => {
  await run('INSERT INTO t VALUES (1)');
  await ask(DbOp.exec, 0, 'CREATE TRIGGER more AFTER INSERT ON t BEGIN INSERT INTO u VALUES (new.v); END');
  assert.equal(tables(), null);
  await run('INSERT INTO t VALUES (1)');
  assert.deepEqual(tables(), ['t', 'u']);
  await run('DROP TRIGGER more');
  assert.equal(tables(), null);
  await run('INSERT INTO t VALUES (1)');
  assert.deepEqual(tables(), ['t']);
});

test('a trigger that another process made is seen', async () => {
  await run('INSERT INTO t VALUES (1)');
  const other = openSqlite(file);
  other.exec('CREATE TRIGGER more AFTER INSERT ON t BEGIN INSERT INTO u VALUES (new.v); END');
  other.close();
  await run('INSERT INTO t VALUES (1)');
  assert.notDeepEqual(tables(), ['t']);
  await run('INSERT INTO t VALUES (1)');
  assert.deepEqual(tables(), ['t', 'u']);
});

test('a migration is reported as all tables', async () => {
  const path = join(folder, '0001_more.sql');
  writeFileSync(path, 'CREATE TABLE more (v)');
  course = [];
  await ask(DbOp.migrate, 0, [{ name: '0001_more.sql', path }], null);
  assert.deepEqual(
    course.map((one) => typeof one),
    ['object', 'number'],
  );
  assert.equal(tables(), null);
});
