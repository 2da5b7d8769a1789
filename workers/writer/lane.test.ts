import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import type { ErrorBody } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { DbOp, type FrameOf, Kind, type Row, type RunResult, type SqlStatement } from '../../protocol/wire/frames.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { Database } from './database.ts';
import { type Asker, type Clock, groupLength, type Lane, Lanes, type LaneTools, type Timing } from './lane.ts';
import { checkpoint, migrate } from './maintenance.ts';
import { Pulse } from './watch.ts';

/** Time that stands still until a test moves it; `tick` is added at every look at it. */
class TestClock implements Clock {
  tick = 0;
  #now = 0;
  readonly #timers = new Set<{ at: number; then: () => void }>();

  now(): number {
    this.#now += this.tick;
    return this.#now;
  }

  after(ms: number, then: () => void): () => void {
    const timer = { at: this.#now + ms, then };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  advance(ms: number): void {
    this.#now += ms;
    for (const timer of [...this.#timers]) {
      if (timer.at <= this.#now && this.#timers.delete(timer)) timer.then();
    }
  }
}

type Settled = { resolve: (value: unknown) => void; reject: (error: Error) => void };

/** A connection without the socket. */
class Client implements Asker {
  closed = false;
  brief = false;
  /** Numbers of the operations in the order in which they were answered. */
  readonly answered: number[] = [];
  /** What the answers said of their time. */
  readonly timings: (Timing | undefined)[] = [];
  /** Those that may be stored, and transactions. */
  readonly stored: { operations: number[]; commits: number[] } = { operations: [], commits: [] };
  readonly #waiting = new Map<number, Settled>();
  readonly #lanes: Lanes;
  readonly #lane: Lane;
  /** The number of its latest operation. */
  lastId = 0;

  constructor(lanes: Lanes, file: string) {
    this.#lanes = lanes;
    this.#lane = lanes.join({ file, name: 'app' }, this);
  }

  mayStore(id: number, isCommit: boolean): void {
    this.stored[isCommit ? 'commits' : 'operations'].push(id);
  }

  answer(id: number, value: unknown, timing?: Timing): void {
    this.answered.push(id);
    this.timings.push(timing);
    this.#waiting.get(id)?.resolve(value);
  }

  fail(id: number, error: ErrorBody, timing?: Timing): void {
    this.answered.push(id);
    this.timings.push(timing);
    this.#waiting.get(id)?.reject(Object.assign(new Error(error.message), error));
  }

  close(): void {
    this.closed = true;
    this.#lanes.leave(this.#lane, this);
  }

  run(sql: string, params: unknown[] | Record<string, unknown> = [], tx = 0): Promise<RunResult> {
    return this.#ask(DbOp.run, tx, sql, params) as Promise<RunResult>;
  }

  /** As a traced call runs it. */
  timed(sql: string, params: unknown[] = [], tx = 0): Promise<RunResult> {
    return this.#ask(DbOp.run, tx, sql, params, true) as Promise<RunResult>;
  }

  get(sql: string, params: unknown[] = [], tx = 0): Promise<Row | null> {
    return this.#ask(DbOp.get, tx, sql, params) as Promise<Row | null>;
  }

  all(sql: string, params: unknown[] = [], tx = 0): Promise<Row[]> {
    return this.#ask(DbOp.all, tx, sql, params) as Promise<Row[]>;
  }

  batch(statements: [string, unknown[]][], tx = 0): Promise<unknown> {
    return this.#ask(DbOp.batch, tx, statements);
  }

  exec(sql: string, tx = 0): Promise<unknown> {
    return this.#ask(DbOp.exec, tx, sql);
  }

  begin(): Promise<number> {
    return this.#ask(DbOp.begin, 0) as Promise<number>;
  }

  commit(tx: number, since = 0): Promise<unknown> {
    return this.#ask(DbOp.commit, tx, since);
  }

  rollback(tx: number): Promise<unknown> {
    return this.#ask(DbOp.rollback, tx);
  }

  release(): Promise<unknown> {
    return this.#ask(DbOp.close, 0);
  }

  migrate(files: { name: string; path: string }[]): Promise<unknown> {
    return this.#ask(DbOp.migrate, 0, files, null);
  }

  #ask(op: number, tx: number, ...rest: unknown[]): Promise<unknown> {
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#lane.receive(this, [Kind.db, id, op, tx, ...rest] as unknown as FrameOf<'db'>);
    });
  }
}

