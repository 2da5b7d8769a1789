import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import type { Logger } from 'pino';
import type { GitFile, GitJob } from '../../protocol/wire/git-jobs.ts';
import type { WorkspaceFilesJob, WorkspaceFilesResult } from '../../protocol/wire/jobs.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import {
  fingerprint,
  readWorkspace,
  type WorkspaceRecord,
  writeWorkspace,
} from '../../storage/authoring/workspace-records.ts';
import { CodeStorePaths } from '../../storage/layout.ts';
import { tarball } from '../../testing/archive.ts';
import { NEEDS_GIT } from '../../testing/git-fixture.ts';
import { standIn } from '../../testing/stand-in.ts';
import { git as operations, runGit } from '../../workers/jobs/git/operations.ts';
import { workspaceFiles } from '../../workers/jobs/workspace-files-job.ts';
import type { FollowWorkspace, PublishedFiles } from '../deployments/change.ts';
import type { Git } from '../deployments/store/git-operations.ts';
import { Workspaces } from './workspaces.ts';

const author = { name: 'svc', email: 'svc@localhost' };
const published: { app: string; base: string | null }[] = [];
/** App → when it was registered. */
const registered = new Map<string, number>();
/** How many jobs there were for the files of workspaces, by their kind. */
const asked: Partial<Record<WorkspaceFilesJob['work'], number>> = {};
/** The operations on the repository. */
const operated: string[] = [];
/** Publications that a crash cut off before their workspace had the files. */
const cutOff: { workspace: string; published: PublishedFiles }[] = [];
let follow: FollowWorkspace;
let isFollowed = false;
const fails = (args: unknown[]): void => assert.fail(`warned: ${JSON.stringify(args)}`);
let warned = fails;
let root: string;
let store: CodeStorePaths;
let workspaces: Workspaces;

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'svc-sessions-'));
  store = new CodeStorePaths(join(root, 'code-store'));
  await mkdir(store.dir, { recursive: true });
  const { repository } = store;
  await operations.openRepository({ repository, author, at: Date.now() });
  await publish('notes', {
    'app.json': '{"id":"notes"}',
    'index.html': '<h1>Notes</h1>',
    'queries/list.js': 'export default 1;',
  });
  const git: Git = (operation, job) => {
    operated.push(operation);
    return runGit({ operation, ...job, repository } as GitJob) as Promise<never>;
  };
  const registry = standIn<Registry>({ registeredAt: (app) => registered.get(app) ?? null, loaded: () => undefined });
  const log = standIn<Logger>({ warn: (...args: unknown[]) => warned(args) });
  workspaces = new Workspaces({
    store,
    git,
    shared: null,
    draftsOf: (workspace, app) => join(store.dir, workspace, app),
    author,
    jobs: standIn({
      workspaceFiles: <W extends WorkspaceFilesJob['work']>(job: WorkspaceFilesJob & { work: W }) => {
        asked[job.work] = (asked[job.work] ?? 0) + 1;
        return workspaceFiles(job) as Promise<WorkspaceFilesResult[W]>;
      },
    }),
    deployments: standIn({
      publish: async (app, { workspace }) => {
        published.push({ app, base: workspace.base });
        const files = fingerprint((await workspaceFiles({ work: 'list', folder: workspace.folder })) as GitFile[]);
        const { commit } = await commitApp(app, workspace.folder);
        await follow(workspace.id, app, { commit, files });
        return { id: app, version: 1, tag: `${app}/v1`, sha: commit, migrationsApplied: [], webhooks: [] };
      },
      review: async () => [],
      followWorkspaces: (given) => {
        follow = given;
      },
      catchUp: async (within, given) => {
        for (const { workspace, published } of cutOff.splice(0))
          await within(workspace, 'notes', async () => {
            isFollowed = await given(workspace, 'notes', published);
          });
      },
    }),
    registry,
    log,
  });
  await start();
});

