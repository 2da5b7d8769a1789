import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after as afterAll, test } from 'node:test';
import { automation } from '../../testing/apps.ts';
import { appFiles, tarball } from '../../testing/archive.ts';
import { openDeployments, version, workspaceCopy } from '../../testing/deployments.ts';
import { root as projectRoot } from '../../testing/gateway.ts';
import { Publication } from './publication.ts';
import { GitStore } from './store/git-store.ts';

const { root, newDataDir, start: startOn, close } = await openDeployments();
afterAll(close);
const start = (dataDir: string) => startOn(dataDir, { store: 'git' });

/** The rows of the table "From draft to live" in docs/architecture.md. */
const documented = readFileSync(join(projectRoot, 'docs/architecture.md'), 'utf8')
  .split('## From draft to live')[1]!
  .split('\n## ')[0]!
  .split('\n')
  .filter((line) => line.startsWith('| '))
  .slice(1)
  .map((line) => line.slice(2, -2).split(' | ') as [words: string, where: string, left: string]);

const SQL = ['CREATE TABLE notes (c0);', 'ALTER TABLE notes ADD c1;'];

/** A workspace's folder of the app with this many migrations. */
function workspace(version: string, migrations: number): string {
  const folder = mkdtempSync(join(root, 'session-'));
  for (const [path, text] of Object.entries(appFiles('notes', { version }))) writeFileSync(join(folder, path), text);
  mkdirSync(join(folder, 'migrations'));
  for (const [at, sql] of SQL.slice(0, migrations).entries())
    writeFileSync(join(folder, `migrations/000${at + 1}_m.sql`), sql);
  return folder;
}

test('a publication takes the steps that the table says, in its order and its words', () => {
  assert.deepEqual(
    Publication.steps.map(({ words, where }) => [words, where]),
    documented.map(([words, where]) => [words, where]),
  );
});

for (const [at, [words, , left]] of documented.entries()) {
  const isNew = left.startsWith('the new version') || left.includes('if its migrations had committed');
  test(`a crash after "${words}" leaves the ${isNew ? 'new' : 'old'} version`, async (t) => {
    const running = await start(newDataDir());
    const { sha } = await running.deployments.publish('notes', { workspace: workspaceCopy(workspace('1', 1), null) });
    const crashed = newDataDir();
    const step = Publication.steps[at]!;
    const run = step.run;
    t.mock.method(step, 'run', async (publication: Publication) => {
      await run(publication);
      cpSync(running.layout.dataDir, crashed, { recursive: true, verbatimSymlinks: true });
    });
    const { followed } = running;
    followed.length = 0;
    const published = await running.deployments.publish('notes', { workspace: workspaceCopy(workspace('2', 2), sha) });
    assert.deepEqual(followed, [`mine/notes ${published.sha} same`]);
    t.mock.restoreAll();

    const { deployments, databases, layout, followed: after } = await start(crashed);
    assert.equal((await deployments.record('notes')).version, isNew ? '2' : '1');
    assert.equal(await databases.userVersion('notes'), isNew ? 2 : 1);
    const { mainDir, activeMain } = layout.codeStore!;
    assert.deepEqual(readdirSync(layout.journalDir), [], 'the intention is done or dropped');
    assert.equal(readFileSync(activeMain, 'utf8').trim(), isNew ? published.sha : sha);
    assert.deepEqual(
      (await deployments.versions('notes')).map(({ versionId }) => versionId),
      isNew ? ['notes/v2', 'notes/v1'] : ['notes/v1'],
    );
    assert.equal(readdirSync(mainDir).length, isNew ? 2 : 1, 'the code of a version that was dropped is gone');
    const isLast = at === documented.length - 1;
    assert.deepEqual(after, isNew && !isLast ? [`mine/notes ${published.sha} merged`] : []);
    // The number of a version that never was is given to the next one.
    const base = isNew ? published.sha : sha;
    const next = await deployments.publish('notes', { workspace: workspaceCopy(workspace('3', isNew ? 2 : 1), base) });
    assert.equal(next.tag, isNew ? 'notes/v3' : 'notes/v2');
  });
}

test('an error before the version is live undoes the steps, the last one first', async (t) => {
  const { deployments, layout } = await start(newDataDir());
  const { sha } = await deployments.publish('notes', { workspace: workspaceCopy(workspace('1', 1), null) });
  for (const at of [1, 2, 3]) {
    const step = Publication.steps[at]!;
    t.mock.method(step, 'run', () => Promise.reject(new Error('refused')));
    const refused = deployments.publish('notes', { workspace: workspaceCopy(workspace('2', 2), sha) });
    await assert.rejects(refused, /refused/);
    t.mock.restoreAll();
    assert.deepEqual(readdirSync(layout.journalDir), []);
    assert.deepEqual(readdirSync(layout.app('notes').versionsDir), ['v1']);
    assert.deepEqual(readdirSync(layout.tmpDir), []);
  }
});