const PAGE_BYTES = 4096;
const directory = mkdtempSync(join(tmpdir(), 'lane-'));
after(() => rmSync(directory, { recursive: true }));

let clock: TestClock;
let lanes: Lanes;
let file: string;
let client: Client;
let files = 0;

function newLanes(options: Partial<LaneTools> = {}): Lanes {
  return new Lanes({
    clock,
    pulse: new Pulse(),
    open: (path) => Database.open(path, 'full'),
    migrate,
    checkpoint,
    keeper: null,
    replaced: () => {},
    committed: () => {},
    ...options,
  });
}

function newFile(): string {
  return join(directory, `${++files}.sqlite`);
}

async function settle<T>(promises: Promise<T>[]): Promise<string[]> {
  const settled = await Promise.allSettled(promises);
  return settled.map((one) => (one.status === 'fulfilled' ? 'ok' : (one.reason as { code: string }).code));
}

async function values(who: Client = client): Promise<unknown[]> {
  return (await who.all('SELECT v FROM t ORDER BY rowid')).map((row) => row.v);
}

beforeEach(async () => {
  clock = new TestClock();
  lanes = newLanes();
  file = newFile();
  client = new Client(lanes, file);
  await client.exec('CREATE TABLE t (v UNIQUE)');
});

const insert = 'INSERT INTO t VALUES (?)';

test('statements that wait together share a commit and keep their order', async () => {
  const before = lanes.counters.commits;
  const other = new Client(lanes, file);
  const results = await Promise.all([client.run(insert, ['a']), other.run(insert, ['b']), client.run(insert, ['c'])]);
  assert.deepEqual(
    results.map(({ lastInsertRowid }) => lastInsertRowid),
    [1, 2, 3],
  );
  assert.equal(lanes.counters.commits - before, 1);
});

test('a timed operation reports how long it waited and ran, and the size of its commit', async () => {
  client.timings.length = 0;
  clock.tick = 1;
  const failing = client.timed('INSERT INTO nowhere VALUES (1)');
  const all = [client.run(insert, [1]), client.timed(insert, [2]), failing];
  clock.advance(50);
  await settle(all);
  assert.deepEqual(client.timings.map((timing) => timing?.group).sort(), [3, 3, undefined]);
  for (const timing of client.timings.filter((one) => one !== undefined)) {
    const { receivedAt, begunAt, endedAt } = timing;
    assert.ok(begunAt - receivedAt >= 50 && endedAt > begunAt, JSON.stringify(timing));
  }
  const tx = await client.begin();
  await client.timed(insert, [3], tx);
  assert.equal(client.timings.at(-1)?.group, 1);
  await client.rollback(tx);
});

test('an answer means that another process would see the row', async () => {
  await client.run(insert, ['a']);
  const reader = openSqlite(file, { readonly: true });
  assert.equal(reader.prepare('SELECT count(*) FROM t').pluck().get(), 1);
  reader.close();
});

test('a group that takes long is committed in parts, in order', async () => {
  clock.tick = LIMITS.groupMs;
  const before = lanes.counters.commits;
  await Promise.all(['a', 'b', 'c', 'd'].map((value) => client.run(insert, [value])));
  assert.notEqual(lanes.counters.commits - before, 1);
  assert.deepEqual(await values(), ['a', 'b', 'c', 'd']);
});

test('a constraint fails its own statement only', async () => {
  const codes = await settle([client.run(insert, ['a']), client.run(insert, ['a']), client.run(insert, ['b'])]);
  assert.deepEqual(codes, ['ok', 'SQLITE_CONSTRAINT_UNIQUE', 'ok']);
  assert.deepEqual(await values(), ['a', 'b']);
});

test('a statement that ends the whole transaction does not affect others', async () => {
  const raw = openSqlite(file);
  raw.exec('CREATE TABLE u (v UNIQUE ON CONFLICT ROLLBACK)');
  raw.close();
  const codes = await settle([
    client.run(insert, ['a']),
    client.run('INSERT INTO u VALUES (1)'),
    client.run('INSERT INTO u VALUES (1)'),
    client.run(insert, ['b']),
    client.run('INSERT INTO u VALUES (1)'),
    client.run(insert, ['c']),
  ]);
  assert.deepEqual(codes, ['ok', 'ok', 'SQLITE_CONSTRAINT_UNIQUE', 'ok', 'SQLITE_CONSTRAINT_UNIQUE', 'ok']);
  assert.deepEqual(await values(), ['a', 'b', 'c']);
});

