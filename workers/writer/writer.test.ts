import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, beforeEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LIMITS } from '../../protocol/limits.ts';
import { encodeFrame } from '../../protocol/wire/codec.ts';
import { DbClient } from '../../protocol/wire/db-client.ts';
import { DbOp, type EarlierClients, type Frame, type FrameOf, Kind } from '../../protocol/wire/frames.ts';
import { Link, openLink } from '../../protocol/wire/link.ts';
import { signTicket, type Ticket } from '../../protocol/wire/ticket.ts';
import { openSqlite } from '../../storage/sqlite.ts';

const ENTRY = fileURLToPath(new URL('../../dist/writer.cjs', import.meta.url));
const insert = 'INSERT INTO t VALUES (?)';

/** What a supervisor is to the writer: the socket that it reports to. */
class Supervisor {
  readonly #server: Server;
  readonly #links: Link[] = [];
  readonly #seen: Frame[] = [];
  #arrived: (() => void)[] = [];

  constructor(path: string) {
    this.#server = createServer((socket) => {
      this.#links.push(new Link(socket, { onFrame: (frame) => this.#receive(frame), onClose: () => {} }));
    }).listen(path);
  }

  /** The first frame of this kind, once it is there. */
  async frame<T extends Frame>(kind: T[0]): Promise<T> {
    for (;;) {
      const at = this.#seen.findIndex((frame) => frame[0] === kind);
      if (at >= 0) return this.#seen.splice(at, 1)[0] as T;
      await new Promise<void>((resolve) => this.#arrived.push(resolve));
    }
  }

  /** To the main thread of the writer, which connects first. */
  send(frame: Frame): void {
    this.#links[0]?.send(frame);
  }

  /** To its watch thread. */
  sendToWatch(frame: Frame): void {
    this.#links[1]?.send(frame);
  }

  close(): void {
    for (const link of this.#links) link.close();
    this.#server.close();
  }

  #receive(frame: Frame): void {
    this.#seen.push(frame);
    const arrived = this.#arrived;
    this.#arrived = [];
    for (const resolve of arrived) resolve();
  }
}

const key = randomBytes(32);
const sockets = mkdtempSync(join(tmpdir(), 'writer-'));
const writerSocket = join(sockets, 'writer.sock');
/** Where the databases of a test are. */
let directory: string;
/** Serves one test after the other, until a test ends it or needs another one. */
let writer: ChildProcess;
let supervisor: Supervisor;
let clients: DbClient[];
let starts = 0;
/** The writer runs, and takes every database. */
let isUsable = false;

type More = { only?: string; elsewhere?: Record<string, string>; before?: EarlierClients };

async function spawnWriter(name: string, more: More) {
  const supervisorSocket = join(sockets, `supervisor-${++starts}.sock`);
  const started = new Supervisor(supervisorSocket);
  const socket = join(sockets, `${name}.sock`);
  const process_ = spawn(process.execPath, [ENTRY], { stdio: ['pipe', 'ignore', 'ignore'], env: {} });
  const bootstrap = {
    supervisorSocket,
    writerSocket: socket,
    ticket: signTicket({ role: 'writer', name }, key),
    watchTicket: signTicket({ role: 'writer-watch', name }, key),
    key: key.toString('hex'),
    durability: 'full',
    only: null,
    elsewhere: {},
    before: { progress: [], isPartial: true },
    ...more,
  };
  process_.stdin?.write(`${JSON.stringify(bootstrap)}\n`);
  await started.frame(Kind.ready);
  return { socket, process: process_, supervisor: started };
}

async function startWriter(more: More = {}): Promise<void> {
  if (starts > 0) supervisor.close();
  ({ process: writer, supervisor } = await spawnWriter('writer', more));
  writer.once('exit', () => {
    isUsable = false;
  });
  isUsable = more.only === undefined && more.elsewhere === undefined;
}