test('a live version whose tag could not be made stays noted, and the next change of the app makes it', async (t) => {
  const { deployments, layout, warnings } = await start(newDataDir());
  const { sha: base } = await deployments.publish('notes', { workspace: workspaceCopy(workspace('1', 1), null) });
  t.mock.method(Publication.steps[4]!, 'run', () => Promise.reject(new Error('refused')));
  const { sha, tag } = await deployments.publish('notes', { workspace: workspaceCopy(workspace('2', 1), base) });
  t.mock.restoreAll();
  assert.equal((await deployments.record('notes')).activeVersion, tag);
  assert.deepEqual(readdirSync(layout.journalDir), ['notes.json']);
  assert.match(warnings.join(), /The code store could not note what is live/);
  const next = await deployments.publish('notes', { workspace: workspaceCopy(workspace('3', 1), sha) });
  assert.deepEqual(
    (await deployments.versions('notes')).map(({ versionId }) => versionId),
    [next.tag, tag, 'notes/v1'],
  );
  assert.deepEqual(readdirSync(layout.journalDir), []);
});

test('a version that is only stored stays when its tag was made before the job died, and goes when it was not', async (t) => {
  const { upload, layout } = await start(newDataDir());
  await upload(version('1'));
  const { settle } = GitStore.prototype;
  for (const isMade of [false, true]) {
    t.mock.method(
      GitStore.prototype,
      'settle',
      async function (this: GitStore, ...intended: Parameters<GitStore['settle']>) {
        if (isMade) await settle.call(this, ...intended);
        throw new Error('The job died.');
      },
    );
    const stored = upload(version('2'), { activate: false });
    if (isMade) assert.equal((await stored).versionId, 'notes/v2');
    else await assert.rejects(stored, /The job died/);
    t.mock.restoreAll();
    assert.deepEqual(readdirSync(layout.app('notes').versionsDir).sort(), isMade ? ['v1', 'v2'] : ['v1']);
    assert.deepEqual(readdirSync(layout.journalDir), []);
  }
  assert.equal((await upload(version('2'), { activate: false })).deduplicated, true);
});

const SLUG = 'ab'.repeat(12);
const CLAIM = 'automations/in/automation.json';
const CLAIMING = {
  [CLAIM]: automation({ triggers: [{ kind: 'webhook', id: SLUG, secretHash: 'c'.repeat(64) }] }),
  'automations/in/handler.js': 'export default () => {};',
};
const TAKEN = { code: 'INVALID_AUTOMATION', path: `${CLAIM}#triggers[0].id` };

for (const store of ['tarball', 'git'] as const) {
  test(`a version that names the webhook of another app is never live, on the ${store} store`, async () => {
    const { deployments, layout, registry, holders, upload } = await startOn(newDataDir(), { store });
    const other = () => holders.set(SLUG, 'other');
    const live = async () => (await registry.state('notes')).active?.version;
    other();
    await assert.rejects(upload(version('1', 0, CLAIMING)), TAKEN);
    assert.equal(registry.has('notes'), false);
    await upload(version('1'));
    await assert.rejects(upload(version('2', 0, CLAIMING)), TAKEN);
    await assert.rejects(upload(version('2', 0, CLAIMING), { activate: false }), TAKEN);
    assert.equal(await live(), '1');
    assert.equal((await deployments.versions('notes')).length, 1, 'nothing is stored');

    holders.set(SLUG, 'notes');
    const { versionId } = await upload(version('2', 0, CLAIMING));
    await upload(version('3'));
    other();
    await assert.rejects(deployments.activate('notes', versionId), TAKEN);
    assert.equal(await live(), '3');
    holders.clear();
    await deployments.activate('notes', versionId);
    await deployments.remove('notes');
    const trashed = readdirSync(layout.trashDir);
    other();
    await assert.rejects(deployments.restore(trashed[0]!), TAKEN);
    assert.deepEqual([registry.has('notes'), readdirSync(layout.trashDir)], [false, trashed]);
    holders.clear();
    await deployments.restore(trashed[0]!);
    assert.equal(await live(), '2');
  });

  test(`of two apps that are published at once with one address, one is live, on the ${store} store`, async () => {
    const claim = (id: string) => tarball({ ...appFiles(id), ...CLAIMING });
    const running = await startOn(newDataDir(), {
      store,
      moments: { swapping: () => running.holders.set(SLUG, running.registry.ids()[0]!) },
    });
    const both = await Promise.allSettled(['one', 'two'].map((id) => running.upload(claim(id), {}, id)));
    assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    const refused = both.find((one) => one.status === 'rejected');
    assert.equal(refused?.reason.code, 'INVALID_AUTOMATION');
    assert.equal(running.registry.ids().length, 1);
  });
}

test('a workspace with the webhook of another app is not published, and its check says so', async () => {
  const { deployments, holders } = await start(newDataDir());
  const { sha } = await deployments.publish('notes', { workspace: workspaceCopy(workspace('1', 0), null) });
  const folder = workspace('2', 0);
  mkdirSync(join(folder, 'automations/in'), { recursive: true });
  for (const [path, text] of Object.entries(CLAIMING)) writeFileSync(join(folder, path), text);
  holders.set(SLUG, 'other');
  await assert.rejects(deployments.review('notes', { folder, base: sha }), TAKEN);
  await assert.rejects(deployments.publish('notes', { workspace: workspaceCopy(folder, sha) }), TAKEN);
  holders.clear();
  await deployments.review('notes', { folder, base: sha });
  assert.equal((await deployments.publish('notes', { workspace: workspaceCopy(folder, sha) })).version, 2);
});