test('a failed commit is an error only for the statement that caused it', async () => {
  await client.exec(`CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`);
  const codes = await settle([
    client.run(insert, ['a']),
    client.run(insert, ['b']),
    client.run('INSERT INTO child VALUES (9)'),
    client.run(insert, ['c']),
    client.run(insert, ['d']),
  ]);
  assert.deepEqual(codes, ['ok', 'ok', 'SQLITE_CONSTRAINT_FOREIGNKEY', 'ok', 'ok']);
  assert.deepEqual(await values(), ['a', 'b', 'c', 'd']);
  assert.equal((await client.get('SELECT count(*) AS n FROM child'))?.n, 0);
});

test('a full disk is an error for those who need space; reads and later writes go on', async () => {
  const full = newFile();
  const small = new Client(
    newLanes({
      open: (path) => {
        const raw = openSqlite(path);
        raw.pragma('max_page_count = 20');
        return new Database(raw, 'full');
      },
    }),
    full,
  );
  await small.exec('CREATE TABLE t (v)');
  const big = 'INSERT INTO t VALUES (zeroblob(200000))';
  const codes = await settle([
    small.run(insert, ['a']),
    small.run(big),
    small.run(insert, ['b']),
    small.batch([
      [insert, ['x']],
      [big, []],
    ]),
    small.all('SELECT v FROM t'),
  ]);
  assert.deepEqual(codes, ['ok', 'SQLITE_FULL', 'ok', 'SQLITE_FULL', 'ok']);
  await small.run(insert, ['c']);
  assert.deepEqual(await values(small), ['a', 'b', 'c']);
});

test('a batch is atomic, and others in its group are not affected', async () => {
  const codes = await settle([
    client.run(insert, ['a']),
    client.batch([
      [insert, ['b']],
      [insert, ['a']],
    ]),
    client.batch([
      [insert, ['c']],
      [insert, ['d']],
    ]),
  ]);
  assert.deepEqual(codes, ['ok', 'SQLITE_CONSTRAINT_UNIQUE', 'ok']);
  assert.deepEqual(await values(), ['a', 'c', 'd']);
});

test('a failing batch names the statement', async () => {
  await assert.rejects(
    client.batch([
      [insert, ['b']],
      ['INSERT INTO nowhere VALUES (1)', []],
    ]),
    /Statement 2 of the batch: no such table: nowhere/,
  );
});

test('exec is all or none', async () => {
  await assert.rejects(client.exec("INSERT INTO t VALUES ('a'); INSERT INTO nowhere VALUES (1)"), {
    code: 'SQLITE_ERROR',
  });
  assert.deepEqual(await values(), []);
});

test('RETURNING answers rows, and the write is kept', async () => {
  assert.deepEqual(await client.get(`${insert} RETURNING v, rowid`, ['a']), { v: 'a', rowid: 1 });
  assert.deepEqual(await client.all('INSERT INTO t VALUES (1), (2) RETURNING v'), [{ v: 1 }, { v: 2 }]);
  assert.deepEqual(await values(), ['a', 1, 2]);
});

test('a result over the limit is an error that names it, and what it wrote is undone', async () => {
  const rows = `WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x <= ${LIMITS.readRows})`;
  await assert.rejects(client.all(`${rows} SELECT x FROM n`), { code: 'SQLITE_TOOBIG', message: /100000 rows/ });
  await assert.rejects(client.all(`INSERT INTO t ${rows} SELECT x FROM n RETURNING v`), { code: 'SQLITE_TOOBIG' });
  assert.deepEqual(await values(), []);
});

const ROUND_TRIPS: [name: string, sent: unknown, stored: string][] = [
  ['null', null, 'null'],
  ['text', 'ä\u{1f600}', 'text'],
  ['real', 1.5, 'real'],
  ['an integer beyond 2^53', 9_007_199_254_740_993n, 'integer'],
  ['the least 64-bit integer', -(2n ** 63n), 'integer'],
  ['a blob', Buffer.from([0, 255]), 'blob'],
  ['bytes', new Uint8Array([1, 2]), 'blob'],
];
for (const [name, sent, stored] of ROUND_TRIPS) {
  test(`values: ${name}`, async () => {
    await client.run(insert, [sent]);
    const row = await client.get('SELECT v, typeof(v) AS type FROM t');
    assert.equal(row?.type, stored);
    assert.deepEqual(row?.v, sent instanceof Uint8Array ? Buffer.from(sent) : sent);
  });
}

