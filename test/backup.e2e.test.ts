// Backup and restore with the real daemon and the real command: nothing acknowledged is missing, nothing is there in
// part.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
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
import { before, beforeEach, describe, type TestContext, test } from 'node:test';
import { Layout } from '../storage/layout.ts';
import { openSqlite } from '../storage/sqlite.ts';
import { appOf } from '../testing/apps.ts';
import { eventually, gatewayOfSuite, onEachEdge } from '../testing/edges.ts';
import { root, startGateway, TestGateway } from '../testing/gateway.ts';
import { inTime, LIMIT_MS, LONG_MS } from '../testing/waiting.ts';

const CLIENTS = 8;

const PAIRS = appOf('pairs', {
  queries: { all: `async ({ db }) => (await db.all('SELECT key FROM pairs')).map((row) => row.key)` },
  actions: {
    put: `async ({ body, db }) => {
      await db.batch([
        ['INSERT INTO pairs (key) VALUES (?)', body.key + ':a'],
        ['INSERT INTO pairs (key) VALUES (?)', body.key + ':b'],
      ]);
      return { status: 201, body: null };
    }`,
  },
  migrations: ['CREATE TABLE pairs (key TEXT PRIMARY KEY);'],
});

/** An app with so much data that copying it takes a while. */
const LARGE = appOf('large', {
  actions: {
    fill: `async ({ body, db }) => {
      await db.run('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO blobs SELECT randomblob(10000) FROM n', body.rows);
      return { status: 201, body: null };
    }`,
  },
  migrations: ['CREATE TABLE blobs (data BLOB);'],
});

type Ended = { code: number | null; stdout: string; stderr: string };
type Running = { child: ChildProcess; ended: Promise<Ended> };

function newFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Starts the command; `before` is shell text to run first in the same process. */
function startSvc(t: TestContext, args: string[], before = ''): Running {
  const command = `${before} exec "$0" "$@"`;
  const child = spawn('bash', ['-c', command, process.execPath, join(root, 'bin/svc.js'), ...args, '--json'], {
    env: { PATH: process.env.PATH, HOME: tmpdir(), XDG_CONFIG_HOME: join(tmpdir(), 'svc-no-config') },
  });
  t.after(() => child.kill('SIGKILL'));
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => (stdout += chunk));
  child.stderr.on('data', (chunk) => (stderr += chunk));
  const closed = inTime(once(child, 'close'), `the end of svc ${args.join(' ')}`, LONG_MS);
  return { child, ended: closed.then(([code]) => ({ code, stdout, stderr })) };
}

function svc(t: TestContext, args: string[], before = ''): Promise<Ended> {
  return startSvc(t, args, before).ended;
}

async function install(gateway: TestGateway, id: string, files: Record<string, string | Buffer>): Promise<void> {
  const answer = await gateway.upload(id, files);
  assert.equal(answer.status, 201, answer.text);
}

/** Fills the app with data, 10 kB a row. */
async function installLarge(gateway: TestGateway, rows: number): Promise<void> {
  await install(gateway, 'large', LARGE);
  assert.equal((await gateway.write('large', 'fill', { rows })).status, 201);
}

/** Another gateway on a restored directory. */
async function startOn(t: TestContext, dataDir: string): Promise<TestGateway> {
  const gateway = new TestGateway(dataDir, []);
  t.after(() => gateway.stop());
  await gateway.start();
  return gateway;
}

/** Resolves when there is a folder of a backup in the making. */
async function underWay(gateway: TestGateway): Promise<void> {
  const tmp = join(gateway.dataDir, 'tmp');
  const isThere = () => readdirSync(tmp).some((name) => name.startsWith('backup-'));
  const end = performance.now() + LIMIT_MS;
  while (!isThere()) {
    assert.ok(performance.now() < end, 'no backup came under way');
    await new Promise(setImmediate);
  }
}

