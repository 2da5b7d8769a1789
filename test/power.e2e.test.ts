// The power fails right after an answer: acknowledged data is there, on a disk that keeps only synced data.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { TestGateway } from '../testing/gateway.ts';
import { Random } from '../testing/random.ts';
import { whyNoShim } from '../testing/shim/compile.ts';
import { FaultyDisk } from '../testing/shim/disk.ts';

const skip = whyNoShim() ?? false;
const NOTHING = { sectors: 0, names: 0 };

const notes = appOf('notes', {
  migrations: ['CREATE TABLE notes (text TEXT NOT NULL);'],
  queries: { count: `({ db }) => db.get('SELECT count(*) AS notes FROM notes')` },
  actions: { add: `({ db }) => db.run('INSERT INTO notes VALUES (?)', ['x'])` },
});

async function start(t: TestContext, durability: 'full' | 'normal') {
  const folder = mkdtempSync(join(tmpdir(), 'svc-power-'));
  const disk = new FaultyDisk(join(folder, 'root'), join(folder, 'disk'));
  disk.keepJournal(500);
  const config = join(folder, 'config.json');
  writeFileSync(config, JSON.stringify({ log: 'warn', durability }));
  const gateway = new TestGateway(
    join(folder, 'root/new/folders/data'),
    ['--config', config, '--store', 'tarball'],
    disk.env,
  );
  t.after(async () => {
    await gateway.stop();
    disk.close();
    rmSync(folder, { recursive: true, force: true });
  });
  await gateway.start();
  const cutPower = async () => {
    await disk.cutPower(NOTHING, new Random(1));
    await gateway.start();
  };
  return { gateway, cutPower };
}

test('a token, an app, a write and settings survive a power cut', { skip }, async (t) => {
  const { gateway, cutPower } = await start(t, 'full');
  const { token } = gateway;
  await cutPower();
  assert.equal(gateway.token, token);
  assert.equal((await gateway.upload('notes', notes)).status, 201);
  await cutPower();
  assert.equal((await gateway.write('notes', 'add')).status, 200);
  await cutPower();
  assert.deepEqual((await gateway.read('notes', 'count')).json.data, { notes: 1 });
  const settings = { size: 's' };
  assert.equal((await gateway.call('PUT', '/svc/_apps/notes/settings', { body: settings })).status, 200);
  await cutPower();
  assert.deepEqual((await gateway.call('GET', '/svc/_apps/notes/settings')).json.settings, settings);
  assert.equal((await gateway.call('DELETE', '/svc/_apps/notes')).status, 200);
  await cutPower();
  assert.deepEqual((await gateway.call('GET', '/svc/_apps')).json, []);
});

test('durability "normal" loses the write, so that the test above can fail', { skip }, async (t) => {
  const { gateway, cutPower } = await start(t, 'normal');
  assert.equal((await gateway.upload('notes', notes)).status, 201);
  assert.equal((await gateway.write('notes', 'add')).status, 200);
  await cutPower();
  assert.deepEqual((await gateway.read('notes', 'count')).json.data, { notes: 0 });
});