/** As a start does. */
async function start(): Promise<void> {
  const found = await workspaces.found();
  await workspaces.arrive(found);
  await workspaces.tidy();
  workspaces.serve(found);
}

after(() => rm(root, { recursive: true, force: true }));

async function commitApp(app: string, folder: string, name: string | null = null): Promise<{ commit: string }> {
  const { repository } = store;
  const { commit } = await operations.commitApp({ repository, app, folder, message: 'a test', author, at: Date.now() });
  const tag = name === null ? null : { name, message: name };
  await operations.settle({ repository, app, commit, tag, author, at: Date.now() });
  return { commit };
}

async function publish(app: string, files: Record<string, string>): Promise<void> {
  const folder = await mkdtemp(join(root, 'app-'));
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(folder, path, '..'), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  await commitApp(app, folder);
}

const put = (sid: string, path: string, text: string, conditions = {}) =>
  workspaces.putFile(sid, 'notes', path, Buffer.from(text), conditions);

test('a workspace shows the files of main until it changes them, and lists its changes', async () => {
  const { sessionId, base } = await workspaces.create();
  assert.match(sessionId, /^s[0-9a-f]{16}$/);
  assert.match(base, /^[0-9a-f]{40}$/);
  const edited: string[] = [];
  workspaces.onEdited((sid, app) => edited.push(`${sid}/${app}`));
  assert.deepEqual(
    (await workspaces.files(sessionId, 'notes')).map(({ path }) => path),
    ['app.json', 'index.html', 'queries/list.js'],
  );
  assert.deepEqual((await workspaces.diff(sessionId, null)).files, []);
  const { file, created } = await put(sessionId, 'css/page.css', 'body {}');
  assert.equal(created, true);
  assert.equal((await put(sessionId, 'index.html', '<h1>My notes</h1>')).created, false);
  assert.deepEqual(edited, [`${sessionId}/notes`, `${sessionId}/notes`]);
  const { files } = await workspaces.diff(sessionId, 'notes');
  assert.deepEqual(
    files.map(({ app, path, status }) => [app, path, status]),
    [
      ['notes', 'css/page.css', 'added'],
      ['notes', 'index.html', 'modified'],
    ],
  );
  assert.match(files[1]?.patch ?? '', /\+<h1>My notes<\/h1>/);
  const { bytes, sha } = await workspaces.readFile(sessionId, 'notes', 'css/page.css');
  assert.equal(Buffer.from(bytes).toString(), 'body {}');
  assert.equal(sha, file.sha);
  const [row] = (await workspaces.list()).filter((one) => one.sessionId === sessionId);
  assert.deepEqual(row?.apps, ['notes']);
  assert.ok((row?.touchedAt ?? 0) >= (row?.createdAt ?? 0), 'touched after it was made');
  await workspaces.remove(sessionId);
});

test('If-Match and If-None-Match prevent overwriting others’ changes', async () => {
  const { sessionId } = await workspaces.create();
  const { file } = await put(sessionId, 'a.txt', 'one');
  await put(sessionId, 'a.txt', 'two', { ifMatch: `"${file.sha}"` });
  const stale = { code: 'PRECONDITION_FAILED', path: 'a.txt' };
  await assert.rejects(put(sessionId, 'a.txt', 'three', { ifMatch: `"${file.sha}"` }), stale);
  await assert.rejects(put(sessionId, 'a.txt', 'three', { ifNoneMatch: '*' }), stale);
  await assert.rejects(workspaces.deleteFile(sessionId, 'notes', 'a.txt', { ifMatch: `"${file.sha}"` }), stale);
  await assert.rejects(put(sessionId, 'b.txt', 'x', { ifMatch: '*' }), { code: 'PRECONDITION_FAILED' });
  await workspaces.deleteFile(sessionId, 'notes', 'a.txt', { ifMatch: '*' });
  const tooLong = `${'x'.repeat(300)}.txt`;
  await assert.rejects(workspaces.readFile(sessionId, 'notes', tooLong), { code: 'NOT_FOUND' });
  await assert.rejects(workspaces.deleteFile(sessionId, 'notes', tooLong, {}), { code: 'NOT_FOUND' });
  await assert.rejects(workspaces.readFile(sessionId, 'notes', 'a.txt'), { code: 'NOT_FOUND' });
  await assert.rejects(workspaces.deleteFile(sessionId, 'notes', 'a.txt', {}), { code: 'NOT_FOUND' });
  await workspaces.remove(sessionId);
});