/** Resolves when the temporary files of a backup in the data directory are gone. */
async function cleanedUp(gateway: TestGateway): Promise<void> {
  await eventually(() => readdirSync(join(gateway.dataDir, 'tmp')).length === 0);
}

onEachEdge({ apps: ['todos'], config: { versionRetention: 7 } }, (gateway) => {
  test('a backup taken under load has every row acknowledged before it, and no partial batch', async (t) => {
    const folder = newFolder(t);
    await install(gateway, 'pairs', PAIRS);
    await gateway.call('PUT', '/svc/_apps/pairs/settings', { body: { color: 'red' } });
    await gateway.write('todos', 'add', { title: 'Water the plants' });
    const acknowledged: string[] = [];
    let running = true;
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let n = 0; running; n++) {
        const answer = await gateway.write('pairs', 'put', { key: `${client}-${n}` });
        assert.equal(answer.status, 201, answer.text);
        acknowledged.push(`${client}-${n}`);
      }
    });
    while (acknowledged.length < 100) await new Promise(setImmediate);

    const known = [...acknowledged];
    const file = join(folder, 'load.svc-backup.tar.gz');
    const taken = await svc(t, ['backup', file, '--data-dir', gateway.dataDir]);
    const during = acknowledged.length - known.length;
    running = false;
    await Promise.all(clients);
    assert.equal(taken.code, 0, taken.stdout + taken.stderr);
    assert.ok(during > 0, 'nothing was written while the backup was taken');
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(folder), ['load.svc-backup.tar.gz']);
    await cleanedUp(gateway);

    const target = join(folder, 'restored');
    const restored = await svc(t, ['restore', file, '--data-dir', target]);
    assert.equal(restored.code, 0, restored.stdout + restored.stderr);
    assert.equal(JSON.parse(readFileSync(join(target, 'config.json'), 'utf8')).versionRetention, 7);
    assert.equal(existsSync(join(target, 'token.bin')), false, 'the token is in the backup');
    const other = await startOn(t, target);
    assert.notEqual(other.token, gateway.token);
    const keys = new Set<string>((await other.read('pairs', 'all')).json.data);
    for (const key of known) assert.ok(keys.has(`${key}:a`) && keys.has(`${key}:b`), `${key} is missing`);
    for (const key of keys) assert.ok(keys.has(key.replace(/:.$/, key.endsWith('a') ? ':b' : ':a')), `${key} is alone`);
    assert.deepEqual((await other.call('GET', '/svc/_apps/pairs/settings')).json.settings, { color: 'red' });
    assert.equal((await other.read('todos', 'list')).json.data[0].title, 'Water the plants');
    assert.equal((await other.call('GET', '/svc/todos/')).status, 200);
    const ids = async (one: TestGateway) =>
      (await one.call('GET', '/svc/_apps')).json.map((app: { id: string; registeredAt: number }) => [
        app.id,
        app.registeredAt,
      ]);
    assert.deepEqual(await ids(other), await ids(gateway));
    assert.equal((await other.write('pairs', 'put', { key: 'after' })).status, 201);
    await other.stop();
  });
});

