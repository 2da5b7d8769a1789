// Kills each process of the tree under load: every acknowledged write is there afterwards, no call hangs, nobody has to help.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { startGateway, type TestGateway } from './support/gateway.ts';

const CLIENTS = 12;
/** Far above every timeout of the gateway: a call that takes longer hangs. */
const HANG_MS = 45_000;

const ledger = {
  'app.json': JSON.stringify({
    id: 'ledger',
    name: 'Ledger',
    version: '1.0.0',
    queries: [{ name: 'all' }],
    actions: [
      {
        name: 'put',
        input: { type: 'object', required: ['key'], properties: { key: { type: 'string' } } },
        writes: ['entries'],
      },
    ],
  }),
  'migrations/0001_entries.sql': 'CREATE TABLE entries (key TEXT PRIMARY KEY, half TEXT NOT NULL);',
  'queries/all.js': `export default async ({ db }) => (await db.all('SELECT key, half FROM entries')).map((row) => row.key + row.half);`,
  // Two rows in one batch: one without the other would be half an action.
  'actions/put.js': `export default async ({ body, db }) => {
    await db.batch([
      ['INSERT INTO entries (key, half) VALUES (?, ?)', body.key + '-a', ''],
      ['INSERT INTO entries (key, half) VALUES (?, ?)', body.key + '-b', ''],
    ]);
    return { status: 201, body: body.key };
  };`,
};

/** Clients that write until they are told to stop, and remember what was acknowledged. */
class Load {
  readonly acknowledged: string[] = [];
  readonly answers = new Map<number, number>();
  readonly #gateway: TestGateway;
  #running = true;
  #clients: Promise<void>[] = [];
  #waiters: { count: number; resolve: () => void }[] = [];

  constructor(gateway: TestGateway) {
    this.#gateway = gateway;
    for (let n = 0; n < CLIENTS; n++) this.#clients.push(this.#client(n));
  }

  /** Resolves when this many more writes have been acknowledged. */
  more(count: number): Promise<void> {
    return new Promise((resolve) => this.#waiters.push({ count: this.acknowledged.length + count, resolve }));
  }

  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#clients);
  }

  async #client(id: number): Promise<void> {
    for (let n = 0; this.#running; n++) {
      const key = `${id}-${n}`;
      const status = await notHanging(
        this.#gateway.write('ledger', 'put', { key }).then(
          (answer) => answer.status,
          () => 0,
        ),
      );
      this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
      if (status === 201) this.#acknowledge(key);
      // Nothing listens while the supervisor is gone.
      if (status === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  #acknowledge(key: string): void {
    this.acknowledged.push(key);
    for (const { resolve } of this.#waiters.filter(({ count }) => this.acknowledged.length >= count)) resolve();
    this.#waiters = this.#waiters.filter(({ count }) => this.acknowledged.length < count);
  }
}

function notHanging<T>(call: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout;
  const hung = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`A call hung for ${HANG_MS} ms.`)), HANG_MS);
  });
  return Promise.race([call, hung]).finally(() => clearTimeout(timer));
}

async function checkLedger(gateway: TestGateway, acknowledged: string[]): Promise<void> {
  const answer = await gateway.read('ledger', 'all');
  assert.equal(answer.status, 200, answer.text);
  const rows = new Set<string>(answer.json.data);
  assert.equal(rows.size, answer.json.data.length);
  for (const key of acknowledged)
    assert.ok(rows.has(`${key}-a`) && rows.has(`${key}-b`), `${key} was acknowledged and is lost`);
  for (const row of rows) {
    const other = row.endsWith('-a') ? `${row.slice(0, -2)}-b` : `${row.slice(0, -2)}-a`;
    assert.ok(rows.has(other), `${row} is half an action`);
  }
  const check = await gateway.call('POST', '/svc/_apps/ledger/sql', { body: { sql: 'PRAGMA integrity_check' } });
  assert.deepEqual(check.json.rows, [['ok']], check.text);
}