test('paths keep the rules of archives, and no link is followed', async () => {
  const { sessionId } = await workspaces.create();
  for (const [path, code] of [
    ['../escape.txt', 'ARCHIVE_PATH'],
    ['/abs.txt', 'ARCHIVE_PATH'],
    ['a\\b.txt', 'ARCHIVE_PATH'],
    ['a\0.txt', 'ARCHIVE_PATH'],
    ['C:/a.txt', 'ARCHIVE_PATH'],
    ['INDEX.html', 'ARCHIVE_PATH'],
    ['index.html/a.txt', 'ARCHIVE_PATH'],
    [`${'n'.repeat(300)}.txt`, 'ARCHIVE_PATH'],
    ['run.sh', 'ARCHIVE_EXTENSION'],
    ['', 'ARCHIVE_PATH'],
  ] as const) {
    await assert.rejects(put(sessionId, path, 'x'), { code }, path);
  }
  const folder = await workspaces.folder(sessionId, 'notes');
  const outside = join(root, 'outside');
  await mkdir(outside, { recursive: true });
  await writeFile(join(outside, 'secret.txt'), 'secret');
  await symlink(outside, join(folder, 'link'));
  await symlink(join(outside, 'secret.txt'), join(folder, 'secret.txt'));
  await assert.rejects(workspaces.readFile(sessionId, 'notes', 'link/secret.txt'), { code: 'ARCHIVE_ENTRY_TYPE' });
  await assert.rejects(workspaces.readFile(sessionId, 'notes', 'secret.txt'), { code: 'ARCHIVE_ENTRY_TYPE' });
  await assert.rejects(put(sessionId, 'link/secret.txt', 'gone'), { code: 'ARCHIVE_ENTRY_TYPE' });
  assert.equal(await readFile(join(outside, 'secret.txt'), 'utf8'), 'secret');
  assert.ok(
    !(await workspaces.files(sessionId, 'notes')).some(({ path }) => path.includes('secret')),
    'links are not listed',
  );
  await workspaces.remove(sessionId);
});

const putAll = (sid: string, files: Record<string, string>, received = () => {}) =>
  workspaces.putFiles(sid, 'notes', Readable.from([tarball(files)]), received);

test('many files are put in one change, whose cost does not grow with each of them', async () => {
  const { sessionId } = await workspaces.create();
  const edited: string[] = [];
  workspaces.onEdited((sid) => edited.push(sid));
  const names = Array.from({ length: 300 }, (_, n) => `many/${n % 7}/${n}.txt`);
  const many = Object.fromEntries(names.map((name) => [name, `of ${name}`]));
  const before = { ...asked };
  const files = await putAll(sessionId, { ...many, 'index.html': '<h1>Many</h1>' });
  assert.deepEqual([(asked.putAll ?? 0) - (before.putAll ?? 0), asked.put], [1, before.put]);
  assert.deepEqual(edited, [sessionId], 'who follows it is told once');
  assert.deepEqual(files.map(({ path }) => path).sort(), [...names, 'index.html'].sort());
  const listed = await workspaces.files(sessionId, 'notes');
  assert.deepEqual(
    listed.filter(({ path }) => path in many || path === 'index.html'),
    files,
  );
  assert.equal(listed.length, 303, 'the others stay');
  assert.deepEqual(await putAll(sessionId, many), files.slice(1), 'the same once more');
  assert.equal(
    (await readdir(store.workspacesDir)).filter((name) => name.startsWith('.')).length,
    0,
    'nothing is left',
  );
  await workspaces.remove(sessionId);
});

