// Writes that take long or never end, of handlers and by SQL of callers: they go on in a separate writer for their app, and no write
// of another app fails or waits for long.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { openSqlite } from '../storage/sqlite.ts';
import { appOf } from '../testing/apps.ts';
import { startGateway, type TestGateway } from '../testing/gateway.ts';

const CLIENTS = 4;
/** Apps whose callers send SQL; each is asked once. With the others they have as many writers as there may be (`LIMITS.ownWriters`). */
const ASKED = ['asked1', 'asked2'];
const ENDLESS = `INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n`;

const COUNT = `INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?) SELECT count(*) FROM n`;

const tool = (run: string) => ({ run, writes: ['t'] });
const ENDLESS_TOOL = tool(`async ({ db }) => { await db.run('${ENDLESS}'); return { body: 1 }; }`);
const APP = {
  queries: { all: `async ({ db }) => (await db.all('SELECT n FROM t')).map((row) => row.n)` },
  actions: {
    put: tool(`async ({ db, input }) => { await db.run('INSERT INTO t VALUES (?)', input.n); return { body: 1 }; }`),
    endless: ENDLESS_TOOL,
    hasty: { ...ENDLESS_TOOL, timeoutMs: 400 },
    putTwice: tool(`async ({ db, input }) => {
      await db.transaction(async (tx) => {
        await tx.run('INSERT INTO t VALUES (?)', input.n);
        const { n } = await tx.get('SELECT max(rowid) AS n FROM t');
        await tx.run('UPDATE t SET n = ? WHERE rowid = ?', input.n, n);
      });
      return { body: 1 };
    }`),
    count: tool(`async ({ db, input }) => {
      return db.transaction(async (tx) => {
        await tx.run('INSERT INTO t VALUES (?)', input.n);
        await tx.run('${COUNT}', input.most);
        return { body: await tx.get('SELECT count(*) AS rows, max(n) AS most FROM t') };
      });
    }`),
  },
  migrations: ['CREATE TABLE t (n INTEGER);'],
};

/** Clients that write one row after the other until they are told to stop. */
class Writing {
  readonly written: number[] = [];
  /** When each of these was asked for and answered, on the clock of `performance.now`. */
  readonly #times: { asked: number; answered: number }[] = [];
  readonly #gateway: TestGateway;
  readonly #clients: Promise<void>[];
  #last = 0;
  #stopped = false;

  constructor(gateway: TestGateway) {
    this.#gateway = gateway;
    this.#clients = Array.from({ length: CLIENTS }, () => this.#write());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#clients);
  }

  /**
   * Asserts that a statement, which `run` waits for and which ran for the last `ms` of it at least, keeps none of them waiting.
   * A busy machine may do next to nothing during a short one: it has more than one of the `tries`, which are told apart by their
   * number. Resolves with how many were needed.
   */
  async assertGoOn(ms: number, tries: number, run: (tried: number) => Promise<void>): Promise<number> {
    for (let tried = 1; tried <= tries; tried++) {
      await run(tried);
      const now = performance.now();
      const within = this.#times.filter(({ asked, answered }) => asked > now - ms && answered < now);
      // Each client has one write under way: where these wait, no other is asked for.
      if (within.length > CLIENTS) return tried;
    }
    assert.fail(`${CLIENTS} writes at most during the last ${ms} ms of the statement, ${tries} times`);
  }

  async #write(): Promise<void> {
    while (!this.#stopped) {
      const n = ++this.#last;
      const asked = performance.now();
      const answer = await this.#gateway.write('other', n % 2 === 0 ? 'put' : 'putTwice', { n });
      assert.equal(answer.status, 200, answer.text);
      this.written.push(n);
      this.#times.push({ asked, answered: performance.now() });
    }
  }
}

/** Counting so far takes longer than a statement may keep the shared writer busy, and not so long that it is given up. */
function slowCount(): number {
  const database = openSqlite(':memory:');
  database.exec('CREATE TABLE t (n)');
  const began = performance.now();
  database.prepare(COUNT).run(1e6);
  database.close();
  return Math.ceil((1e6 * 3 * LIMITS.writerSlowMs) / (performance.now() - began));
}

/** The writers that run, by name. */
async function writers(gateway: TestGateway): Promise<Record<string, { pid: number; restarts: number }>> {
  const { processes } = await gateway.system();
  const all = processes.filter(({ role }: { role: string }) => role === 'writer');
  return Object.fromEntries(all.map(({ name, pid, restarts }: never) => [name, { pid, restarts }]));
}

