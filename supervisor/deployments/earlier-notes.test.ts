import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { VersionIntent } from '../../storage/apps/journal.ts';
import { Layout } from '../../storage/layout.ts';
import { type Moments, openDeployments, version } from '../../testing/deployments.ts';

const { newDataDir, start, close } = await openDeployments();
after(close);

type Store = 'tarball' | 'git';
const COMMIT = 'c'.repeat(40);

/** A data directory, as a crash at a moment of an upload of version 2 leaves it. */
async function cutOff(store: Store, moment: keyof Moments, isFirst = false): Promise<Layout> {
  const dataDir = newDataDir();
  const crashed = newDataDir();
  const moments: Moments = {};
  const { upload } = await start(dataDir, { store, moments });
  if (!isFirst) await upload(version('1', 1));
  moments[moment] = () => cpSync(dataDir, crashed, { recursive: true, verbatimSymlinks: true });
  await upload(version('2', 2));
  return layoutOf(crashed, store);
}

function layoutOf(dataDir: string, store: Store): Layout {
  return new Layout(dataDir, undefined, store === 'git' ? 'code-store' : undefined);
}

/** Writes what the journal says as a release without one did. */
function noteAsBefore(layout: Layout, isFirst = false): VersionIntent {
  const intent = JSON.parse(readFileSync(layout.intent('notes'), 'utf8')) as VersionIntent;
  const { kind, versionId, commit, migrations } = intent;
  note(layout, 'pending.json', { versionId, migrations });
  note(layout, isFirst ? 'disposable' : 'incoming.json', { versionId });
  if (commit !== null) noteInStore(layout, JSON.stringify({ kind, versionId, commit }));
  return intent;
}

function note(layout: Layout, name: string, content: object): void {
  rmSync(layout.journalDir, { recursive: true, force: true });
  writeFileSync(join(layout.app('notes').dir, name), JSON.stringify(content));
}

function noteInStore(layout: Layout, text: string): void {
  rmSync(layout.journalDir, { recursive: true, force: true });
  const folder = join(layout.codeStore!.dir, 'publishing');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'notes.json'), text);
}

/** A gateway of this release on it: no note is left, old or new. */
async function recovered(layout: Layout, store: Store) {
  const running = await start(layout.dataDir, { store });
  const { dir } = layout.app('notes');
  const old = ['pending.json', 'incoming.json', 'disposable', 'removed.json'].filter((name) =>
    existsSync(join(dir, name)),
  );
  assert.deepEqual([...old, ...readdirSync(layout.journalDir)], []);
  assert.ok(layout.codeStore === null || !existsSync(join(layout.codeStore.dir, 'publishing')));
  return running;
}

for (const store of ['tarball', 'git'] as const) {
  for (const [moment, live] of [
    ['migrating', 1],
    ['migrated', 2],
  ] as const) {
    test(`an upload that an earlier release left at "${moment}" leaves version ${live}, ${store}`, async () => {
      const layout = await cutOff(store, moment);
      noteAsBefore(layout);
      const { deployments, databases, upload } = await recovered(layout, store);
      assert.equal((await deployments.record('notes')).version, `${live}`);
      assert.equal(await databases.userVersion('notes'), live);
      assert.equal((await deployments.versions('notes')).length, live);
      assert.equal(readdirSync(layout.app('notes').versionsDir).length, live);
      await upload(version('3', 2));
      assert.equal((await deployments.record('notes')).version, '3');
    });
  }

  test(`a first upload that an earlier release left is undone, ${store}`, async () => {
    const layout = await cutOff(store, 'migrated', true);
    noteAsBefore(layout, true);
    const { registry } = await recovered(layout, store);
    assert.deepEqual(
      [registry.ids(), existsSync(layout.app('notes').dir), readdirSync(layout.trashDir)],
      [[], false, []],
    );
  });

  test(`a removal that an earlier release left has happened once the app is not registered, ${store}`, async () => {
    for (const isRegistered of [true, false]) {
      const { upload, layout, registry } = await start(newDataDir(), { store });
      await upload(version('1', 1));
      note(layout, 'removed.json', { removedAt: 1_700_000_000_000, versions: [1] });
      if (store === 'git') noteInStore(layout, '{"kind":"remove"}');
      if (!isRegistered) await registry.deregister('notes');
      const { deployments } = await recovered(layout, store);
      assert.deepEqual(readdirSync(layout.trashDir), isRegistered ? [] : ['notes-1700000000000']);
      assert.equal((await deployments.records()).length, isRegistered ? 1 : 0);
      if (!isRegistered) await deployments.restore('notes-1700000000000');
      assert.equal((await deployments.record('notes')).version, '1');
    }
  });
}

test('an activation that a full disk kept an earlier release from settling is settled, and an upload over it goes', async () => {
  const layout = await cutOff('tarball', 'migrated');
  const { versionId } = noteAsBefore(layout);
  const { versionsDir, preparedDir } = layout.app('notes');
  for (const dir of [versionsDir, preparedDir])
    cpSync(join(dir, versionId), join(dir, 'v_20300101T000000000Z_000000'), { recursive: true });
  note(layout, 'incoming.json', { versionId: 'v_20300101T000000000Z_000000' });
  const { deployments } = await recovered(layout, 'tarball');
  assert.equal((await deployments.record('notes')).activeVersion, versionId);
  assert.equal(readdirSync(versionsDir).length, 2);
});

test('a live version whose tag an earlier release could not make gets it, also when the note is damaged', async () => {
  for (const isDamaged of [false, true]) {
    const { upload, layout } = await start(newDataDir(), { store: 'git' });
    await upload(version('1'));
    const [commit = ''] = readdirSync(layout.codeStore!.mainDir);
    rmSync(join(layout.codeStore!.repository, 'refs/tags/notes/v1'));
    noteInStore(layout, isDamaged ? '{' : JSON.stringify({ kind: 'publish', versionId: 'notes/v1', commit }));
    const { deployments } = await recovered(layout, 'git');
    assert.deepEqual(
      (await deployments.versions('notes')).map((one) => [one.versionId, one.active]),
      [['notes/v1', true]],
    );
  }
});

test('a workspace gets what it published when an earlier release died before it did', async () => {
  for (const isLive of [true, false]) {
    const { upload, layout } = await start(newDataDir(), { store: 'git' });
    await upload(version('1'));
    const [live = ''] = readdirSync(layout.codeStore!.mainDir);
    const commit = isLive ? live : COMMIT;
    const apps = { notes: { base: null, publishing: { commit, files: 'sent' } } };
    const { dir, record } = layout.codeStore!.workspace('mine');
    mkdirSync(dir, { recursive: true });
    writeFileSync(record, JSON.stringify({ createdAt: '2026-01-02T00:00:00.000Z', base: live, apps }));
    rmSync(layout.journalDir, { recursive: true });
    const { followed } = await recovered(layout, 'git');
    assert.deepEqual(followed, isLive ? [`mine/notes ${live} merged`] : []);
  }
});