test('of several files one that is refused keeps all others out', async () => {
  const { sessionId } = await workspaces.create();
  const before = await workspaces.files(sessionId, 'notes');
  const folder = await workspaces.folder(sessionId, 'notes');
  for (const [path, code] of [
    ['INDEX.html', 'ARCHIVE_PATH'],
    ['index.html/a.txt', 'ARCHIVE_PATH'],
    ['queries', 'ARCHIVE_EXTENSION'],
    ['../escape.txt', 'ARCHIVE_PATH'],
    ['run.sh', 'ARCHIVE_EXTENSION'],
  ] as const) {
    await assert.rejects(putAll(sessionId, { 'first.txt': 'x', [path]: 'x', 'z.txt': 'x' }), { code, path }, path);
  }
  const outside = join(root, 'outside-of-all');
  await mkdir(outside);
  await symlink(outside, join(folder, 'linked'));
  await assert.rejects(putAll(sessionId, { 'a.txt': 'x', 'linked/a.txt': 'x' }), { code: 'ARCHIVE_ENTRY_TYPE' });
  assert.deepEqual(await readdir(outside), []);
  const noArchive = Readable.from([Buffer.from('no archive')]);
  await assert.rejects(
    workspaces.putFiles(sessionId, 'notes', noArchive, () => {}),
    { code: 'INVALID_ARCHIVE' },
  );
  const ended = () => {
    throw new Error('the token has ended');
  };
  await assert.rejects(putAll(sessionId, { 'a.txt': 'x' }, ended), /token has ended/);
  await assert.rejects(putAll('nobody', { 'a.txt': 'x' }), { code: 'UNKNOWN_SESSION' });
  assert.deepEqual(await workspaces.files(sessionId, 'notes'), before);
  assert.equal(
    (await readdir(store.workspacesDir)).filter((name) => name.startsWith('.')).length,
    0,
    'nothing is left',
  );
  await workspaces.remove(sessionId);
});

test('unknown workspaces, apps and ids of every kind are errors', async () => {
  for (const sid of ['nobody', '../etc', '', '.', 'a'.repeat(80)]) {
    await assert.rejects(workspaces.files(sid, 'notes'), { code: 'UNKNOWN_SESSION' });
    await assert.rejects(workspaces.remove(sid), { code: 'UNKNOWN_SESSION' });
  }
  for (const sid of ['-a', '.hidden', 'a/b', 'ä', 'a'.repeat(65)])
    await assert.rejects(workspaces.create(sid), { code: 'INVALID_ID' });
  const { sessionId } = await workspaces.create('mine');
  await assert.rejects(workspaces.create('mine'), { code: 'CONFLICT' });
  await assert.rejects(workspaces.files(sessionId, 'nothing'), { code: 'UNKNOWN_APP' });
  await assert.rejects(workspaces.files(sessionId, '_apps'), { code: 'RESERVED_ID' });
  await assert.rejects(workspaces.files(sessionId, 'A b'), { code: 'INVALID_ID' });
  await workspaces.remove(sessionId);
  await assert.rejects(workspaces.files(sessionId, 'notes'), { code: 'UNKNOWN_SESSION' });
});

test('a new app is added whole or not at all, and never over another', async () => {
  const { sessionId } = await workspaces.create();
  const fill = (folder: string) => writeFile(join(folder, 'app.json'), '{"id":"fresh"}');
  await assert.rejects(
    workspaces.add(sessionId, 'fresh', async (folder) => {
      await fill(folder);
      throw new Error('cut off');
    }),
    /cut off/,
  );
  assert.deepEqual(await workspaces.apps(sessionId), []);
  await workspaces.add(sessionId, 'fresh', fill);
  await put(sessionId, 'index.html', 'kept');
  await assert.rejects(workspaces.add(sessionId, 'fresh', fill), { code: 'CONFLICT', path: 'id' });
  await assert.rejects(workspaces.add(sessionId, 'notes', fill), { code: 'CONFLICT' });
  assert.deepEqual(
    (await workspaces.files(sessionId, 'fresh')).map(({ path }) => path),
    ['app.json'],
  );
  await workspaces.remove(sessionId);
});