/** Whoever adopts the orphans may be slow to reap them: one that is dead and not reaped does not run. */
function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
  } catch {
    return false;
  }
}

async function pidOf(gateway: TestGateway, role: string): Promise<number> {
  const { processes } = await gateway.system();
  return processes.find((child: { role: string }) => child.role === role).pid;
}

describe('killed under load', () => {
  for (const role of ['writer', 'host'] as const) {
    test(`the ${role} is replaced, and nothing acknowledged is lost`, async (t) => {
      const gateway = await startGateway(t);
      assert.equal((await gateway.upload('ledger', ledger)).status, 201);
      const load = new Load(gateway);
      for (let round = 0; round < 3; round++) {
        await load.more(100);
        const pid = await pidOf(gateway, role);
        process.kill(pid, 'SIGKILL');
        await load.more(50);
        assert.notEqual(await pidOf(gateway, role), pid);
      }
      await load.stop();
      await checkLedger(gateway, load.acknowledged);
      const { processes } = await gateway.system();
      assert.equal(processes.find((child: { role: string }) => child.role === role).restarts, 3);
      for (const status of load.answers.keys())
        assert.ok([201, 500, 503].includes(status), `a client saw status ${status}`);
    });
  }

  test('the supervisor: the next daemon finds every acknowledged write, and no process of the dead one is left', async (t) => {
    const gateway = await startGateway(t);
    assert.equal((await gateway.upload('ledger', ledger)).status, 201);
    const load = new Load(gateway);
    for (let round = 0; round < 3; round++) {
      await load.more(100);
      const children = [await pidOf(gateway, 'writer'), await pidOf(gateway, 'host')];
      await gateway.kill();
      await gateway.start();
      for (const pid of children) assert.equal(isRunning(pid), false);
      await load.more(50);
    }
    await load.stop();
    await checkLedger(gateway, load.acknowledged);
  });

  test('all of them at once', async (t) => {
    const gateway = await startGateway(t);
    assert.equal((await gateway.upload('ledger', ledger)).status, 201);
    const load = new Load(gateway);
    await load.more(100);
    const children = [await pidOf(gateway, 'writer'), await pidOf(gateway, 'host')];
    for (const pid of children) process.kill(pid, 'SIGKILL');
    await gateway.kill();
    await gateway.start();
    await load.more(50);
    await load.stop();
    await checkLedger(gateway, load.acknowledged);
  });

  test('a stopped host is found by its heartbeat and replaced; its late answers are not used', async (t) => {
    const gateway = await startGateway(t);
    assert.equal((await gateway.upload('ledger', ledger)).status, 201);
    const load = new Load(gateway);
    await load.more(50);
    const pid = await pidOf(gateway, 'host');
    process.kill(pid, 'SIGSTOP');
    await load.more(50);
    assert.notEqual(await pidOf(gateway, 'host'), pid);
    await load.stop();
    await checkLedger(gateway, load.acknowledged);
  });
});

test('SIGTERM lets calls end, closes streams and exits 0', async (t) => {
  const gateway = await startGateway(t);
  assert.equal((await gateway.upload('ledger', ledger)).status, 201);
  const stream = await gateway.stream('/svc/ledger/_changes');
  const load = new Load(gateway);
  await load.more(20);
  assert.equal(await gateway.stop(), 0);
  await stream.closed;
  await load.stop();
  await gateway.start();
  await checkLedger(gateway, load.acknowledged);
});

test('a second daemon on the same data directory refuses to start and names the first', async (t) => {
  const gateway = await startGateway(t);
  const { TestGateway } = await import('./support/gateway.ts');
  const second = new TestGateway(gateway.dataDir, []);
  await assert.rejects(second.start());
  await second.stop();
  assert.equal((await gateway.call('GET', '/svc/_health')).status, 200);
});
