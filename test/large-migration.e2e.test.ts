/** Migrations of data that is large for its disk: refused before they begin, or done without leaving a large log. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { fill } from '../testing/full-disk.ts';
import { type Answer, TestGateway } from '../testing/gateway.ts';
import { mountSmall, whyNoSmallDisk } from '../testing/mount.ts';

const missing = whyNoSmallDisk();
if (missing !== null && process.env.CI !== undefined) throw new Error(`These tests need a small disk: ${missing}`);

const MIB = 1024 * 1024;
/** Of data, about. */
const DATA = 4 * MIB;

const REWRITE = 'UPDATE t SET x = zeroblob(4000);';
const large = (version: string, ...migrations: string[]) =>
  appOf('large', {
    manifest: { version },
    migrations: ['CREATE TABLE t (x);', ...migrations],
    queries: {
      state: `({ db }) => db.get("SELECT count(*) AS n, '${version}' AS version, sum(x LIKE '%y%') AS old FROM t")`,
    },
    actions: {
      grow: `async ({ db }) => {
        const row = 'y'.repeat(4000);
        await db.transaction(async (tx) => { for (let i = 0; i < 1000; i++) await tx.run('INSERT INTO t VALUES (?)', [row]); });
      }`,
    },
  });

for (const store of ['tarball', 'git'] as const) {
  test(`a large migration, ${store} store`, { skip: missing ?? false }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-migration-'));
    const mount = join(folder, 'disk');
    const unmount = mountSmall(mount, '48m');
    const gateway = new TestGateway(join(mount, 'data'), ['--store', store]);
    t.after(async () => {
      await gateway.stop();
      unmount();
      rmSync(folder, { recursive: true, force: true });
    });
    const filler = join(mount, 'filler');
    const app = join(gateway.dataDir, 'apps/large');
    const state = async () => (await gateway.read('large', 'state')).json.data;
    const backups = () => (existsSync(join(app, 'backups')) ? readdirSync(join(app, 'backups')) : []);
    await gateway.start();
    assert.equal((await gateway.upload('large', large('1'))).status, 201);
    assert.equal((await gateway.write('large', 'grow')).status, 200);
    const before = { n: 1000, version: '1', old: 1000 };
    assert.deepEqual(await state(), before);
    // Empties the log, which would otherwise free room at an unknown moment.
    await gateway.stop();
    await gateway.start();
    const refused = async (answer: Answer) => {
      assert.deepEqual([answer.status, answer.json.error?.code], [507, 'STORAGE_FULL'], answer.text);
      assert.match(answer.json.error.message, /needs up to [\d.]+ MB of disk.* [\d.]+ MB are free\. Nothing was begun/);
      assert.deepEqual(await state(), before);
      assert.deepEqual(backups(), []);
      assert.deepEqual(readdirSync(join(gateway.dataDir, 'journal')), []);
    };

    await t.test('does not begin if its disk has no room for it', async () => {
      fill(filler, Math.floor(DATA * 1.5));
      await refused(await gateway.upload('large', large('2', REWRITE)));
      const stored = await gateway.upload('large', large('2', REWRITE), '?activate=0');
      assert.equal(stored.status, 201, stored.text);
      const body = { versionId: stored.json.versionId };
      await refused(await gateway.call('POST', '/svc/_apps/large/activate', { body }));
      if (store === 'git') {
        await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 'mine' } });
        const file = '/svc/_sessions/mine/apps/large/files/migrations/0002_more.sql';
        assert.equal((await gateway.call('PUT', file, { body: Buffer.from(REWRITE) })).status, 201);
        await refused(await gateway.call('POST', '/svc/_sessions/mine/publish', { body: { app: 'large' } }));
      }
    });

    await t.test('leaves no large log if there is room', async () => {
      rmSync(filler);
      assert.equal((await gateway.upload('large', large('3', REWRITE))).status, 201);
      assert.deepEqual(await state(), { n: 1000, version: '3', old: 0 });
      assert.equal(backups().length, 1);
      const log = join(app, 'data.sqlite-wal');
      assert.ok(!existsSync(log) || statSync(log).size === 0, 'the log is empty');
    });
  });
}