test('publishing asks which app when there are several, and brings the workspace up to date', async () => {
  const { sessionId } = await workspaces.create();
  await assert.rejects(workspaces.publish(sessionId, { origin: '' }), { code: 'NO_CHANGES' });
  await workspaces.add(sessionId, 'other', (folder) => writeFile(join(folder, 'app.json'), '{"id":"other"}'));
  await put(sessionId, 'index.html', '<h1>Published</h1>');
  await assert.rejects(workspaces.publish(sessionId, { origin: '' }), { code: 'BAD_REQUEST', path: 'app' });
  const { sha } = await workspaces.publish(sessionId, { app: 'notes', origin: '' });
  assert.equal(published.at(-1)?.app, 'notes');
  assert.deepEqual((await workspaces.diff(sessionId, 'notes')).files, []);
  assert.equal((await workspaces.diff(sessionId, null)).head, sha);
  const next = await workspaces.publish(sessionId, { origin: '' });
  assert.equal(next.id, 'other');
  assert.equal(published.at(-1)?.base, null);
  await workspaces.remove(sessionId);
});

test('edits of one app at the same time are done one after the other', async () => {
  const { sessionId } = await workspaces.create();
  const { file } = await put(sessionId, 'race.txt', 'start');
  const tries = Array.from({ length: 10 }, (_, n) => put(sessionId, 'race.txt', `${n}`, { ifMatch: `"${file.sha}"` }));
  const settled = await Promise.allSettled(tries);
  assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 1);
  await workspaces.remove(sessionId);
});

test('closing notifies its users, and removes its folder and branch', async () => {
  const { sessionId } = await workspaces.create();
  await workspaces.files(sessionId, 'notes');
  const told: string[] = [];
  workspaces.onClosed(async (sid) => void told.push(sid));
  await workspaces.remove(sessionId);
  assert.deepEqual(told, [sessionId]);
  assert.equal(await workspaces.has(sessionId), false);
});

test('an update merges publications into the workspace, once, and a crash during it is undone', async () => {
  await publish('notes', { 'app.json': '{"id":"notes"}', 'a.txt': '1\n2\n3\n4\n5\n', 'b.txt': '1\n' });
  const { sessionId } = await workspaces.create();
  await put(sessionId, 'a.txt', '1\n2\n3\n4\nsession\n');
  await put(sessionId, 'b.txt', 'session\n');
  await publish('notes', {
    'app.json': '{"id":"notes"}',
    'a.txt': 'main\n2\n3\n4\n5\n',
    'b.txt': 'main\n',
    'c.txt': '',
  });
  const edited: string[] = [];
  workspaces.onEdited((sid, app) => edited.push(`${sid}/${app}`));
  const updated = await workspaces.update(sessionId, 'notes');
  assert.deepEqual([updated.merged, updated.conflicts], [['a.txt', 'c.txt'], ['b.txt']]);
  const { repository } = store;
  assert.equal(updated.base, (await operations.openRepository({ repository, author, at: Date.now() })).main);
  const text = async (path: string) =>
    Buffer.from((await workspaces.readFile(sessionId, 'notes', path)).bytes).toString();
  const marked = '<<<<<<< workspace\nsession\n=======\nmain\n>>>>>>> published\n';
  assert.deepEqual([await text('a.txt'), await text('b.txt')], ['main\n2\n3\n4\nsession\n', marked]);
  assert.deepEqual(edited, [`${sessionId}/notes`]);

  assert.deepEqual(await workspaces.update(sessionId, 'notes'), { base: updated.base, merged: [], conflicts: [] });
  assert.equal(edited.length, 1, 'nothing was edited');
  await assert.rejects(workspaces.update(sessionId, 'no-such-app'), { code: 'UNKNOWN_APP' });
  await assert.rejects(workspaces.update('other', 'notes'), { code: 'UNKNOWN_SESSION' });

  await rename(store.workspace(sessionId).app('notes'), join(store.workspacesDir, `.aside.${sessionId}.notes`));
  await start();
  assert.equal(await text('b.txt'), marked);
});

