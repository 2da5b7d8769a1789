/**
 * A gateway that is started on a disk without room: it serves reads, refuses writes with the right code, and recovers
 * without a restart.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { appOf, automation } from '../testing/apps.ts';
import { fill } from '../testing/full-disk.ts';
import { type Answer, root, TestGateway } from '../testing/gateway.ts';
import { mountSmall, whyNoSmallDisk } from '../testing/mount.ts';

const missing = whyNoSmallDisk();
if (missing !== null && process.env.CI !== undefined) throw new Error(`These tests need a small disk: ${missing}`);

const HEAL_MS = 30_000;

const notes = (id: string, version = '1') =>
  appOf(id, {
    manifest: { version },
    migrations: ['CREATE TABLE t (x); INSERT INTO t VALUES (1);'],
    queries: { rows: "({ db }) => db.get('SELECT count(*) AS n FROM t')" },
    actions: { add: "({ db }) => db.run('INSERT INTO t VALUES (?)', ['x'.repeat(9000)])" },
    files: {
      'automations/tick/automation.json': automation({ triggers: [{ kind: 'cron', expr: '0 0 1 1 *' }] }),
      'automations/tick/handler.js': "export default () => ({ summary: 'ran' });",
    },
  });
const code = ({ status, json }: Answer) => `${status} ${json.error?.code ?? 'ok'}`;
const leftovers = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.tmp'));

for (const store of ['tarball', 'git'] as const) {
  test(`a start on a full disk, ${store} store`, { skip: missing ?? false }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-full-start-'));
    const mount = join(folder, 'disk');
    const unmount = mountSmall(mount, '16m');
    const flags = ['--store', store];
    const gateway = new TestGateway(join(mount, 'data'), flags);
    t.after(async () => {
      await gateway.stop();
      unmount();
      rmSync(folder, { recursive: true, force: true });
    });
    const filler = join(mount, 'filler');
    const svc = (...args: string[]) => {
      const run = spawnSync(process.execPath, [join(root, 'bin/svc.js'), ...args, '--json'], { encoding: 'utf8' });
      return { code: run.status, json: JSON.parse(run.stdout) };
    };
    const serve = () => svc('serve', '--data-dir', gateway.dataDir, '--port', '0', ...flags);
    const rows = async (app: string) => (await gateway.read(app, 'rows')).json.data?.n;
    const refused = async () => {
      assert.equal(code(await gateway.write('notes', 'add')), '507 STORAGE_FULL');
      assert.equal(code(await gateway.upload('notes', notes('notes', '2'))), '507 STORAGE_FULL');
      const settings = await gateway.call('PUT', '/svc/_apps/notes/settings', { body: { a: 1 } });
      assert.equal(code(settings), '507 STORAGE_FULL');
      const run = await gateway.call('POST', '/svc/_automations/notes/tick/run', { body: {} });
      assert.equal(code(run), '507 STORAGE_FULL', run.text);
    };

    await t.test('the first start says what to do, and leaves nothing', () => {
      fill(filler);
      const missingFolder = serve();
      assert.deepEqual([missingFolder.code, missingFolder.json.error.code], [1, 'STORAGE_FULL']);
      assert.match(missingFolder.json.error.message, /Free some space .* or use another --data-dir/);
      assert.ok(!existsSync(gateway.dataDir));
      mkdirSync(gateway.dataDir);
      assert.equal(serve().json.error.code, 'STORAGE_FULL');
      assert.deepEqual(readdirSync(gateway.dataDir), [], 'the folder was there before, and is empty');
    });

    await t.test('a later start serves reads, cold ones too, refuses writes, and recovers', async () => {
      rmSync(filler);
      await gateway.start();
      for (const id of ['notes', 'cold']) assert.equal((await gateway.upload(id, notes(id))).status, 201);
      assert.equal((await gateway.write('notes', 'add')).status, 200);
      await gateway.stop();
      fill(filler);
      await gateway.start();
      assert.equal(await rows('notes'), 2);
      assert.equal(await rows('cold'), 1);
      assert.equal((await gateway.call('GET', '/svc/_apps/notes/versions')).json.length, 1);
      await refused();
      assert.equal(await rows('notes'), 2);
      assert.deepEqual(leftovers(gateway.dataDir), []);
      const second = serve();
      assert.equal(second.code, 1);
      assert.match(second.json.error.message, /in use by another gateway/);
      rmSync(filler);
      assert.equal((await gateway.write('notes', 'add')).status, 200);
      assert.equal(await rows('notes'), 3, 'data read from a snapshot is read again');
      assert.equal((await gateway.upload('notes', notes('notes', '2'))).status, 201);
      const run = await gateway.call('POST', '/svc/_automations/notes/tick/run', { body: {} });
      assert.equal(run.status, 202, run.text);
      const daemon = join(gateway.dataDir, 'run', 'daemon.json');
      for (const until = Date.now() + HEAL_MS; !existsSync(daemon) && Date.now() < until; ) await wait(100);
      assert.equal(svc('status', '--data-dir', gateway.dataDir).code, 0, 'the daemon is found');
    });

    await t.test('so does one after a kill, which takes the lock over', async () => {
      await gateway.kill();
      fill(filler);
      await gateway.start();
      assert.equal(lstatSync(join(gateway.dataDir, 'lock')).isSymbolicLink(), true);
      assert.equal(await rows('notes'), 3);
      await refused().catch(() => {});
      await gateway.kill();
      assert.deepEqual(leftovers(gateway.dataDir), []);
      await gateway.start();
      assert.equal(await rows('notes'), 3);
      assert.equal(await rows('cold'), 1);
      await gateway.stop();
      assert.ok(!existsSync(join(gateway.dataDir, 'lock')));
      assert.deepEqual(leftovers(gateway.dataDir), []);
    });

    await t.test(
      'if the log of an app was not copied and has no index, a read is refused with the right code',
      async () => {
        rmSync(filler);
        await gateway.start();
        assert.equal((await gateway.write('notes', 'add')).status, 200);
        await gateway.kill();
        rmSync(join(gateway.dataDir, 'apps/notes/data.sqlite-shm'));
        fill(filler);
        await gateway.start();
        // The start itself may have freed enough room.
        const read = await gateway.read('notes', 'rows');
        assert.ok(read.json.data?.n === 4 || code(read) === '507 STORAGE_FULL', read.text);
        rmSync(filler);
        assert.equal(await rows('notes'), 4);
      },
    );
  });
}