test('integers that a number holds come as numbers', async () => {
  const row = await client.get('SELECT 9007199254740991 AS max, -9007199254740991 AS min, 9007199254740992 AS over');
  assert.deepEqual(row, { max: 9007199254740991, min: -9007199254740991, over: 9007199254740992n });
});

test('named parameters', async () => {
  await client.run('INSERT INTO t VALUES (:v)', { v: 'a' });
  assert.deepEqual(await values(), ['a']);
});

const REFUSED: [name: string, sql: string, params: unknown[], code: string][] = [
  ['too few parameters', insert, [], 'SQLITE_MISUSE'],
  ['too many parameters', insert, [1, 2], 'SQLITE_MISUSE'],
  ['a value that SQLite has no type for', insert, [{}], 'SQLITE_MISUSE'],
  ['two statements', 'DELETE FROM t; DELETE FROM t', [], 'SQLITE_MISUSE'],
  ['ATTACH', "ATTACH 'other.sqlite' AS o", [], 'SQLITE_AUTH'],
  ['COMMIT', 'COMMIT', [], 'SQLITE_AUTH'],
  ['ROLLBACK', 'ROLLBACK', [], 'SQLITE_AUTH'],
  ['a PRAGMA that changes the connection', 'PRAGMA synchronous = OFF', [], 'SQLITE_AUTH'],
  ['a syntax error', 'INSRT', [], 'SQLITE_ERROR'],
];
for (const [name, sql, params, code] of REFUSED) {
  test(`refused alone: ${name}`, async () => {
    const codes = await settle([client.run(insert, ['a']), client.run(sql, params), client.run(insert, ['b'])]);
    assert.deepEqual(codes, ['ok', code, 'ok']);
    assert.deepEqual(await values(), ['a', 'b']);
  });
}

test('exec refuses what run refuses', async () => {
  await assert.rejects(client.exec("INSERT INTO t VALUES ('a'); COMMIT"), { code: 'SQLITE_AUTH' });
  assert.deepEqual(await values(), []);
});

test('a transaction sees its own writes; others wait until it ends', async () => {
  const other = new Client(lanes, file);
  const tx = await client.begin();
  await client.run(insert, ['a'], tx);
  const waits = other.all('SELECT v FROM t');
  assert.deepEqual(await client.get('SELECT v FROM t', [], tx), { v: 'a' });
  assert.deepEqual(other.answered, []);
  await client.commit(tx);
  assert.deepEqual(await waits, [{ v: 'a' }]);
});

test('rollback undoes, and waiting operations continue', async () => {
  const tx = await client.begin();
  await client.run(insert, ['a'], tx);
  const waits = client.run(insert, ['b']);
  await client.rollback(tx);
  await waits;
  assert.deepEqual(await values(), ['b']);
});

test('two transactions of one connection are served one after the other', async () => {
  const first = await client.begin();
  const second = client.begin();
  await client.run(insert, ['a'], first);
  await client.commit(first);
  const tx = await second;
  assert.notEqual(tx, first);
  await client.run(insert, ['b'], tx);
  await client.commit(tx);
  assert.deepEqual(await values(), ['a', 'b']);
});

test('a lease ends on time: rolled back, the next one is served, and the late one is told', async () => {
  const tx = await client.begin();
  await client.run(insert, ['a'], tx);
  const waits = client.run(insert, ['b']);
  clock.advance(LIMITS.leaseMs - 1);
  await client.run(insert, ['a2'], tx);
  clock.advance(1);
  await waits;
  await assert.rejects(client.run(insert, ['c'], tx), { code: 'SQLITE_TX_ENDED', message: /more than 5000 ms/ });
  await assert.rejects(client.commit(tx), { code: 'SQLITE_TX_ENDED' });
  assert.deepEqual(await values(), ['b']);
});