test('a workspace that is closed while it is kept is closed once it was', async () => {
  for (let round = 0; round < 20; round++) {
    const { sessionId } = await workspaces.create(undefined, { unfinished: true });
    await Promise.all([workspaces.keep(sessionId), workspaces.remove(sessionId)]);
    await assert.rejects(workspaces.keep(sessionId), { code: 'UNKNOWN_SESSION' });
  }
});

/** What a gateway that died left of the workspace's record. */
async function rewriteRecord(sid: string, change: (record: WorkspaceRecord) => WorkspaceRecord): Promise<void> {
  const workspace = store.workspace(sid);
  await writeWorkspace(workspace, change((await readWorkspace(workspace)) as WorkspaceRecord));
}

const git = (...args: string[]) => execFileSync('git', ['-C', store.repository, ...args], { encoding: 'utf8' }).trim();

test('a workspace continues from a publication that went live while the gateway died', NEEDS_GIT, async () => {
  const { sessionId, base } = await workspaces.create();
  await put(sessionId, 'index.html', '<h1>Published</h1>');
  const files = fingerprint(await workspaces.files(sessionId, 'notes'));
  const { commit } = await commitApp('notes', store.workspace(sessionId).app('notes'), 'notes/v7');
  await rewriteRecord(sessionId, (record) => ({ ...record, apps: { notes: { base } } }));
  cutOff.push({ workspace: sessionId, published: { commit, files } });
  await start();
  const record = await readWorkspace(store.workspace(sessionId));
  assert.deepEqual([record?.base, record?.apps.notes], [commit, { base: commit }]);
  assert.equal(git('rev-parse', `sessions/${sessionId}`), commit);
  await put(sessionId, 'index.html', '<h1>The next edit of the same line</h1>');
  const { conflicts } = await workspaces.update(sessionId, 'notes');
  assert.deepEqual(conflicts, []);
  await workspaces.remove(sessionId);
});

test(
  'files that were edited since their publication are kept, and another try would have the same end',
  NEEDS_GIT,
  async () => {
    const { sessionId, base } = await workspaces.create();
    await put(sessionId, 'index.html', '<h1>Was published</h1>');
    const { commit } = await commitApp('notes', store.workspace(sessionId).app('notes'));
    await put(sessionId, 'index.html', '<h1>Edited since</h1>');
    await rewriteRecord(sessionId, (record) => ({ ...record, apps: { notes: { base } } }));
    cutOff.push({ workspace: sessionId, published: { commit, files: 'as they were sent' } });
    let warnings = 0;
    warned = () => {
      warnings += 1;
    };
    await start();
    warned = fails;
    assert.deepEqual([isFollowed, warnings], [true, 1]);
    assert.deepEqual((await readWorkspace(store.workspace(sessionId)))?.apps.notes, { base });
    const { bytes } = await workspaces.readFile(sessionId, 'notes', 'index.html');
    assert.equal(Buffer.from(bytes).toString(), '<h1>Edited since</h1>');
    await workspaces.remove(sessionId);
  },
);

test('after a crash each workspace has its branch, and there are no others', NEEDS_GIT, async () => {
  const { sessionId, base } = await workspaces.create();
  git('update-ref', '-d', `refs/heads/sessions/${sessionId}`);
  git('update-ref', 'refs/heads/sessions/gone', base);
  await start();
  const open = (await workspaces.list()).map((row) => `${row.sessionId} ${row.base}`).sort();
  const branches = git('for-each-ref', '--format=%(refname:lstrip=3) %(objectname)', 'refs/heads/sessions/');
  assert.equal(branches, open.join('\n'));
  operated.length = 0;
  await start();
  assert.deepEqual(operated, [], 'nothing was to be repaired');
  await workspaces.remove(sessionId);
});

