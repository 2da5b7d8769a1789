/** Which store a gateway uses, where it is, and the author of its commits, if flags and configuration differ. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { buildGateway } from '../supervisor/gateway.ts';
import { appOf } from '../testing/apps.ts';
import { root, startGateway, TestGateway } from '../testing/gateway.ts';

const notes = appOf('notes', { queries: { word: "() => 'here'" } });

test('--store tarball beside an appsStoreRoot is refused before anything is written, and says which of the two to remove', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-choice-'));
  try {
    const config = join(folder, 'config.json');
    const dataDir = join(folder, 'data');
    writeFileSync(config, JSON.stringify({ appsStoreRoot: 'elsewhere' }));
    const flags = ['serve', '--data-dir', dataDir, '--config', config, '--port', '0', '--store', 'tarball'];
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'bin/svc.js'), ...flags], { encoding: 'utf8' });
    assert.equal(status, 2, stderr);
    assert.match(stderr, /git store elsewhere \(appsStoreRoot\)/);
    assert.match(stderr, /Omit --store, or remove appsStoreRoot/);
    assert.ok(!existsSync(dataDir), 'nothing was written');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('--store git keeps the folder that appsStoreRoot names', async (t) => {
  const gateway = await startGateway(t, { store: 'git', config: { appsStoreRoot: 'elsewhere' } });
  await uploadInto(gateway, 'elsewhere', 'code-store');
});

/** The first version of an app is in the git store in the folder `used`; `unused` is not there. */
async function uploadInto(gateway: TestGateway, used: string, unused: string): Promise<void> {
  assert.equal((await gateway.upload('notes', notes)).json.versionId, 'notes/v1');
  assert.ok(existsSync(join(gateway.dataDir, used, 'apps.git/HEAD')), `it is in ${used}`);
  assert.ok(!existsSync(join(gateway.dataDir, unused)), `nothing is in ${unused}`);
}

test('without --store a new directory gets the git store, and each directory keeps the one it has', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-choice-'));
  const running: TestGateway[] = [];
  t.after(async () => {
    for (const gateway of running) await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const storeOf = async (dataDir: string, ...flags: string[]) => {
    const gateway = new TestGateway(join(folder, dataDir), flags);
    running.push(gateway);
    await gateway.start();
    if (!(await gateway.call('GET', '/svc/_apps')).json.length) await gateway.upload('notes', notes);
    const { backend } = (await gateway.call('GET', '/svc/_apps/notes')).json;
    await gateway.stop();
    return backend;
  };
  assert.equal(await storeOf('new'), 'git');
  assert.equal(await storeOf('new'), 'git');
  assert.equal(await storeOf('archives', '--store', 'tarball'), 'tarball');
  assert.equal(await storeOf('archives'), 'tarball');
  // A directory that a host made, without apps yet.
  const host = buildGateway({ dataDir: join(folder, 'host'), log: 'silent' });
  await host.start();
  await host.stop(0);
  assert.equal(await storeOf('host'), 'tarball');
});

test('--store tarball keeps archives; appsStoreRoot alone is the git store', async (t) => {
  const tarball = await startGateway(t, {
    store: 'tarball',
    config: { commitAuthor: { name: 'Ann', email: 'a@b.c' } },
  });
  assert.match((await tarball.upload('notes', notes)).json.versionId, /^v_/);
  assert.equal((await tarball.call('GET', '/svc/_apps/notes')).json.backend, 'tarball');
  const git = await startGateway(t, { config: { appsStoreRoot: 'elsewhere' } });
  await git.upload('notes', notes);
  assert.equal((await git.call('GET', '/svc/_apps/notes')).json.backend, 'git');
});

test('--store git is in code-store; commits and tags of every kind of change are by the commitAuthor of the configuration', async (t) => {
  const commitAuthor = { name: 'Ann of Notes', email: 'ann@example.com' };
  const gateway = await startGateway(t, { store: 'git', config: { commitAuthor } });
  await uploadInto(gateway, 'code-store', 'elsewhere');
  const made = await gateway.call('POST', '/svc/_apps/notes/meta', { body: { name: 'Renamed', publish: true } });
  assert.equal(made.status, 200, made.text);
  await gateway.call('POST', '/svc/_apps/notes/rollback', { body: { version: 1 } });
  await gateway.upload('other', appOf('other'));
  await gateway.call('DELETE', '/svc/_apps/other');
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', join(gateway.dataDir, 'code-store/apps.git'), ...args], { encoding: 'utf8' });
  const people = git('log', '--all', '--format=%an <%ae>%n%cn <%ce>').trim().split('\n');
  assert.ok(people.length >= 12, `six commits, two people each: ${people.length}`);
  const taggers = git('for-each-ref', '--format=%(taggername) %(taggeremail)', 'refs/tags').trim().split('\n');
  assert.deepEqual(new Set([...people, ...taggers]), new Set(['Ann of Notes <ann@example.com>']));
});