test('a connection that dies in its transaction is rolled back, and its waiting statements are dropped', async () => {
  const other = new Client(lanes, file);
  const tx = await client.begin();
  await client.run(insert, ['a'], tx);
  void client.run(insert, ['b']);
  void client.begin();
  client.close();
  await other.run(insert, ['c']);
  assert.deepEqual(await values(other), ['c']);
});

test('no other connection can use the number of a transaction', async () => {
  const other = new Client(lanes, file);
  const tx = await client.begin();
  await assert.rejects(other.run(insert, ['a'], tx), { code: 'SQLITE_TX_ENDED' });
  await client.commit(tx);
});

test('a commit that fails rolls the transaction back', async () => {
  await client.exec(`CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`);
  const tx = await client.begin();
  await client.run('INSERT INTO child VALUES (9)', [], tx);
  await assert.rejects(client.commit(tx), { code: 'SQLITE_CONSTRAINT_FOREIGNKEY' });
  await client.run(insert, ['a']);
  assert.equal((await client.get('SELECT count(*) AS n FROM child'))?.n, 0);
});

test('a commit is refused after a failure that its asker did not know of, and only then', async () => {
  await client.exec('CREATE TABLE IF NOT EXISTS since (id INTEGER PRIMARY KEY)');
  const known = await client.begin();
  await assert.rejects(client.run('INSERT INTO since VALUES (x)', [], known), /no such column/);
  const write = client.run('INSERT INTO since VALUES (1)', [], known);
  await Promise.all([write, client.commit(known, client.lastId)]);
  assert.deepEqual(await client.all('SELECT id FROM since'), [{ id: 1 }]);
  const unknown = await client.begin();
  const since = client.lastId + 1;
  const outcomes = await Promise.allSettled([
    client.run('INSERT INTO since VALUES (2)', [], unknown),
    client.run('INSERT INTO since VALUES (1)', [], unknown),
    client.run('INSERT INTO since VALUES (3)', [], unknown),
    client.commit(unknown, since),
  ]);
  const codes = outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.code : 'ok'));
  assert.deepEqual(codes, ['ok', 'SQLITE_CONSTRAINT_PRIMARYKEY', 'ok', 'SQLITE_ABORT']);
  assert.deepEqual(await client.all('SELECT id FROM since'), [{ id: 1 }]);
});

test('a batch in a transaction is all or none, and the transaction lives on', async () => {
  const tx = await client.begin();
  await client.run(insert, ['a'], tx);
  await assert.rejects(
    client.batch(
      [
        [insert, ['b']],
        [insert, ['a']],
      ],
      tx,
    ),
  );
  await client.commit(tx);
  assert.deepEqual(await values(), ['a']);
});

test('a transaction in one database does not hold up another', async () => {
  const other = new Client(lanes, newFile());
  await client.begin();
  await other.exec('CREATE TABLE t (v)');
  await other.run(insert, ['a']);
  assert.deepEqual(await values(other), ['a']);
});

test('a file that is no database is an error for its own lane', async () => {
  const broken = new Client(lanes, join(directory, 'no-such-folder', 'data.sqlite'));
  await assert.rejects(broken.run(insert, ['a']));
  await client.run(insert, ['a']);
});

test('a lane takes only so many waiting statements', async () => {
  const tx = await client.begin();
  const codes = settle(Array.from({ length: LIMITS.laneQueue + 1 }, () => client.get('SELECT 1')));
  await client.commit(tx);
  const outcomes = await codes;
  assert.deepEqual([outcomes.at(0), outcomes.at(-2), outcomes.at(-1)], ['ok', 'ok', 'SQLITE_BUSY']);
});

test('the log does not grow for ever, even when no checkpoint gets to its end', async () => {
  const path = newFile();
  let checkpoints = 0;
  let finished = Promise.resolve();
  // A reader keeps the checkpoint from copying what is written while it works.
  const checkpointBesideWrites = async (): Promise<void> => {
    checkpoints++;
    const reader = openSqlite(path, { readonly: true });
    reader.exec('BEGIN; SELECT count(*) FROM t');
    await writer.run('INSERT INTO t VALUES (1)');
    await checkpoint(path);
    reader.close();
  };
  const busy = newLanes({
    checkpoint: () => {
      finished = checkpointBesideWrites();
      return finished;
    },
  });
  const writer = new Client(busy, path);
  await writer.exec('CREATE TABLE t (v)');
  const pages = LIMITS.checkpointPages + 1;
  const rounds = Math.ceil(LIMITS.walPages / pages) + 4;
  for (let i = 0; i < rounds; i++) {
    await writer.run('INSERT INTO t VALUES (zeroblob(?))', [pages * PAGE_BYTES]);
    await finished;
  }
  assert.equal(checkpoints, rounds);
  const size = statSync(`${path}-wal`).size;
  assert.ok(size < (LIMITS.walPages + 2 * pages) * PAGE_BYTES, `${size} bytes`);
});