test('a workspace that was opened for a request stays if the request kept it', async () => {
  const { sessionId } = await workspaces.create(undefined, { unfinished: true });
  const { sessionId: kept } = await workspaces.create(undefined, { unfinished: true });
  await workspaces.keep(kept);
  await start();
  assert.deepEqual([await workspaces.has(sessionId), await workspaces.has(kept)], [false, true]);
  await workspaces.remove(kept);
});

test('an app that was removed since it was taken has no base any more, and neither has a new app with its id', async () => {
  registered.set('notes', 1);
  const { sessionId } = await workspaces.create();
  await put(sessionId, 'index.html', 'mine');
  const baseOfPublished = async (): Promise<string | null | undefined> => {
    await put(sessionId, 'index.html', `mine ${published.length}`);
    await workspaces.publish(sessionId, { app: 'notes', origin: '' });
    return published.at(-1)?.base;
  };
  const first = await baseOfPublished();
  assert.match(String(first), /^[0-9a-f]{40}$/);
  registered.set('notes', 2);
  assert.equal(await baseOfPublished(), null, 'another app');
  assert.match(String(await baseOfPublished()), /^[0-9a-f]{40}$/, 'its own since it was published');
  registered.delete('notes');
  assert.equal(await baseOfPublished(), null, 'none');
  await workspaces.remove(sessionId);
});

test('a record that cannot be written undoes its change, and a published base is still known', async () => {
  const { sessionId } = await workspaces.create();
  await put(sessionId, 'index.html', 'before');
  const { record, dir, appsDir } = store.workspace(sessionId);
  const text = await readFile(record, 'utf8');
  await workspaces.publish(sessionId, { app: 'notes', origin: '' });
  // As it is when there is no room for the new one.
  await writeFile(record, text);
  await publish('notes', { 'app.json': '{"id":"notes"}', 'index.html': 'theirs' });
  await rm(record);
  await mkdir(record);
  await assert.rejects(workspaces.update(sessionId, 'notes'), { code: 'SESSION_DAMAGED' });
  await assert.rejects(
    workspaces.add(sessionId, 'fresh', (folder) => writeFile(join(folder, 'app.json'), '{}')),
    { code: 'SESSION_DAMAGED', message: /session\.json of the code store is a folder.*svc workspaces rm/ },
  );
  assert.deepEqual(await readdir(appsDir), ['notes']);
  assert.equal(await readFile(join(appsDir, 'notes/index.html'), 'utf8'), 'before');
  assert.deepEqual((await readdir(dir)).sort(), ['apps', 'session.json']);
  await workspaces.remove(sessionId);
});

test('workspaces have names: the given one, else the id, else a number of their own; a new name stays', async () => {
  const made = await Promise.all([
    workspaces.create('redesign'),
    workspaces.create('headings', { name: ' Larger\n headings \u0007' }),
    workspaces.create(),
    workspaces.create(),
  ]);
  const [redesign, headings, ...numbered] = made.map(({ name }) => name);
  assert.deepEqual([redesign, headings], ['redesign', 'Larger headings']);
  const [first = 0, second] = numbered.map((name) => Number(/^Draft (\d+)$/.exec(name)?.[1])).sort((a, b) => a - b);
  assert.equal(second, first + 1);
  assert.deepEqual(await workspaces.rename('redesign', 'Smaller'), { sessionId: 'redesign', name: 'Smaller' });
  await workspaces.folder('redesign', 'notes');
  const rows = await workspaces.list();
  for (const { sessionId, name } of [...made, { sessionId: 'redesign', name: 'Smaller' }].slice(1))
    assert.equal(rows.find((row) => row.sessionId === sessionId)?.name, name);
  await assert.rejects(workspaces.rename('none', 'x'), { code: 'UNKNOWN_SESSION' });
  for (const { sessionId } of made) await workspaces.remove(sessionId);
});