function client(ticket: Partial<Extract<Ticket, { role: 'database' }>> = {}): DbClient {
  const whole = {
    role: 'database',
    name: 'app',
    file: join(directory, 'app.sqlite'),
    maintain: false,
    ...ticket,
  } as const;
  const made = new DbClient((handlers, connectionId, socket = writerSocket) =>
    openLink(socket, signTicket(whole, key), handlers, connectionId),
  );
  clients.push(made);
  return made;
}

async function ended(process: ChildProcess): Promise<number | null> {
  if (process.exitCode === null && process.signalCode === null) await once(process, 'exit');
  return process.exitCode;
}

beforeEach(async () => {
  clients = [];
  directory = mkdtempSync(join(tmpdir(), 'writer-'));
  if (!isUsable) await startWriter();
});

afterEach(() => {
  for (const one of clients) one.end();
  rmSync(directory, { recursive: true });
});

after(async () => {
  writer.kill('SIGKILL');
  await ended(writer);
  supervisor.close();
  rmSync(sockets, { recursive: true });
});

test('its socket is for this user only', () => {
  assert.equal(statSync(writerSocket).mode & 0o777, 0o600);
});

// The first one with a database, whose counters are of its statements alone.
test('concurrent statements share commits, keep their order, and are counted', async () => {
  const db = client();
  await db.exec('CREATE TABLE t (v)');
  const values = Array.from({ length: 500 }, (_, i) => i);
  await Promise.all(values.map((value) => db.run(insert, [value])));
  assert.deepEqual(
    (await db.all('SELECT v FROM t ORDER BY rowid')).map((row) => row.v),
    values,
  );
  supervisor.send([Kind.ping, 7]);
  const [, n, stats] = await supervisor.frame<FrameOf<'pong'>>(Kind.pong);
  assert.equal(n, 7);
  assert.ok(stats.rss && stats.heapUsed > 0 && stats.cpuUser, JSON.stringify(stats));
  const { statements, commits, groupMax, open } = stats.counters ?? {};
  assert.equal(statements, 502);
  assert.ok(commits !== undefined && commits < 50, `${commits} commits`);
  assert.ok(groupMax !== undefined && groupMax > 10, `${groupMax} in the largest group`);
  assert.equal(open, 1);
});

test('answered writes are there after a kill -9', async () => {
  const db = client();
  await db.exec('CREATE TABLE t (v)');
  const answered: number[] = [];
  const statements = Array.from({ length: 2000 }, (_, i) =>
    db.run(insert, [i]).then(
      () => {
        answered.push(i);
        if (answered.length === 500) writer.kill('SIGKILL');
      },
      (error: Error & { code: string }) => assert.equal(error.code, 'WRITER_LOST'),
    ),
  );
  await ended(writer);
  await startWriter();
  await Promise.all(statements);
  const reader = openSqlite(join(directory, 'app.sqlite'), { readonly: true });
  const stored = new Set(reader.prepare('SELECT v FROM t').pluck().all());
  reader.close();
  assert.ok(answered.length >= 500, `${answered.length} answered`);
  assert.deepEqual(
    answered.filter((i) => !stored.has(i)),
    [],
  );
});

test('a client goes on with the writer that replaces one that was killed, its transaction too', async () => {
  const db = client();
  await db.exec('CREATE TABLE t (v)');
  const tx = await db.begin();
  const [first, second] = [await db.run(insert, ['a'], tx), await db.get('SELECT count(*) AS n FROM t', [], tx)];
  assert.deepEqual([first.changes, second], [1, { n: 1 }]);
  writer.kill('SIGKILL');
  await ended(writer);
  const later = db.run(insert, ['b'], tx);
  await startWriter();
  await later;
  const behind = db.run(insert, ['c']);
  await db.commit(tx);
  await behind;
  assert.notEqual(await db.begin(), tx);
  const rows = openSqlite(join(directory, 'app.sqlite'), { readonly: true });
  assert.deepEqual(rows.prepare('SELECT v FROM t').pluck().all(), ['a', 'b', 'c']);
  rows.close();
});

