import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import { writeIntent } from '../../storage/apps/journal.ts';
import { listTrash, trashedBytes } from '../../storage/apps/trash.ts';
import type { AppPaths } from '../../storage/layout.ts';
import { type Moments, openDeployments, version } from '../../testing/deployments.ts';

const { newDataDir, start: startOn, close } = await openDeployments();
after(close);

const STORES = ['tarball', 'git'] as const;
type Store = (typeof STORES)[number];
type Running = Awaited<ReturnType<typeof start>>;

async function start(store: Store, { dataDir = newDataDir(), moments = {} as Moments } = {}) {
  const running = await startOn(dataDir, { store, moments });
  const { layout } = running;
  const git = (...args: string[]) =>
    layout.codeStore === null
      ? ''
      : execFileSync('git', ['-C', layout.codeStore.repository, ...args], { encoding: 'utf8' }).trim();
  const trash = async () => (await listTrash(layout)).map(({ id }) => id);
  const rows = () => running.withData('notes', (db) => db.prepare('SELECT c0 FROM notes').pluck().all());
  return { ...running, store, git, trash, rows };
}

/** Two versions, a row, settings, and a file of the live version's code that was changed in place, as switching automations does. */
async function fill({ upload, withData, layout, registry }: Running): Promise<void> {
  await upload(version('1', 1));
  await upload(version('2', 1));
  withData('notes', (db) => db.exec('INSERT INTO notes VALUES (7)'));
  writeFileSync(layout.app('notes').settings, '{"theme":"dark"}');
  writeFileSync(join(codeOf(layout.app('notes'), registry.loaded('notes')?.active?.versionId), 'switched'), 'off');
}

const codeOf = (app: AppPaths, versionId = '') => app.version(versionId).code;

const isRejected =
  (code: string, words = /./) =>
  (error: unknown) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, words);
    return true;
  };

/** It is as `fill` left it. */
async function assertWhole({ deployments, layout, registry, rows, git, store, trash }: Running): Promise<void> {
  const { active } = await registry.state('notes');
  assert.equal(active?.version, '2');
  assert.deepEqual(rows(), [7]);
  const app = layout.app('notes');
  assert.equal(readFileSync(app.settings, 'utf8'), '{"theme":"dark"}');
  assert.equal(readFileSync(join(codeOf(app, active?.versionId), 'switched'), 'utf8'), 'off');
  assert.deepEqual(
    (await deployments.versions('notes')).map(({ version, active }) => [version, active]),
    [
      ['2', true],
      ['1', false],
    ],
  );
  assert.deepEqual([await trash(), existsSync(app.removed)], [[], false]);
  if (store === 'tarball') return;
  assert.equal(
    git('for-each-ref', '--format=%(refname)', 'refs/deleted', 'refs/tags'),
    'refs/tags/notes/v1\nrefs/tags/notes/v2',
  );
  assert.match(git('show', 'main:apps/notes/app.json'), /"version": ?"2"/);
  assert.equal(readFileSync(layout.codeStore?.activeMain ?? '', 'utf8').trim(), git('rev-parse', 'main'));
  assert.equal(git('fsck', '--strict', '--no-dangling'), '');
}

/** The app is removed, and all of it is in the trash under `id`. */
async function assertRemoved({ registry, layout, git, store, trash }: Running, id: string): Promise<void> {
  assert.equal(registry.has('notes'), false);
  assert.deepEqual([await trash(), existsSync(layout.app('notes').dir)], [[id], false]);
  assert.deepEqual(readdirSync(layout.journalDir), []);
  if (store === 'tarball') return;
  assert.equal(git('tag'), '');
  assert.equal(git('ls-tree', '-r', '--name-only', 'main'), '');
}