test('close releases the file, empties the log and ends other connections', async () => {
  const other = new Client(lanes, file);
  await client.run(insert, ['a']);
  assert.equal(lanes.open, 1);
  await client.release();
  assert.equal(lanes.open, 0);
  assert.equal(existsSync(`${file}-wal`), false);
  assert.equal(other.closed, true);
  assert.deepEqual(await values(), ['a']);
});

test('an operation may be stored once its commit begins, and nothing of a transaction before', async () => {
  const pulse = new Pulse();
  const beat = pulse.beat.bind(pulse);
  let client: Client | null = null;
  const before: number[] = [];
  pulse.beat = (brief) => {
    if (client) before.push(client.stored.operations.length + client.stored.commits.length);
    beat(brief);
  };
  client = new Client(newLanes({ pulse }), newFile());
  await client.exec('CREATE TABLE t (v)');
  await client.run(insert, ['a']).then(() => client?.run('no SQL').catch(() => {}));
  const tx = await client.begin();
  await client.run(insert, ['b'], tx);
  const seen = before.length;
  const commit = client.commit(tx);
  assert.deepEqual(new Set(before.slice(seen)), new Set([3]));
  await commit;
  // Not the `begin`, nor what is in the transaction.
  assert.deepEqual(client.stored, { operations: [1, 2, 3], commits: [client.lastId] });
  // The beats of each operation and of its commit come before.
  assert.deepEqual(before.slice(0, 3), [0, 0, 0]);
});

test('only the statements of a brief client are brief, not the commits', async () => {
  const beats: boolean[] = [];
  const pulse = new Pulse();
  const beat = pulse.beat.bind(pulse);
  pulse.beat = (brief = false) => {
    beats.push(brief);
    beat(brief);
  };
  const watched = newLanes({ pulse });
  const path = newFile();
  const brief = new Client(watched, path);
  brief.brief = true;
  const other = new Client(watched, path);
  await brief.exec('CREATE TABLE t (v)');
  beats.length = 0;
  await Promise.all([brief.run('INSERT INTO t VALUES (1)'), other.run('INSERT INTO t VALUES (2)')]);
  // The begin of the group, its statements, and its commit.
  assert.deepEqual(beats, [false, true, false, false]);
});

test('a database without connections is closed after a while, not before', async () => {
  await client.run(insert, ['a']);
  client.close();
  clock.advance(LIMITS.databaseIdleMs - 1);
  assert.equal(lanes.open, 1);
  clock.advance(1);
  assert.equal(lanes.open, 0);
});

test('a drain finishes waiting operations and closes everything', async () => {
  const last = client.run(insert, ['a']);
  await lanes.drain();
  await last;
  assert.equal(lanes.open, 0);
  assert.equal(existsSync(`${file}-wal`), false);
});

const run = { request: [Kind.db, 1, DbOp.run, 0, 'x', []] as FrameOf<'db'> };
const batch = {
  request: [Kind.db, 1, DbOp.batch, 0, Array.from({ length: 600 }, (): SqlStatement => ['x', []])] as FrameOf<'db'>,
};
const begin = { request: [Kind.db, 1, DbOp.begin, 0] as FrameOf<'db'> };
const GROUPS: [name: string, queue: { request: FrameOf<'db'> }[], length: number][] = [
  ['nothing', [], 0],
  ['what is before a begin', [run, run, begin, run], 2],
  ['nothing before a begin that is first', [begin, run], 0],
  ['at most the limit', Array.from({ length: LIMITS.groupCommit + 1 }, () => run), LIMITS.groupCommit],
  ['a batch counts as its statements', [run, batch, batch], 2],
  ['the first is always taken', [{ request: [Kind.db, 1, DbOp.batch, 0, Array(5000).fill(['x', []])] }], 1],
];
for (const [name, queue, length] of GROUPS) {
  test(`group: ${name}`, () => assert.equal(groupLength(queue), length));
}
