import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import { type CodeStorePaths, Layout } from '../../../storage/layout.ts';
import { appFiles, tarball } from '../../../testing/archive.ts';
import { openDeployments, type StartOptions, version, workspaceCopy } from '../../../testing/deployments.ts';
import { openJobs } from '../../../testing/jobs.ts';
import { standIn } from '../../../testing/stand-in.ts';
import { type Git, gitOn } from './git-operations.ts';
import { GitStore } from './git-store.ts';

const { root, jobs, newDataDir, start: startOn, close } = await openDeployments();
after(close);

type Running = Awaited<ReturnType<typeof start>>;

async function start(dataDir: string, options: StartOptions = {}) {
  const running = await startOn(dataDir, { store: 'git', ...options });
  const store = running.layout.codeStore as CodeStorePaths;
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', store.repository, ...args], { encoding: 'utf8' }).trim();
  /** What main has of a file of the app; null when there is none. */
  const onMain = (path: string, app = 'notes'): string | null => {
    const tree = git('ls-tree', '-r', '--name-only', 'main').split('\n');
    return tree.includes(`apps/${app}/${path}`) ? git('show', `main:apps/${app}/${path}`) : null;
  };
  /** What a caller is served. */
  const live = async (path: string, app = 'notes'): Promise<string | null> => {
    const { active } = await running.registry.state(app);
    const file = join(running.layout.app(app).version(active?.versionId ?? '').code, path);
    return existsSync(file) ? readFileSync(file, 'utf8') : null;
  };
  return { ...running, store, git, onMain, live };
}

type Files = Record<string, string>;

