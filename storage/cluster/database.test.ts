import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { after, afterEach, describe, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { freePort } from '../../testing/free-port.ts';
import { database, type Postgres, postgres, whyNoPostgres } from '../../testing/postgres.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import { Database, isAway, stateOf, withoutPassword } from './database.ts';

const AWAY = { code: 'STORAGE_UNAVAILABLE', message: /^The database of the cluster does not answer: / };

test('an address is shown without its password', () => {
  assert.equal(withoutPassword('postgres://svc:secret@db.example:5433/svc'), 'postgres://svc@db.example:5433/svc');
  assert.equal(withoutPassword('postgres://db.example/svc?password=secret'), 'postgres://db.example/svc');
  assert.equal(withoutPassword('postgres://svc:12#secret@db.example/svc'), 'postgres://svc:12');
});

async function errorOf(asked: Promise<unknown>): Promise<Error> {
  return asked.then(
    () => assert.fail('it succeeded'),
    (error: Error) => error,
  );
}

describe('the database of a cluster', { skip: whyNoPostgres() ?? false }, () => {
  const opened: Database[] = [];
  const servers: Postgres[] = [];
  const at = (urls: string[], ...options: [{ connections?: number; answerMs?: number }?]): Database => {
    const one = new Database(urls, ...options);
    opened.push(one);
    return one;
  };
  const port = async (db: Database): Promise<number | undefined> =>
    (await db.rows<{ port: number }>(`SELECT current_setting('port')::integer AS port`))[0]?.port;
  const portOf = (url: string): number => Number(new URL(url).port);

  afterEach(() => Promise.all(opened.splice(0).map((one) => one.close())));
  after(() => Promise.all(servers.map((server) => server.stop())));

  test('of several addresses, the next one is asked in the same call when one is away, or a standby', async () => {
    const [one, two] = (await Promise.all([postgres(), postgres()])) as [Postgres, Postgres];
    servers.push(one, two);
    const away = `postgres://svc:secret@127.0.0.1:${await freePort()}/svc`;
    const db = at([away, one.url, two.url]);
    assert.equal(await port(db), portOf(one.url));
    // It answers reads, with what may be old.
    await one.standBy();
    assert.ok(await eventually(LIMIT_MS, async () => (await port(db).catch(() => null)) === portOf(two.url)));
    await two.standBy();
    await assert.rejects(
      eventually(LIMIT_MS, async () => (await port(db)) === undefined),
      AWAY,
    );
    // Whoever connects now is told of each address.
    await assert.rejects(port(at([away, one.url, two.url])), (error: Error) => {
      assert.match(
        error.message,
        /: postgres:\/\/svc@127.+ECONNREFUSED.+; postgres:.+ a standby.+; postgres:.+ a standby/,
      );
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
  });

  test('an answer that came while this process stood still counts, however late it is read', async () => {
    const answerMs = 300;
    const db = at([await database()], { connections: 1, answerMs });
    const pid = async (): Promise<number> =>
      (await db.rows<{ pid: number }>('SELECT pg_backend_pid() AS pid'))[0]?.pid ?? 0;
    const first = await pid();
    const asked = pid();
    // It is sent before the next turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * answerMs);
    assert.equal(await asked, first);
    await assert.rejects(db.rows(`SELECT pg_sleep(${LIMIT_MS / 1000})`), AWAY);
  });

  test('a failure to connect is that of all who wait for a connection', async () => {
    const sockets: Socket[] = [];
    // Takes connections and says nothing.
    const silent = createServer((socket) => void sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port: listens } = silent.address() as { port: number };
    const db = at([`postgres://svc@127.0.0.1:${listens}/svc`], { connections: 1, answerMs: 300 });
    for (const asked of await Promise.allSettled(Array.from({ length: 20 }, () => db.rows('SELECT 1'))))
      assert.equal((asked as PromiseRejectedResult).reason.code, 'STORAGE_UNAVAILABLE');
    assert.equal(sockets.length, 1);
    for (const socket of sockets) socket.destroy();
    silent.close();
  });

  test('an answer that does not come in time is an error, and the next question has another connection', async () => {
    const db = at([await database()], { connections: 1, answerMs: 300 });
    await assert.rejects(db.rows('SELECT pg_sleep(60)'), AWAY);
    assert.deepEqual(await db.rows('SELECT 1 AS one'), [{ one: 1 }]);
    assert.equal((await db.rows({ text: 'SELECT pg_sleep(0.5)', answerMs: 10_000 })).length, 1);
    // What is sent takes its time.
    const megabytes = Buffer.alloc(8 * 2 ** 20);
    assert.equal((await db.rows('SELECT pg_sleep(0.5) WHERE length($1::bytea) > 0', [megabytes])).length, 1);
  });

  test('what the database refuses is told with its state, and does not count as away', async () => {
    const db = at([await database()]);
    const refused = await errorOf(db.rows('SELECT 1 / 0'));
    assert.match(refused.message, /^The database of the cluster answers with an error: division by zero\. /);
    assert.deepEqual([stateOf(refused), isAway(refused)], ['22012', false]);
    const [{ pid } = { pid: 0 }] = await db.rows<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const asked = errorOf(db.rows('SELECT pg_sleep(60)'));
    await db.rows('SELECT pg_terminate_backend($1)', [pid]);
    const ended = await asked;
    assert.deepEqual([(ended as { code?: string }).code, isAway(ended)], ['STORAGE_UNAVAILABLE', true]);
    assert.equal(isAway(new Error('of the disk')), false);
  });

  test('a transaction is done as a whole, or not at all: also when its work hides that a statement failed', async () => {
    const db = at([await database()], { connections: 1 });
    await db.rows('CREATE TABLE notes (v integer UNIQUE)');
    const values = async () => (await db.rows<{ v: number }>('SELECT v FROM notes ORDER BY v')).map(({ v }) => v);
    await db.transaction(async (session) => {
      for (const v of [1, 2]) await session.rows('INSERT INTO notes VALUES ($1)', [v]);
    });
    const stallIn = (mode?: string) =>
      db.transaction((session) => session.rows('SHOW idle_in_transaction_session_timeout'), mode);
    assert.deepEqual(await stallIn(), [
      { idle_in_transaction_session_timeout: `${LIMITS.transactionStallMs / 1000}s` },
    ]);
    assert.deepEqual(await stallIn('READ ONLY'), [
      { idle_in_transaction_session_timeout: `${LIMITS.readingStallMs / 60_000}min` },
    ]);
    const broken = new Error('of the work');
    const work = async (session: { rows: Database['rows'] }): Promise<void> => {
      await session.rows('INSERT INTO notes VALUES (3)');
      throw broken;
    };
    await assert.rejects(db.transaction(work), (error) => error === broken);
    const hides = db.transaction(async (session) => {
      await session.rows('INSERT INTO notes VALUES (4)');
      await session.rows('INSERT INTO notes VALUES (1)').catch(() => {});
    });
    await assert.rejects(hides, (error) => stateOf(error) === '23505');
    assert.deepEqual(await values(), [1, 2]);
    const readOnly = db.transaction((session) => session.rows('INSERT INTO notes VALUES (5)'), 'READ ONLY');
    await assert.rejects(readOnly, (error) => stateOf(error) === '25006');
  });

  test('what is asked is answered before the connections close, and nothing is asked after it', async () => {
    const db = at([await database()], { connections: 2 });
    const asked = Array.from({ length: 5 }, (_, n) => db.rows(`SELECT pg_sleep(0.1), ${n} AS n`));
    const closed = db.close();
    assert.deepEqual(
      (await Promise.all(asked)).flat().map((row) => (row as { n: number }).n),
      [0, 1, 2, 3, 4],
    );
    await closed;
    await assert.rejects(db.rows('SELECT 1'), AWAY);
  });
});