test('a connection that dies in its transaction frees the lane', async () => {
  const [dying, other] = [client(), client()];
  await other.exec('CREATE TABLE t (v)');
  const tx = await dying.begin();
  await dying.run(insert, ['a'], tx);
  const waits = other.all('SELECT v FROM t');
  dying.end();
  assert.deepEqual(await waits, []);
});

const TICKETS: [name: string, ticket: () => string][] = [
  [
    'signed with another key',
    () =>
      signTicket({ role: 'database', name: 'app', file: join(directory, 'x.sqlite'), maintain: true }, randomBytes(32)),
  ],
  ['of another role', () => signTicket({ role: 'actor', actorId: 1, app: 'app' }, key)],
  [
    'of another role that has everything else',
    () => {
      const place = { name: 'app', file: join(directory, 'x.sqlite'), maintain: true };
      return signTicket({ ...place, role: 'actor', actorId: 1, app: 'app' } as Ticket, key);
    },
  ],
  ['that is none', () => 'hello'],
];
for (const [name, ticket] of TICKETS) {
  test(`no entry with a ticket ${name}`, async () => {
    const stranger = new DbClient((handlers) => openLink(writerSocket, ticket(), handlers));
    clients.push(stranger);
    await assert.rejects(stranger.run('CREATE TABLE t (v)'), { code: 'WRITER_LOST' });
    assert.equal(existsSync(join(directory, 'x.sqlite')), false);
  });
}

const HOSTILE: [name: string, bytes: () => Buffer][] = [
  ['random bytes', () => Buffer.alloc(64, 0xc1)],
  ['a frame of 4 GiB', () => Buffer.from([0xff, 0xff, 0xff, 0xff, 0])],
  ['a frame of another kind', () => encodeFrame([Kind.stop, 0, true])],
  ['an unknown operation', () => request(99, 0)],
  ['SQL that is no text', () => request(DbOp.run, 0, 7, [])],
  ['parameters that are none', () => request(DbOp.run, 0, 'SELECT 1', null)],
  ['a batch of what is no statement', () => request(DbOp.batch, 0, [['SELECT 1']])],
  ['a transaction that is no number', () => request(DbOp.commit, '1')],
  ['a begin in a transaction', () => request(DbOp.begin, 1)],
  ['a migration without files', () => request(DbOp.migrate, 0, null, null)],
];
function request(...rest: unknown[]): Buffer {
  return encodeFrame([Kind.db, 1, ...rest] as unknown as Frame);
}
test('a hostile frame ends only its own connection', async () => {
  const db = client();
  await db.exec('CREATE TABLE t (v)');
  const hello = encodeFrame([
    Kind.hello,
    signTicket({ role: 'database', name: 'app', file: join(directory, 'app.sqlite'), maintain: true }, key),
  ]);
  for (const [name, bytes] of HOSTILE) {
    const socket = connect(writerSocket);
    socket.on('error', () => {});
    socket.write(Buffer.concat([hello, bytes()]));
    await once(socket, 'close');
    assert.equal((await db.run(insert, [name])).changes, 1, name);
  }
});

test('maintenance is for connections whose ticket says so', async () => {
  const db = client();
  for (const asked of [db.userVersion(), db.migrate([], null), db.close()]) {
    await assert.rejects(asked, { code: 'SQLITE_AUTH' });
  }
});

test('a migration runs in its thread, with a copy before, while other databases go on', async () => {
  const db = client({ maintain: true });
  const other = client({ file: join(directory, 'other.sqlite') });
  const path = join(directory, '0001_t.sql');
  writeFileSync(path, 'CREATE TABLE t (v);');
  const migration = db.migrate([{ name: '0001_t.sql', path }], join(directory, 'backups', 'a'));
  const waits = db.run(insert, ['a']);
  await other.exec('CREATE TABLE u (v)');
  assert.deepEqual(await migration, [1]);
  await waits;
  assert.equal(await db.userVersion(), 1);
  const broken = join(directory, '0002_u.sql');
  writeFileSync(broken, 'INSERT INTO nowhere VALUES (1);');
  await assert.rejects(db.migrate([{ name: '0002_u.sql', path: broken }], join(directory, 'backups', 'b')), {
    code: 'MIGRATION_FAILED',
    path: 'migrations/0002_u.sql',
    message: /no such table: nowhere/,
  });
  assert.deepEqual(readdirSync(join(directory, 'backups')), ['b']);
  assert.deepEqual(await db.all('SELECT v FROM t'), [{ v: 'a' }]);
});