describe('of a gateway whose backup takes a while', () => {
  const gateway = gatewayOfSuite({});
  before(() => installLarge(gateway, 2500));
  // `underWay` would take leftovers of the last backup for the next one.
  beforeEach(() => cleanedUp(gateway));

  test('a second backup is refused while one is being made; calls and uploads continue meanwhile', async (t) => {
    const folder = newFolder(t);
    await install(gateway, 'pairs', PAIRS);
    const first = svc(t, ['backup', join(folder, 'first'), '--data-dir', gateway.dataDir]);
    await underWay(gateway);
    const second = await svc(t, ['backup', join(folder, 'second'), '--data-dir', gateway.dataDir]);
    assert.equal(second.code, 1);
    assert.equal(JSON.parse(second.stdout).error.code, 'CONFLICT');
    assert.equal((await gateway.write('large', 'fill', { rows: 1 })).status, 201);
    await install(gateway, 'pairs', { ...PAIRS, 'more.txt': 'x' });
    const { code, stdout } = await first;
    assert.equal(code, 0, stdout);
    assert.deepEqual(readdirSync(folder), ['first']);
  });

  for (const signal of ['SIGINT', 'SIGKILL'] as const) {
    test(`a backup whose command gets ${signal} is abandoned, and leaves nothing in the gateway`, async (t) => {
      const folder = newFolder(t);
      const logged = gateway.log.length;
      const { child, ended } = startSvc(t, ['backup', join(folder, 'file'), '--data-dir', gateway.dataDir]);
      await underWay(gateway);
      child.kill(signal);
      const { code, stdout } = await ended;
      await cleanedUp(gateway);
      if (signal === 'SIGINT') {
        assert.equal(code, 1);
        assert.match(stdout, /Interrupted/);
        assert.deepEqual(readdirSync(folder), []);
      }
      const again = await svc(t, ['backup', join(folder, 'again'), '--data-dir', gateway.dataDir]);
      assert.equal(again.code, 0, again.stdout);
      assert.doesNotMatch(gateway.log.slice(logged), /"level":50/);
    });
  }

  test('a gateway that stops abandons the backup, and leaves nothing', async (t) => {
    const folder = newFolder(t);
    const backup = svc(t, ['backup', join(folder, 'file'), '--data-dir', gateway.dataDir]);
    await underWay(gateway);
    assert.equal(await gateway.stop(), 0);
    assert.notEqual((await backup).code, 0);
    assert.deepEqual(readdirSync(folder), []);
    assert.deepEqual(readdirSync(join(gateway.dataDir, 'tmp')), []);
    await gateway.start();
  });
});

describe('of a small gateway', () => {
  const gateway = gatewayOfSuite({});
  before(() => installLarge(gateway, 300));

  test('a backup announces its length, so that a client knows when it has all of it', async () => {
    const headers = { authorization: `Bearer ${gateway.token}` };
    const answer = await fetch(`${gateway.url}/svc/_backup`, { method: 'POST', headers });
    assert.equal(answer.status, 200);
    const bytes = (await answer.arrayBuffer()).byteLength;
    assert.equal(answer.headers.get('content-length'), String(bytes));
  });

  test('without room for the file, the command says so and leaves nothing; so does a restore', async (t) => {
    const folder = newFolder(t);
    // Files of the command may have 512 KiB; beyond that writing fails as on a full disk.
    const limited = `trap '' XFSZ; ulimit -f 512;`;
    const full = await svc(t, ['backup', join(folder, 'file'), '--data-dir', gateway.dataDir], limited);
    assert.equal(full.code, 1);
    assert.equal(JSON.parse(full.stdout).error.code, 'STORAGE_FULL');
    assert.deepEqual(readdirSync(folder), []);
    await cleanedUp(gateway);
    const file = join(folder, 'whole');
    assert.equal((await svc(t, ['backup', file, '--data-dir', gateway.dataDir])).code, 0);
    const restored = await svc(t, ['restore', file, '--data-dir', join(folder, 'new')], limited);
    assert.equal(restored.code, 1);
    assert.equal(JSON.parse(restored.stdout).error.code, 'STORAGE_FULL');
    assert.deepEqual(readdirSync(folder), ['whole']);
  });

  test('a damaged file and a full directory are refused with their codes, and nothing changes', async (t) => {
    const folder = newFolder(t);
    const file = join(folder, 'file');
    assert.equal((await svc(t, ['backup', file, '--data-dir', gateway.dataDir])).code, 0);
    const taken = await svc(t, ['restore', file, '--data-dir', gateway.dataDir]);
    assert.deepEqual([taken.code, JSON.parse(taken.stdout).error.code], [1, 'RESTORE_TARGET']);
    const over = await svc(t, ['backup', file, '--data-dir', gateway.dataDir]);
    assert.equal(over.code, 1);
    assert.match(over.stdout, /already/);
    const bytes = readFileSync(file);
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 4;
    writeFileSync(file, bytes);
    const damaged = await svc(t, ['restore', file, '--data-dir', join(folder, 'new')]);
    assert.deepEqual([damaged.code, JSON.parse(damaged.stdout).error.code], [1, 'INVALID_BACKUP']);
    assert.deepEqual(readdirSync(folder), ['file']);
    assert.equal((await svc(t, ['restore', file])).code, 2);
  });

  test('a gateway that is stopped, or was killed, is backed up from its directory; one that runs keeps its lock', async (t) => {
    const folder = newFolder(t);
    await install(gateway, 'pairs', PAIRS);
    for (const [n, end] of (['kill', 'stop'] as const).entries()) {
      assert.equal((await gateway.write('pairs', 'put', { key: end })).status, 201);
      await gateway[end]();
      const file = join(folder, end);
      const backup = await svc(t, ['backup', file, '--data-dir', gateway.dataDir]);
      assert.equal(backup.code, 0, backup.stdout);
      assert.equal(existsSync(join(gateway.dataDir, 'lock')), false, 'the lock is still there');
      assert.equal((await svc(t, ['restore', file, '--data-dir', `${file}-new`])).code, 0);
      const db = openSqlite(new Layout(`${file}-new`).app('pairs').data);
      assert.deepEqual(db.prepare('SELECT count(*) AS rows FROM pairs').get(), { rows: 2 * (n + 1) });
      db.close();
      await gateway.start();
    }
    // A gateway that runs but cannot be asked keeps its lock.
    rmSync(join(gateway.dataDir, 'run', 'daemon.json'));
    const locked = await svc(t, ['backup', join(folder, 'locked'), '--data-dir', gateway.dataDir]);
    assert.equal(locked.code, 1);
    assert.match(locked.stdout, /in use by another gateway/);
    mkdirSync(join(folder, 'nothing'));
    assert.equal((await svc(t, ['backup', join(folder, 'none'), '--data-dir', join(folder, 'nothing')])).code, 3);
    assert.equal(existsSync(join(folder, 'locked')) || existsSync(join(folder, 'none')), false, 'a file is left');
  });
});

