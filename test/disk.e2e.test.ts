// A disk that is full, or fails, under the real daemon: callers get an error, reads continue, and it recovers without a
// restart.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { TestGateway } from '../testing/gateway.ts';
import { whyNoShim } from '../testing/shim/compile.ts';
import { FaultyDisk } from '../testing/shim/disk.ts';

const missing = whyNoShim();

const notes = (version: number, migrations: string[] = []) =>
  appOf('notes', {
    migrations: ['CREATE TABLE notes (text TEXT NOT NULL);', ...migrations],
    queries: { count: `({ db }) => db.get('SELECT count(*) AS notes, ${version} AS version FROM notes')` },
    actions: { add: `({ db }) => db.run('INSERT INTO notes VALUES (?)', ['x'.repeat(5000)])` },
  });

test('a full or failing disk', { skip: missing ?? false }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-disk-'));
  const disk = new FaultyDisk(join(folder, 'data'), join(folder, 'disk'));
  const gateway = new TestGateway(join(folder, 'data'), ['--store', 'tarball'], disk.env);
  t.after(async () => {
    disk.strike([]);
    await gateway.stop();
    disk.close();
    rmSync(folder, { recursive: true, force: true });
  });
  await gateway.start();
  assert.equal((await gateway.upload('notes', notes(1))).status, 201);
  assert.equal((await gateway.write('notes', 'add')).status, 200);
  const outcome = async (answer: Promise<{ status: number; json: { error?: { code: string } } }>) => {
    const { status, json } = await answer;
    return `${status} ${json.error?.code ?? 'ok'}`;
  };
  const count = async () => (await gateway.read('notes', 'count')).json.data;

  await t.test(
    'full: writes and uploads are refused with the right code and leave nothing, and reads continue',
    async () => {
      disk.strike(['full']);
      assert.equal(await outcome(gateway.write('notes', 'add')), '507 STORAGE_FULL');
      assert.equal(await outcome(gateway.upload('notes', notes(2))), '507 STORAGE_FULL');
      const settings = gateway.call('PUT', '/svc/_apps/notes/settings', { body: { a: 1 } });
      assert.equal(await outcome(settings), '507 STORAGE_FULL');
      assert.deepEqual(await count(), { notes: 1, version: 1 });
      assert.deepEqual(readdirSync(join(gateway.dataDir, 'tmp')), []);
      disk.strike([]);
      assert.equal(await outcome(gateway.write('notes', 'add')), '200 ok');
      assert.deepEqual(await count(), { notes: 2, version: 1 });
    },
  );

  await t.test('full: a key whose write found no room can be used again', async () => {
    const headers = { 'idempotency-key': 'k' };
    disk.strike(['full'], 'data.sqlite');
    assert.equal(await outcome(gateway.write('notes', 'add', {}, { headers })), '507 STORAGE_FULL');
    disk.strike([]);
    assert.equal(await outcome(gateway.write('notes', 'add', {}, { headers })), '200 ok');
    assert.deepEqual(await count(), { notes: 3, version: 1 });
  });

  await t.test('failing: neither the handler nor the migration is blamed', async () => {
    disk.strike(['syncEio'], 'data.sqlite');
    assert.equal(await outcome(gateway.write('notes', 'add')), '500 INTERNAL');
    const upload = notes(2, ['INSERT INTO notes VALUES (1);']);
    assert.equal(await outcome(gateway.upload('notes', upload)), '500 INTERNAL');
    disk.strike([]);
    // A commit that could not be flushed may be complete in the log; code and data still match.
    assert.deepEqual(await count(), { notes: 4, version: 2 });
    assert.equal(await outcome(gateway.upload('notes', upload)), '200 ok');
    assert.deepEqual(await count(), { notes: 4, version: 2 });
  });

  await t.test('an app can be removed though the database of the gateway is full', async () => {
    disk.strike(['full'], 'runtime.sqlite');
    assert.equal(await outcome(gateway.call('DELETE', '/svc/_apps/notes')), '200 ok');
    disk.strike([]);
    assert.equal(existsSync(join(gateway.dataDir, 'apps/notes')), false);
    assert.equal(await outcome(gateway.upload('notes', notes(1))), '201 ok');
    const headers = { 'idempotency-key': 'k' };
    assert.equal(await outcome(gateway.write('notes', 'add', {}, { headers })), '200 ok');
    assert.deepEqual(await count(), { notes: 1, version: 1 });
  });
});