test('close lets go of the file', { skip: process.platform !== 'linux' }, async () => {
  const db = client({ maintain: true });
  const handles = (): string[] =>
    readdirSync(`/proc/${writer.pid}/fd`)
      .map((fd) => readlinkSync(`/proc/${writer.pid}/fd/${fd}`))
      .filter((target) => target.startsWith(join(directory, 'app.sqlite')));
  await db.exec('CREATE TABLE t (v)');
  assert.notDeepEqual(handles(), []);
  await db.close();
  assert.deepEqual(handles(), []);
  assert.equal(existsSync(join(directory, 'app.sqlite-wal')), false);
});

/** Takes as long as the table says. */
const COUNT = `INSERT INTO t WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < (SELECT n FROM most))
  SELECT count(*) FROM n`;
const ENDLESS = 'WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n';

test('what an endless statement held up is done once, by the next writer', async () => {
  const file = join(directory, 'loop.sqlite');
  const [culprit, other, late] = [client({ name: 'looping', file }), client(), client()];
  await other.exec('CREATE TABLE t (v)');
  const endless = culprit.all(ENDLESS);
  // The first one is there when the writer gets stuck, the second one when its connection is not even accepted.
  const waiting = Array.from({ length: 20 }, (_, i) => other.run(insert, [i]));
  const early = late.run(insert, ['late']);
  const stuck = await supervisor.frame<FrameOf<'stuck'>>(Kind.stuck);
  assert.deepEqual(stuck.slice(1, 4), ['looping', file, LIMITS.writerStuckMs]);
  writer.kill('SIGKILL');
  await ended(writer);
  culprit.end();
  await assert.rejects(endless, { code: 'WRITER_LOST' });
  await startWriter({ before: { progress: stuck[4] ?? [], isPartial: false } });
  await Promise.all([...waiting, early]);
  assert.deepEqual(await other.get('SELECT count(*) AS n, count(DISTINCT v) AS d FROM t'), { n: 21, d: 21 });
});

test('a slow statement of an app ends when the supervisor says so; the separate writer does it, with its transaction', async () => {
  const file = join(directory, 'slow.sqlite');
  const [slow, other] = [client({ name: 'slow', file, brief: true }), client()];
  for (const one of [slow, other])
    await one.exec('CREATE TABLE t (v); CREATE TABLE most (n); INSERT INTO most VALUES (1e15)');
  const [tx, otherTx] = [await slow.begin(), await other.begin()];
  await slow.run(insert, ['first'], tx);
  await other.run(insert, [1], otherTx);
  const counted = slow.run(COUNT, [], tx);
  const committed = other.commit(otherTx);
  const behind = other.run(insert, [2]);
  await supervisor.frame<FrameOf<'slow'>>(Kind.slow);
  supervisor.sendToWatch([Kind.halt]);
  const stuck = await supervisor.frame<FrameOf<'stuck'>>(Kind.stuck);
  assert.deepEqual(stuck.slice(1, 4), ['slow', file, LIMITS.writerSlowMs]);
  writer.kill('SIGKILL');
  await ended(writer);
  // It ends soon when it runs again.
  const outside = openSqlite(file);
  outside.exec('UPDATE most SET n = 5');
  outside.close();
  const before = { progress: stuck[4] ?? [], isPartial: false };
  const own = await spawnWriter('own', { only: file, before });
  await startWriter({ elsewhere: { [file]: own.socket }, before });
  await Promise.all([committed, behind, counted]);
  await slow.commit(tx);
  assert.deepEqual(await other.all('SELECT v FROM t'), [{ v: 1 }, { v: 2 }]);
  assert.deepEqual(await slow.all('SELECT v FROM t'), [{ v: 'first' }, { v: 5 }]);
  own.process.kill('SIGKILL');
  await ended(own.process);
  own.supervisor.close();
});