test('a gateway on the git store comes back with its versions, and takes the next one', async (t) => {
  const folder = newFolder(t);
  const gateway = await startGateway(t, { store: 'git' });
  const versionOf = (n: number) => ({ ...PAIRS, 'n.txt': String(n) });
  for (const n of [1, 2]) assert.equal((await gateway.upload('pairs', versionOf(n))).status, 201);
  const file = join(folder, 'git.svc-backup.tar.gz');
  const taken = await svc(t, ['backup', file, '--data-dir', gateway.dataDir]);
  assert.equal(taken.code, 0, taken.stderr);
  const whileStopped = join(folder, 'stopped.svc-backup.tar.gz');
  await gateway.stop();
  assert.equal((await svc(t, ['backup', whileStopped, '--data-dir', gateway.dataDir])).code, 0);

  for (const [name, backup] of Object.entries({ running: file, stopped: whileStopped })) {
    const target = join(folder, name);
    assert.equal((await svc(t, ['restore', backup, '--data-dir', target])).code, 0);
    const restored = new TestGateway(target, ['--store', 'git']);
    t.after(() => restored.stop());
    await restored.start();
    const ids = (await restored.call('GET', '/svc/_apps/pairs/versions')).json as { versionId: string }[];
    assert.deepEqual(
      ids.map(({ versionId }) => versionId),
      ['pairs/v2', 'pairs/v1'],
    );
    assert.equal((await restored.write('pairs', 'put', { key: 'a' })).status, 201);
    assert.equal((await restored.call('POST', '/svc/_apps/pairs/rollback', { body: { version: 1 } })).status, 200);
    assert.equal((await restored.upload('pairs', versionOf(3))).json.versionId, 'pairs/v3');
    assert.equal((await restored.call('GET', '/svc/_apps/pairs')).json.activeVersion, 'pairs/v3');
    await restored.stop();
  }
});