async function endless(gateway: TestGateway, action = 'endless'): Promise<void> {
  const answer = await gateway.write('runaway', action);
  assert.equal(answer.json.error?.code, 'HANDLER_ERROR', answer.text);
}

/** A write of the app that misbehaved: one that comes while its thread and its writer are replaced may be lost with them. */
async function put(gateway: TestGateway, n: number): Promise<void> {
  for (;;) {
    const answer = await gateway.write('runaway', 'put', { n });
    if (answer.status === 200) return;
    assert.equal(answer.json.error.code, 'HANDLER_ERROR', answer.text);
  }
}

/** The rows of the app; a write that was tried again may be there twice. */
async function stored(gateway: TestGateway): Promise<number[]> {
  return [...new Set<number>((await gateway.read('runaway', 'all')).json.data)];
}

test('a write that takes long loses no write of others, and the next one of its app delays none', async (t) => {
  const gateway = await startGateway(t);
  for (const id of ['runaway', 'slow', 'other', ...ASKED])
    assert.equal((await gateway.upload(id, appOf(id, APP))).status, 201);
  assert.equal((await gateway.write('runaway', 'put', { n: 1 })).status, 200);

  const writing = new Writing(gateway);
  // Its caller is answered when the time of the call is up, long before the statement is given up.
  await endless(gateway, 'hasty');
  // Its app has its data, with a separate writer.
  await put(gateway, 2);
  assert.deepEqual(await stored(gateway), [1, 2]);
  const before = await writers(gateway);
  assert.deepEqual([Object.keys(before), before.writer?.restarts], [['writer', 'writer-1'], 1]);

  // It takes seconds until this one is ended; the others keep writing.
  await writing.assertGoOn(LIMITS.writerStuckMs, 1, () => endless(gateway));
  await put(gateway, 3);
  const after = await writers(gateway);
  assert.deepEqual(after.writer, before.writer);
  assert.notEqual(after['writer-1']?.pid, before['writer-1']?.pid);

  // A statement that ends is done, with the transaction that it is in, however long it takes.
  const most = slowCount();
  const counted = await gateway.write('slow', 'count', { n: 7, most });
  assert.deepEqual(counted.json.data, { status: 200, body: { rows: 2, most } }, counted.text);
  assert.deepEqual((await gateway.read('slow', 'all')).json.data, [7, most]);

  const sql = async (app: string, statement: string) =>
    (await gateway.call('POST', `/svc/_apps/${app}/sql`, { body: { sql: statement } })).json;
  // Each time it begins in the shared writer: of an app that has none of its own yet. A process is ended whose time began before that
  // of the statement in the writer.
  const needed = await writing.assertGoOn(LIMITS.sqlMs / 2, ASKED.length, async (tried) => {
    const app = ASKED[tried - 1] as string;
    const params = { name: 'svc_sql_write', arguments: { app, sql: ENDLESS } };
    const [byHand, byAgent] = await Promise.all([
      sql(app, ENDLESS),
      gateway.call('POST', '/svc/_mcp', {
        headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-06-18' },
        body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
      }),
    ]);
    assert.equal(byHand.error.code, 'OUTCOME_UNKNOWN', JSON.stringify(byHand));
    assert.match(byAgent.text, /OUTCOME_UNKNOWN/);
    assert.deepEqual((await sql(app, 'SELECT count(*) FROM t')).rows, [[0]]);
  });
  const moved = await writers(gateway);
  const names = ['writer', ...Array.from({ length: 2 + needed }, (_, i) => `writer-${i + 1}`)];
  assert.deepEqual([Object.keys(moved), moved.writer?.restarts], [names, 2 + needed]);

  await writing.stop();
  const kept: number[] = (await gateway.read('other', 'all')).json.data;
  assert.deepEqual(
    kept.sort((a, b) => a - b),
    writing.written.sort((a, b) => a - b),
  );

  // Versions, removal and return of the app go through its writer.
  const next = appOf('runaway', { ...APP, migrations: [...APP.migrations, 'INSERT INTO t VALUES (4);'] });
  assert.equal((await gateway.upload('runaway', next)).status, 201);
  assert.deepEqual(await stored(gateway), [1, 2, 3, 4]);
  assert.equal((await gateway.call('DELETE', '/svc/_apps/runaway?purge=1')).status, 200);
  assert.equal((await gateway.upload('runaway', appOf('runaway', APP))).status, 201);
  const again = await gateway.write('runaway', 'put', { n: 5 });
  assert.equal(again.status, 200, again.text);
  assert.deepEqual((await gateway.read('runaway', 'all')).json.data, [5]);
  assert.equal(await gateway.stop(), 0, gateway.log);
});