test('what was committed is answered before a statement of another transaction that takes long', async () => {
  const file = join(directory, 'slow.sqlite');
  const [slow, other] = [client({ name: 'slow', file, brief: true }), client()];
  await other.exec('CREATE TABLE t (v)');
  // The writer reads first from who asked last, where it is stopped soon after that.
  const [tx, otherTx] = [await slow.begin(), await other.begin()];
  // All of it arrives at once.
  writer.kill('SIGSTOP');
  const done = Promise.all([
    ...Array.from({ length: 5 }, (_, i) => other.run(insert, [i], otherTx)),
    other.commit(otherTx),
  ]);
  await delay(50);
  const endless = assert.rejects(slow.all(ENDLESS, [], tx), { code: 'WRITER_LOST' });
  await delay(50);
  writer.kill('SIGCONT');
  await supervisor.frame<FrameOf<'slow'>>(Kind.slow);
  const outcome = await Promise.race([done.then(() => 'answered'), delay(1000).then(() => 'waits')]);
  const rows = openSqlite(join(directory, 'app.sqlite'), { readonly: true });
  const stored = rows.prepare('SELECT count(*) FROM t').pluck().get();
  rows.close();
  slow.end();
  await endless;
  writer.kill('SIGKILL');
  await ended(writer);
  await done.catch(() => {});
  // Where the writer read the slow statement first, nothing was committed before it.
  if (stored !== 0) assert.equal(outcome, 'answered');
});

test('a writer that takes over after a death without a report does nothing twice', async () => {
  const db = client();
  await db.exec('CREATE TABLE t (v)');
  const outcomes = Promise.allSettled(Array.from({ length: 50 }, (_, i) => db.run(insert, [i])));
  writer.kill('SIGKILL');
  await ended(writer);
  await startWriter();
  for (const outcome of await outcomes)
    if (outcome.status === 'rejected') assert.equal((outcome.reason as { code: string }).code, 'WRITER_LOST');
  const doubled = await db.all('SELECT v FROM t GROUP BY v HAVING count(*) > 1');
  assert.deepEqual(doubled, []);
});

test('a writer refuses the databases of others', async () => {
  const own = join(directory, 'own.sqlite');
  await client().exec('CREATE TABLE t (v)');
  writer.kill('SIGKILL');
  await ended(writer);
  await startWriter({ only: join(directory, 'app.sqlite') });
  await assert.rejects(client({ file: own }).exec('CREATE TABLE t (v)'), { code: 'WRITER_LOST' });
  assert.equal(existsSync(own), false);
  await client().run(insert, ['a']);
});

test('stop finishes queued operations, empties the logs and exits with 0', async () => {
  const db = client();
  await db.exec('CREATE TABLE t (v)');
  const last = Promise.all(Array.from({ length: 100 }, (_, i) => db.run(insert, [i])));
  await db.run(insert, ['marker']);
  supervisor.send([Kind.stop, 0, false]);
  await last;
  assert.equal(await ended(writer), 0);
  assert.equal(existsSync(join(directory, 'app.sqlite-wal')), false);
});

test('it ends with its parent: stdin closed', async () => {
  writer.stdin?.end();
  await ended(writer);
});

test('it ends with its supervisor: connection closed, and an open transaction leaves nothing', async () => {
  const db = client();
  await db.exec('CREATE TABLE t (v)');
  await db.run(insert, ['a'], await db.begin());
  supervisor.close();
  await ended(writer);
  const reader = openSqlite(join(directory, 'app.sqlite'), { readonly: true });
  assert.equal(reader.prepare('SELECT count(*) FROM t').pluck().get(), 0);
  reader.close();
});