/** A workspace's folder of the app with these files. */
function workspace(files: Files): string {
  const folder = mkdtempSync(join(root, 'session-'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

const app = (name: string, more: Files = {}): Files => ({ ...appFiles('notes', { version: name }), ...more });

function publish({ deployments }: Running, files: Files, base: string | null = null, id = 'notes') {
  return deployments.publish(id, { workspace: workspaceCopy(workspace(files), base), message: 'Change it' });
}

/** The running gateway as it would be found after it was killed now. */
function crashed({ layout }: Running): string {
  const copy = newDataDir();
  cpSync(layout.dataDir, copy, { recursive: true, verbatimSymlinks: true });
  return copy;
}

const failsWith = (code: string) => (error: unknown) => error instanceof SvcError && error.code === code;

test('a publication is a tagged commit on main, and its tree is served', async () => {
  const running = await start(newDataDir());
  const { deployments, git, onMain, live, store, events } = running;
  const first = await publish(running, app('1', { 'a.txt': 'one\n' }));
  assert.deepEqual(first, {
    id: 'notes',
    version: 1,
    tag: 'notes/v1',
    sha: git('rev-parse', 'main'),
    migrationsApplied: [],
    webhooks: [],
  });
  assert.equal(git('rev-parse', 'notes/v1^{commit}'), first.sha);
  assert.match(
    git('log', '-1', '--format=%an <%ae>%n%B', 'main'),
    /^svc <svc@localhost>\nChange it\n\nVersion: notes\/v1$/,
  );
  const second = await publish(running, app('1', { 'a.txt': 'two\n' }), first.sha);
  assert.equal(second.tag, 'notes/v2');
  assert.equal(onMain('a.txt'), 'two');
  assert.equal(await live('a.txt'), 'two\n');
  assert.equal(readFileSync(store.activeMain, 'utf8'), `${second.sha}\n`);
  assert.deepEqual(
    (await deployments.versions('notes')).map(({ versionId, active, files }) => [versionId, active, files]),
    [
      ['notes/v2', true, 3],
      ['notes/v1', false, 3],
    ],
  );
  assert.equal((await deployments.record('notes')).backend, 'git');
  assert.deepEqual(events, ['swap notes 1', 'swap notes 1']);
  assert.equal(git('fsck', '--strict'), '');
});

test('a start has the repository opened by a job only where it is not as the last gateway left it', async () => {
  const running = await start(newDataDir());
  await publish(running, app('1'));
  const { layout, store: paths } = running;
  const asked: string[] = [];
  const git: Git = (operation, job) => {
    asked.push(operation);
    return gitOn(jobs, paths.repository)(operation, job);
  };
  const unwanted = (error: unknown): void => assert.fail(String(error));
  const log = standIn<Logger>({ warn: unwanted, error: unwanted });
  const open = async (): Promise<string[]> => {
    const store = new GitStore({
      layout,
      paths,
      git,
      shared: null,
      log,
      author: { name: 'svc', email: 'svc@localhost' },
    });
    await store.open();
    await store.tidy();
    await store.close();
    return asked.splice(0);
  };
  assert.deepEqual(await open(), []);
  const head = join(paths.repository, 'HEAD');
  const text = readFileSync(head, 'utf8');
  for (const change of [
    () => rmSync(head),
    () => writeFileSync(join(paths.repository, 'config'), ''),
    () => writeFileSync(paths.activeMain, `${'a'.repeat(40)}\n`),
    () => rmSync(paths.activeMain),
  ]) {
    change();
    assert.deepEqual(await open(), ['openRepository'], `${change}`);
    assert.equal(readFileSync(head, 'utf8'), text);
    assert.equal(readFileSync(paths.activeMain, 'utf8').trim(), running.git('rev-parse', 'main'));
    assert.deepEqual(await open(), []);
  }
  writeFileSync(join(paths.repository, 'objects/pack/pack-1.keep'), '');
  assert.deepEqual(await open(), ['packLoose'], 'a packing was cut off');
});

test('two publications are merged; if they change the same line, the second gets an error with the file', async () => {
  const running = await start(newDataDir());
  const lines = (a: string, b: string) => `${a}\n\n\n\n\n\n${b}\n`;
  const { sha } = await publish(running, app('1', { 'a.txt': lines('a', 'b') }));
  await publish(running, app('1', { 'a.txt': lines('A', 'b') }), sha);
  await publish(running, app('1', { 'a.txt': lines('a', 'B') }), sha);
  assert.equal(await running.live('a.txt'), lines('A', 'B'));

  const folder = workspace(app('1', { 'a.txt': lines('other', 'b') }));
  const conflict = running.deployments.publish('notes', { workspace: workspaceCopy(folder, sha) });
  await assert.rejects(conflict, (error: SvcError) => error.code === 'MERGE_CONFLICT' && error.files?.[0] === 'a.txt');
  assert.equal(readFileSync(join(folder, 'a.txt'), 'utf8'), lines('other', 'b'));
  assert.equal(await running.live('a.txt'), lines('A', 'B'));
});

test('publications of different apps at once are all on main', async () => {
  const running = await start(newDataDir());
  const ids = ['a', 'b', 'c', 'd'];
  await Promise.all(ids.map((id) => publish(running, appFiles(id), null, id)));
  for (const id of ids) assert.notEqual(running.onMain('app.json', id), null, `${id} is not on main`);
  const second = ids.map((id) =>
    publish(running, { ...appFiles(id), 'b.txt': id }, running.git('rev-parse', 'main'), id),
  );
  await Promise.all(second);
  for (const id of ids) assert.equal(running.onMain('b.txt', id), id);
  assert.equal(running.git('fsck', '--strict'), '');
});

test('publishing no changes is refused, and a refusal of a gate changes nothing', async () => {
  const running = await start(newDataDir());
  const files = app('1', { 'a.txt': 'one' });
  const { sha } = await publish(running, files);
  await assert.rejects(publish(running, files, sha), failsWith('NO_CHANGES'));
  await assert.rejects(publish(running, { ...files, 'app.json': '{}' }, sha), failsWith('INVALID_MANIFEST'));
  const broken = { ...app('1', { 'queries/q.js': 'export default async () => {' }) };
  broken['app.json'] = JSON.stringify({ ...JSON.parse(broken['app.json'] ?? ''), queries: [{ name: 'q' }] });
  await assert.rejects(publish(running, broken, sha), failsWith('INVALID_HANDLER'));
  assert.equal(running.git('rev-parse', 'main'), sha);
  assert.deepEqual(readdirSync(running.layout.journalDir), []);
  assert.deepEqual(readdirSync(running.layout.tmpDir), []);
  assert.deepEqual(readdirSync(running.layout.app('notes').versionsDir), ['v1']);
});

test('a migration that fails leaves the old version live, and the publication works once it is mended', async () => {
  const running = await start(newDataDir());
  const migration = 'migrations/0001_a.sql';
  const { sha } = await publish(running, app('1', { [migration]: 'CREATE TABLE notes (a);' }));
  const next = (sql: string) => app('2', { [migration]: 'CREATE TABLE notes (a);', 'migrations/0002_b.sql': sql });
  await assert.rejects(publish(running, next('INSERT INTO nowhere VALUES (1);'), sha), failsWith('MIGRATION_FAILED'));
  assert.equal((await running.deployments.record('notes')).activeVersion, 'notes/v1');
  assert.equal(running.git('rev-parse', 'main'), sha);
  assert.deepEqual(readdirSync(running.store.mainDir), [sha]);
  const mended = await publish(running, next('ALTER TABLE notes ADD b;'), sha);
  assert.deepEqual([mended.tag, mended.migrationsApplied], ['notes/v2', [2]]);
});

test('a rollback is exactly the tag’s tree, shows the migrations ahead, and restores files that are gone from the disk', async () => {
  const running = await start(newDataDir(), { versionRetention: 2 });
  const { deployments, upload, git, live, layout, onMain } = running;
  await upload(version('1', 1, { 'one.txt': '1' }));
  for (const name of ['2', '3', '4']) await upload(version(name, 3, { [`${name}.txt`]: name }));
  const { versionsDir } = layout.app('notes');
  assert.deepEqual(readdirSync(versionsDir).sort(), ['v3', 'v4']);

  const rolled = await deployments.rollback('notes', 1);
  assert.deepEqual(rolled, {
    id: 'notes',
    activeVersion: 'notes/v1',
    previousVersion: 'notes/v4',
    migrationsAhead: [2, 3],
    webhooks: [],
  });
  assert.deepEqual(
    [await live('one.txt'), await live('4.txt'), onMain('one.txt'), onMain('4.txt')],
    ['1', null, '1', null],
  );
  assert.equal(git('rev-parse', 'main:apps/notes'), git('rev-parse', 'notes/v1:apps/notes'));
  assert.equal((await deployments.versions('notes')).length, 4);
  assert.equal(
    running.withData('notes', (db) => db.pragma('user_version', { simple: true })),
    3,
  );

  assert.equal((await deployments.rollback('notes', 'v3')).activeVersion, 'notes/v3');
  assert.equal((await deployments.rollback('notes', null)).activeVersion, 'notes/v2');
  await assert.rejects(deployments.rollback('notes', 9), failsWith('UNKNOWN_VERSION'));
});

test('an upload that is only stored is a tag that main does not have, until it is activated', async () => {
  const { upload, deployments, git, onMain } = await start(newDataDir());
  await upload(version('1', 0, { 'a.txt': '1' }));
  const stored = await upload(version('2', 0, { 'a.txt': '2' }), { activate: false });
  assert.deepEqual([stored.versionId, stored.activeVersion], ['notes/v2', 'notes/v1']);
  assert.deepEqual([git('show', 'notes/v2:apps/notes/a.txt'), onMain('a.txt')], ['2', '1']);
  await deployments.activate('notes', 'notes/v2');
  assert.equal(onMain('a.txt'), '2');
  const again = await upload(version('1', 0, { 'a.txt': '1' }));
  assert.deepEqual([again.versionId, again.deduplicated, onMain('a.txt')], ['notes/v1', true, '1']);
});

test('content that was changed on disk is stored again, beside the live version', async () => {
  const { upload, layout, live, git } = await start(newDataDir());
  await upload(version('1'));
  writeFileSync(layout.app('notes').version('notes/v1').manifest, '{}');
  const mended = await upload(version('1'));
  assert.deepEqual([mended.versionId, mended.deduplicated], ['notes/v2', false]);
  assert.equal(JSON.parse((await live('app.json')) ?? '').version, '1');
  assert.notEqual(git('rev-parse', 'notes/v1^{commit}'), git('rev-parse', 'notes/v2^{commit}'));
});

test('numbers of versions and apps that were deleted are not given again', async () => {
  const { upload, deployments, git, store, onMain } = await start(newDataDir());
  for (const name of ['1', '2', '3']) await upload(version(name));
  await assert.rejects(deployments.deleteVersion('notes', 'notes/v3'), failsWith('VERSION_ACTIVE'));
  await deployments.deleteVersion('notes', 'notes/v2');
  await assert.rejects(deployments.deleteVersion('notes', 'notes/v2'), failsWith('UNKNOWN_VERSION'));
  await assert.rejects(deployments.activate('notes', 'notes/v2'), failsWith('UNKNOWN_VERSION'));
  await deployments.remove('notes');
  assert.deepEqual([onMain('app.json'), git('tag')], [null, '']);
  assert.deepEqual(readdirSync(store.mainDir), []);
  assert.equal((await upload(version('4'))).versionId, 'notes/v4');
});

test('active-main follows main also when the tags of a removed app cannot be moved', async () => {
  const { deployments, upload, git, store } = await start(newDataDir());
  await upload(version('1'));
  git('update-ref', 'refs/deleted/notes/v1', 'main');
  await deployments.remove('notes');
  assert.equal(git('tag'), 'notes/v1');
  assert.equal(readFileSync(store.activeMain, 'utf8'), `${git('rev-parse', 'main')}\n`);
});

test('a version in which something still runs stays on disk', async () => {
  const { upload, atWork, layout } = await start(newDataDir(), { versionRetention: 2 });
  const first = await upload(version('1'));
  atWork.add(first.versionId);
  for (const name of ['2', '3', '4']) await upload(version(name));
  const { versionsDir } = layout.app('notes');
  assert.deepEqual(readdirSync(versionsDir).sort(), ['v1', 'v3', 'v4']);
  atWork.clear();
  await upload(version('5'));
  assert.deepEqual(readdirSync(versionsDir).sort(), ['v4', 'v5']);
});

test('a publication interrupted before its migrations is undone; after them it is finished', async () => {
  let before = '';
  let after = '';
  const moments = {
    migrating: () => {
      before = crashed(running);
    },
    migrated: () => {
      after = crashed(running);
    },
  };
  const running: Running = await start(newDataDir());
  await running.upload(version('1', 1));
  const dataDir = running.layout.dataDir;
  const second = await start(dataDir, { moments });
  Object.assign(running, second);
  await second.upload(version('2', 2));

  const undone = await start(before);
  assert.equal((await undone.deployments.record('notes')).activeVersion, 'notes/v1');
  assert.deepEqual([undone.git('tag'), readdirSync(undone.layout.journalDir)], ['notes/v1', []]);
  assert.equal(readdirSync(undone.store.mainDir).length, 1);
  assert.equal((await undone.upload(version('2', 2))).versionId, 'notes/v2');

  const finished = await start(after);
  assert.equal((await finished.deployments.record('notes')).activeVersion, 'notes/v2');
  assert.deepEqual([finished.git('tag'), readdirSync(finished.layout.journalDir)], ['notes/v1\nnotes/v2', []]);
  assert.equal(JSON.parse(finished.onMain('app.json') ?? '').version, '2');
});

test('with a damaged repository live versions keep serving, and changes say what is damaged', async () => {
  const running = await start(newDataDir());
  const { sha: base } = await publish(running, app('0'));
  const { sha } = await publish(running, app('1', { 'a.txt': 'one' }), base);
  const tree = running.git('rev-parse', 'main:apps');
  rmSync(join(running.store.repository, 'objects', tree.slice(0, 2), tree.slice(2)));
  const again = await start(running.layout.dataDir);
  assert.equal(await again.live('a.txt'), 'one');
  const damage = (error: unknown) => failsWith('STORE_DAMAGED')(error) && (error as Error).message.includes(tree);
  await assert.rejects(publish(again, app('2', { 'a.txt': 'two' }), sha), damage);
  await assert.rejects(again.upload(version('2')), damage);
  await assert.rejects(again.deployments.rollback('notes', 1), damage);
  assert.equal((await again.deployments.record('notes')).activeVersion, 'notes/v2');
});

test('a missing repository is not made again: numbers would be reused', async () => {
  const running = await start(newDataDir());
  await publish(running, app('1'));
  rmSync(running.store.repository, { recursive: true });
  const again = await start(running.layout.dataDir);
  assert.notEqual(await again.live('app.json'), null);
  await assert.rejects(again.upload(version('2')), failsWith('STORE_DAMAGED'));
});

test('a data directory is opened with the backend that its apps are on, or not at all', async () => {
  const git = await start(newDataDir());
  await git.upload(version('1'));
  const opened = startOn(git.layout.dataDir);
  await assert.rejects(opened, /git store .*code-store.*Leave --store out/);

  const tarballs = await startOn(newDataDir());
  await tarballs.upload(version('1'));
  await assert.rejects(start(tarballs.layout.dataDir), /tarball backend/);
  assert.deepEqual(existsSync(new Layout(tarballs.layout.dataDir).storeMark), false);
  const { activeVersion } = await (await startOn(tarballs.layout.dataDir)).deployments.record('notes');
  assert.match(activeVersion ?? '', /^v_/);
});

test('publishing on the tarball backend says how to get the git store', async () => {
  const { deployments } = await startOn(newDataDir());
  const options = { workspace: workspaceCopy(workspace(app('1')), null) };
  await assert.rejects(deployments.publish('notes', options), failsWith('NO_GIT_STORE'));
});

test('the data directory can be moved as a whole', async () => {
  const running = await start(newDataDir());
  await running.upload(tarball(app('1', { 'a.txt': 'one' })));
  const { versionsDir } = running.layout.app('notes');
  assert.ok(!readlinkSync(join(versionsDir, 'v1')).startsWith('/'), 'the link is absolute');
  const moved = await start(crashed(running));
  rmSync(running.layout.dataDir, { recursive: true });
  assert.equal(await moved.live('a.txt'), 'one');
});

test('jobs on the repository run in another thread, and their errors come back unchanged', async () => {
  const { jobs, close: end } = await openJobs(root);
  try {
    const git = gitOn(jobs, join(root, 'apps.git'));
    const by = { author: { name: 'svc', email: 'svc@localhost' }, at: 1_700_000_000_000 };
    const { main } = await git('openRepository', by);
    const folder = join(root, 'todos');
    mkdirSync(folder);
    writeFileSync(join(folder, 'app.json'), '{}');
    const made = await git('commitApp', { ...by, app: 'todos', folder, message: 'Publish' });
    assert.equal(made.parent, main);
    await git('settle', { ...by, app: 'todos', commit: made.commit, tag: { name: 'todos/v1', message: 'Publish' } });
    const { files } = await git('treeOf', { app: 'todos', from: 'todos/v1' });
    assert.deepEqual(
      files?.map(({ path, size }) => [path, size]),
      [['app.json', 2]],
    );
    await git('checkout', { app: 'todos', from: 'todos/v1', to: join(root, 'checked-out') });
    assert.equal(readFileSync(join(root, 'checked-out/app.json'), 'utf8'), '{}');
    assert.deepEqual((await git('diffApp', { app: 'todos', folder, against: 'main', since: null })).files, []);
    await assert.rejects(git('treeOf', { app: 'todos', from: 'todos/v2' }), { code: 'UNKNOWN_VERSION', status: 404 });
    const missing = 'a'.repeat(40);
    const damaged = { code: 'STORE_DAMAGED', message: new RegExp(missing) };
    await assert.rejects(git('treeOf', { app: 'todos', from: missing }), damaged);
  } finally {
    await end();
  }
});

for (const [what, closes, warnings] of [
  ['fails is tried again, with a warning', false, 1],
  ['a stop takes away is no warning', true, 0],
] as const)
  test(`packing that ${what}`, async () => {
    const warned: unknown[] = [];
    const { layout } = await start(newDataDir());
    const paths = layout.codeStore as CodeStorePaths;
    let fail = (_error: Error): void => {};
    const job = new Promise<never>((_resolve, reject) => {
      fail = reject;
    });
    const git = (() => job) as unknown as Git;
    const log = standIn<Logger>({ warn: (error: unknown) => void warned.push(error), error: () => {} });
    // As a packing that was cut off leaves it: there is something to do.
    writeFileSync(join(paths.repository, 'objects/pack/pack-1.keep'), '');
    const store = new GitStore({
      layout,
      paths,
      git,
      shared: null,
      log,
      author: { name: 'svc', email: 'svc@localhost' },
    });
    await store.tidy();
    const closed = closes ? store.close() : undefined;
    fail(new SvcError('OVERLOADED', 'The gateway stops.'));
    if (closed === undefined) await setImmediate();
    await (closed ?? store.close());
    assert.equal(warned.length, warnings);
  });