for (const store of STORES) {
  test(`a removed app is restored completely, and can be changed and removed again, ${store}`, async () => {
    const running = await start(store);
    const { deployments, events, trash, layout } = running;
    await fill(running);
    await deployments.remove('notes');
    const [id = ''] = await trash();
    await assertRemoved(running, id);
    assert.ok((await trashedBytes(layout, id)) > readFileSync(layout.trashed(id).data).length, 'its code counts');
    events.length = 0;
    const restored = await deployments.restore(id);
    assert.deepEqual(restored, { id: 'notes', restored: true, activeVersion: restored.activeVersion });
    assert.deepEqual(events, ['load notes', 'swap notes 2']);
    await assertWhole(running);

    const again = await start(store, { dataDir: layout.dataDir });
    await assertWhole(again);
    const third = await again.upload(version('3', 2));
    if (store === 'git') assert.equal(third.versionId, 'notes/v3');
    await again.deployments.rollback('notes', null);
    await assertVersion(again, '2');
    await again.deployments.remove('notes');
    await again.deployments.restore((await again.trash())[0] ?? '');
    await assertVersion(again, '2');
    assert.equal((await again.deployments.versions('notes')).length, 3);
    await assert.rejects(deployments.restore(id), isRejected('CONFLICT'));
  });

  test(`each removal has its own versions and data, ${store}`, async () => {
    const running = await start(store);
    const { deployments, upload, trash, rows, git } = running;
    await fill(running);
    await deployments.remove('notes');
    await upload(version('other', 1));
    const [first = ''] = await trash();
    await assert.rejects(deployments.restore(first), isRejected('CONFLICT', /Remove that one first/));
    await deployments.remove('notes');
    const [second = ''] = await trash();
    await deployments.restore(second);
    assert.deepEqual(rows(), []);
    assert.deepEqual(
      (await deployments.versions('notes')).map(({ version }) => version),
      ['other'],
    );
    if (store === 'git') assert.equal(git('tag'), 'notes/v3');
    await deployments.remove('notes', { purge: true });
    await deployments.restore(first);
    await assertVersion(running, '2');
    assert.deepEqual(rows(), [7]);
    if (store === 'git') assert.equal(git('tag'), 'notes/v1\nnotes/v2');
    if (store === 'git') assert.equal((await upload(version('4', 1))).versionId, 'notes/v4', 'numbers are given once');
  });

  test(`an app that cannot be restored stays in the trash, ${store}`, async () => {
    const running = await start(store);
    const { deployments, registry, trash } = running;
    await fill(running);
    await deployments.remove('notes');
    const [id = ''] = await trash();
    registry.register = () => Promise.reject(Object.assign(new Error('no space left on device'), { code: 'ENOSPC' }));
    await assert.rejects(deployments.restore(id), isRejected('STORAGE_FULL'));
    await assertRemoved(running, id);
    const again = await start(store, { dataDir: running.layout.dataDir });
    await again.deployments.restore(id);
    await assertWhole(again);
  });

  for (const [moment, isRestored] of [
    ['forgetting', false],
    ['regaining', false],
    ['swapping', true],
  ] as const) {
    test(`a crash at "${moment}" of a restoration leaves the app ${isRestored ? 'live' : 'in the trash'}, ${store}`, async () => {
      const copy = newDataDir();
      const moments: Moments = {};
      const running = await start(store, { moments });
      await fill(running);
      await running.deployments.remove('notes');
      const [id = ''] = await running.trash();
      moments[moment] = () => cpSync(running.layout.dataDir, copy, { recursive: true, verbatimSymlinks: true });
      await running.deployments.restore(id);
      const next = await start(store, { dataDir: copy });
      if (!isRestored) {
        await assertRemoved(next, id);
        await next.deployments.restore(id);
      }
      await assertWhole(next);
    });
  }

  for (const [what, intent] of [
    ['a removal for good', { kind: 'remove', purge: true }],
    ['a first version', { kind: 'publish', versionId: 'v', commit: null, migrations: null }],
  ] as const) {
    test(`what a crash left of ${what} goes for good, unless the app is registered, ${store}`, async () => {
      const running = await start(store);
      await fill(running);
      const { layout, registry } = running;
      await writeIntent(layout, 'notes', intent);
      const kept = await start(store, { dataDir: layout.dataDir });
      await assertWhole(kept);
      assert.deepEqual(readdirSync(layout.journalDir), []);
      await writeIntent(layout, 'notes', intent);
      await registry.deregister('notes');
      const { trash } = await start(store, { dataDir: layout.dataDir });
      assert.deepEqual([existsSync(layout.app('notes').dir), await trash()], [false, []]);
      assert.deepEqual([...readdirSync(layout.tmpDir), ...readdirSync(layout.journalDir)], []);
    });
  }

  test(`a removed app is deleted for good, ${store}`, async () => {
    const { deployments, upload, trash, layout } = await start(store);
    await upload(version('1'));
    await deployments.remove('notes');
    const [id = ''] = await trash();
    assert.deepEqual(await deployments.removeTrashed(id), { id, deleted: true });
    assert.deepEqual(readdirSync(layout.trashDir), []);
    for (const unknown of [id, 'notes', '../apps-1700000000000', 'notes-1'])
      for (const change of [deployments.removeTrashed.bind(deployments), deployments.restore.bind(deployments)])
        await assert.rejects(async () => change(unknown), isRejected('UNKNOWN_TRASH'), unknown);
    // What a crash leaves of it.
    const left = join(layout.trashDir, `.${id}.tmp`);
    mkdirSync(left);
    utimesSync(left, 1, 1);
    await start(store, { dataDir: layout.dataDir });
    assert.equal(existsSync(left), false);
  });
}

async function assertVersion({ registry }: Running, wanted: string): Promise<void> {
  assert.equal((await registry.state('notes')).active?.version, wanted);
}

test('an app that an older gateway removed has its code from the tags', async () => {
  const running = await start('git');
  const { deployments, trash, layout } = running;
  await fill(running);
  await deployments.remove('notes');
  const [id = ''] = await trash();
  rmSync(layout.trashed(id).removed);
  rmSync(layout.trashed(id).versionsDir, { recursive: true });
  await deployments.restore(id);
  await assertVersion(running, '2');
  assert.ok(existsSync(join(codeOf(layout.app('notes'), 'notes/v2'), 'app.json')));
  await deployments.rollback('notes', 1);
  await assertVersion(running, '1');
});

test('an app that was removed from the other store is refused with words, and stays in the trash', async () => {
  const { deployments, upload, trash, layout } = await start('git');
  await upload(version('1'));
  await deployments.remove('notes');
  const [id = ''] = await trash();
  const { versionsDir } = layout.trashed(id);
  cpSync(join(versionsDir, 'v1'), join(versionsDir, 'v_20200101T000000000Z_000000'), { recursive: true });
  await assert.rejects(deployments.restore(id), isRejected('CONFLICT', /the other store/));
  assert.deepEqual(await trash(), [id]);
});

test('an app is removed also when its repository cannot be read, and the trash has its code', async () => {
  const running = await start('git');
  const { deployments, layout, trash } = running;
  await fill(running);
  rmSync(layout.codeStore?.repository ?? '', { recursive: true });
  await deployments.remove('notes');
  const [id = ''] = await trash();
  assert.ok(existsSync(join(codeOf(layout.trashed(id), 'notes/v2'), 'switched')));
  await assert.rejects(deployments.restore(id), isRejected('STORE_DAMAGED', /apps\.git of the code store is missing/));
  assert.deepEqual(await trash(), [id]);
});
