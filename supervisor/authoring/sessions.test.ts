import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import type { Logger } from 'pino';
import type { GitFile, GitJob } from '../../protocol/wire/git-jobs.ts';
import type { SessionFilesJob, SessionFilesResult } from '../../protocol/wire/jobs.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import { fingerprint, readSession, type SessionRecord, writeSession } from '../../storage/authoring/session-files.ts';
import { CodeStorePaths } from '../../storage/layout.ts';
import { tarball } from '../../testing/archive.ts';
import { NEEDS_GIT } from '../../testing/git-fixture.ts';
import { standIn } from '../../testing/stand-in.ts';
import { git as operations, runGit } from '../../workers/jobs/git/operations.ts';
import { sessionFiles } from '../../workers/jobs/session-files-job.ts';
import type { FollowSession, PublishedFiles } from '../deployments/change.ts';
import type { Git } from '../deployments/store/git-store.ts';
import { Sessions } from './sessions.ts';

const author = { name: 'svc', email: 'svc@localhost' };
const published: { app: string; base: string | null }[] = [];
/** App → when it was registered. */
const registered = new Map<string, number>();
/** How many jobs there were for the files of sessions, by their kind. */
const asked: Partial<Record<SessionFilesJob['work'], number>> = {};
/** The operations on the repository. */
const operated: string[] = [];
/** Publications that a crash cut off before their session had the files. */
const cutOff: { session: string; published: PublishedFiles }[] = [];
let follow: FollowSession;
let isFollowed = false;
const fails = (args: unknown[]): void => assert.fail(`warned: ${JSON.stringify(args)}`);
let warned = fails;
let root: string;
let store: CodeStorePaths;
let sessions: Sessions;

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
  sessions = new Sessions({
    store,
    git,
    author,
    jobs: standIn({
      sessionFiles: <W extends SessionFilesJob['work']>(job: SessionFilesJob & { work: W }) => {
        asked[job.work] = (asked[job.work] ?? 0) + 1;
        return sessionFiles(job) as Promise<SessionFilesResult[W]>;
      },
    }),
    deployments: standIn({
      publish: async (app, { session }) => {
        published.push({ app, base: session.base });
        const files = fingerprint((await sessionFiles({ work: 'list', folder: session.folder })) as GitFile[]);
        const { commit } = await commitApp(app, session.folder);
        await follow(session.id, app, { commit, files });
        return { id: app, version: 1, tag: `${app}/v1`, sha: commit, migrationsApplied: [], webhooks: [] };
      },
      review: async () => [],
      followSessions: async (given) => {
        follow = given;
        for (const { session, published } of cutOff.splice(0)) isFollowed = await given(session, 'notes', published);
      },
    }),
    registry,
    log,
  });
  await sessions.open();
});

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
  sessions.putFile(sid, 'notes', path, Buffer.from(text), conditions);

test('a session shows the files of main until it changes them, and lists its changes', async () => {
  const { sessionId, base } = await sessions.create();
  assert.match(sessionId, /^s[0-9a-f]{16}$/);
  assert.match(base, /^[0-9a-f]{40}$/);
  const edited: string[] = [];
  sessions.onEdited((sid, app) => edited.push(`${sid}/${app}`));
  assert.deepEqual(
    (await sessions.files(sessionId, 'notes')).map(({ path }) => path),
    ['app.json', 'index.html', 'queries/list.js'],
  );
  assert.deepEqual((await sessions.diff(sessionId, null)).files, []);
  const { file, created } = await put(sessionId, 'css/page.css', 'body {}');
  assert.equal(created, true);
  assert.equal((await put(sessionId, 'index.html', '<h1>My notes</h1>')).created, false);
  assert.deepEqual(edited, [`${sessionId}/notes`, `${sessionId}/notes`]);
  const { files } = await sessions.diff(sessionId, 'notes');
  assert.deepEqual(
    files.map(({ app, path, status }) => [app, path, status]),
    [
      ['notes', 'css/page.css', 'added'],
      ['notes', 'index.html', 'modified'],
    ],
  );
  assert.match(files[1]?.patch ?? '', /\+<h1>My notes<\/h1>/);
  const { bytes, sha } = await sessions.readFile(sessionId, 'notes', 'css/page.css');
  assert.equal(Buffer.from(bytes).toString(), 'body {}');
  assert.equal(sha, file.sha);
  const [row] = (await sessions.list()).filter((one) => one.sessionId === sessionId);
  assert.deepEqual(row?.apps, ['notes']);
  assert.ok((row?.touchedAt ?? 0) >= (row?.createdAt ?? 0), 'touched after it was made');
  await sessions.remove(sessionId);
});

test('If-Match and If-None-Match prevent overwriting others’ changes', async () => {
  const { sessionId } = await sessions.create();
  const { file } = await put(sessionId, 'a.txt', 'one');
  await put(sessionId, 'a.txt', 'two', { ifMatch: `"${file.sha}"` });
  const stale = { code: 'PRECONDITION_FAILED', path: 'a.txt' };
  await assert.rejects(put(sessionId, 'a.txt', 'three', { ifMatch: `"${file.sha}"` }), stale);
  await assert.rejects(put(sessionId, 'a.txt', 'three', { ifNoneMatch: '*' }), stale);
  await assert.rejects(sessions.deleteFile(sessionId, 'notes', 'a.txt', { ifMatch: `"${file.sha}"` }), stale);
  await assert.rejects(put(sessionId, 'b.txt', 'x', { ifMatch: '*' }), { code: 'PRECONDITION_FAILED' });
  await sessions.deleteFile(sessionId, 'notes', 'a.txt', { ifMatch: '*' });
  const tooLong = `${'x'.repeat(300)}.txt`;
  await assert.rejects(sessions.readFile(sessionId, 'notes', tooLong), { code: 'NOT_FOUND' });
  await assert.rejects(sessions.deleteFile(sessionId, 'notes', tooLong, {}), { code: 'NOT_FOUND' });
  await assert.rejects(sessions.readFile(sessionId, 'notes', 'a.txt'), { code: 'NOT_FOUND' });
  await assert.rejects(sessions.deleteFile(sessionId, 'notes', 'a.txt', {}), { code: 'NOT_FOUND' });
  await sessions.remove(sessionId);
});

test('paths keep the rules of archives, and no link is followed', async () => {
  const { sessionId } = await sessions.create();
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
  const folder = await sessions.folder(sessionId, 'notes');
  const outside = join(root, 'outside');
  await mkdir(outside, { recursive: true });
  await writeFile(join(outside, 'secret.txt'), 'secret');
  await symlink(outside, join(folder, 'link'));
  await symlink(join(outside, 'secret.txt'), join(folder, 'secret.txt'));
  await assert.rejects(sessions.readFile(sessionId, 'notes', 'link/secret.txt'), { code: 'ARCHIVE_ENTRY_TYPE' });
  await assert.rejects(sessions.readFile(sessionId, 'notes', 'secret.txt'), { code: 'ARCHIVE_ENTRY_TYPE' });
  await assert.rejects(put(sessionId, 'link/secret.txt', 'gone'), { code: 'ARCHIVE_ENTRY_TYPE' });
  assert.equal(await readFile(join(outside, 'secret.txt'), 'utf8'), 'secret');
  assert.ok(
    !(await sessions.files(sessionId, 'notes')).some(({ path }) => path.includes('secret')),
    'links are not listed',
  );
  await sessions.remove(sessionId);
});

const putAll = (sid: string, files: Record<string, string>, received = () => {}) =>
  sessions.putFiles(sid, 'notes', Readable.from([tarball(files)]), received);

test('many files are put in one change, whose cost does not grow with each of them', async () => {
  const { sessionId } = await sessions.create();
  const edited: string[] = [];
  sessions.onEdited((sid) => edited.push(sid));
  const names = Array.from({ length: 300 }, (_, n) => `many/${n % 7}/${n}.txt`);
  const many = Object.fromEntries(names.map((name) => [name, `of ${name}`]));
  const before = { ...asked };
  const files = await putAll(sessionId, { ...many, 'index.html': '<h1>Many</h1>' });
  assert.deepEqual([(asked.putAll ?? 0) - (before.putAll ?? 0), asked.put], [1, before.put]);
  assert.deepEqual(edited, [sessionId], 'who follows it is told once');
  assert.deepEqual(files.map(({ path }) => path).sort(), [...names, 'index.html'].sort());
  const listed = await sessions.files(sessionId, 'notes');
  assert.deepEqual(
    listed.filter(({ path }) => path in many || path === 'index.html'),
    files,
  );
  assert.equal(listed.length, 303, 'the others stay');
  assert.deepEqual(await putAll(sessionId, many), files.slice(1), 'the same once more');
  assert.equal((await readdir(store.sessionsDir)).filter((name) => name.startsWith('.')).length, 0, 'nothing is left');
  await sessions.remove(sessionId);
});

test('of several files one that is refused keeps all others out', async () => {
  const { sessionId } = await sessions.create();
  const before = await sessions.files(sessionId, 'notes');
  const folder = await sessions.folder(sessionId, 'notes');
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
    sessions.putFiles(sessionId, 'notes', noArchive, () => {}),
    { code: 'INVALID_ARCHIVE' },
  );
  const ended = () => {
    throw new Error('the token has ended');
  };
  await assert.rejects(putAll(sessionId, { 'a.txt': 'x' }, ended), /token has ended/);
  await assert.rejects(putAll('nobody', { 'a.txt': 'x' }), { code: 'UNKNOWN_SESSION' });
  assert.deepEqual(await sessions.files(sessionId, 'notes'), before);
  assert.equal((await readdir(store.sessionsDir)).filter((name) => name.startsWith('.')).length, 0, 'nothing is left');
  await sessions.remove(sessionId);
});

test('unknown sessions, apps and ids of every kind are errors', async () => {
  for (const sid of ['nobody', '../etc', '', '.', 'a'.repeat(80)]) {
    await assert.rejects(sessions.files(sid, 'notes'), { code: 'UNKNOWN_SESSION' });
    await assert.rejects(sessions.remove(sid), { code: 'UNKNOWN_SESSION' });
  }
  for (const sid of ['-a', '.hidden', 'a/b', 'ä', 'a'.repeat(65)])
    await assert.rejects(sessions.create(sid), { code: 'INVALID_ID' });
  const { sessionId } = await sessions.create('mine');
  await assert.rejects(sessions.create('mine'), { code: 'CONFLICT' });
  await assert.rejects(sessions.files(sessionId, 'nothing'), { code: 'UNKNOWN_APP' });
  await assert.rejects(sessions.files(sessionId, '_apps'), { code: 'RESERVED_ID' });
  await assert.rejects(sessions.files(sessionId, 'A b'), { code: 'INVALID_ID' });
  await sessions.remove(sessionId);
  await assert.rejects(sessions.files(sessionId, 'notes'), { code: 'UNKNOWN_SESSION' });
});

test('a new app is added whole or not at all, and never over another', async () => {
  const { sessionId } = await sessions.create();
  const fill = (folder: string) => writeFile(join(folder, 'app.json'), '{"id":"fresh"}');
  await assert.rejects(
    sessions.add(sessionId, 'fresh', async (folder) => {
      await fill(folder);
      throw new Error('cut off');
    }),
    /cut off/,
  );
  assert.deepEqual(await sessions.apps(sessionId), []);
  await sessions.add(sessionId, 'fresh', fill);
  await put(sessionId, 'index.html', 'kept');
  await assert.rejects(sessions.add(sessionId, 'fresh', fill), { code: 'CONFLICT', path: 'id' });
  await assert.rejects(sessions.add(sessionId, 'notes', fill), { code: 'CONFLICT' });
  assert.deepEqual(
    (await sessions.files(sessionId, 'fresh')).map(({ path }) => path),
    ['app.json'],
  );
  await sessions.remove(sessionId);
});

test('publishing asks which app when there are several, and brings the session up to date', async () => {
  const { sessionId } = await sessions.create();
  await assert.rejects(sessions.publish(sessionId, { origin: '' }), { code: 'NO_CHANGES' });
  await sessions.add(sessionId, 'other', (folder) => writeFile(join(folder, 'app.json'), '{"id":"other"}'));
  await put(sessionId, 'index.html', '<h1>Published</h1>');
  await assert.rejects(sessions.publish(sessionId, { origin: '' }), { code: 'BAD_REQUEST', path: 'app' });
  const { sha } = await sessions.publish(sessionId, { app: 'notes', origin: '' });
  assert.equal(published.at(-1)?.app, 'notes');
  assert.deepEqual((await sessions.diff(sessionId, 'notes')).files, []);
  assert.equal((await sessions.diff(sessionId, null)).head, sha);
  const next = await sessions.publish(sessionId, { origin: '' });
  assert.equal(next.id, 'other');
  assert.equal(published.at(-1)?.base, null);
  await sessions.remove(sessionId);
});

test('edits of one app at the same time are done one after the other', async () => {
  const { sessionId } = await sessions.create();
  const { file } = await put(sessionId, 'race.txt', 'start');
  const tries = Array.from({ length: 10 }, (_, n) => put(sessionId, 'race.txt', `${n}`, { ifMatch: `"${file.sha}"` }));
  const settled = await Promise.allSettled(tries);
  assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 1);
  await sessions.remove(sessionId);
});

test('closing notifies its users, and removes its folder and branch', async () => {
  const { sessionId } = await sessions.create();
  await sessions.files(sessionId, 'notes');
  const told: string[] = [];
  sessions.onClosed(async (sid) => void told.push(sid));
  await sessions.remove(sessionId);
  assert.deepEqual(told, [sessionId]);
  assert.equal(await sessions.has(sessionId), false);
});

test('an update merges publications into the session, once, and a crash during it is undone', async () => {
  await publish('notes', { 'app.json': '{"id":"notes"}', 'a.txt': '1\n2\n3\n4\n5\n', 'b.txt': '1\n' });
  const { sessionId } = await sessions.create();
  await put(sessionId, 'a.txt', '1\n2\n3\n4\nsession\n');
  await put(sessionId, 'b.txt', 'session\n');
  await publish('notes', {
    'app.json': '{"id":"notes"}',
    'a.txt': 'main\n2\n3\n4\n5\n',
    'b.txt': 'main\n',
    'c.txt': '',
  });
  const edited: string[] = [];
  sessions.onEdited((sid, app) => edited.push(`${sid}/${app}`));
  const updated = await sessions.update(sessionId, 'notes');
  assert.deepEqual([updated.merged, updated.conflicts], [['a.txt', 'c.txt'], ['b.txt']]);
  const { repository } = store;
  assert.equal(updated.base, (await operations.openRepository({ repository, author, at: Date.now() })).main);
  const text = async (path: string) =>
    Buffer.from((await sessions.readFile(sessionId, 'notes', path)).bytes).toString();
  const marked = '<<<<<<< session\nsession\n=======\nmain\n>>>>>>> published\n';
  assert.deepEqual([await text('a.txt'), await text('b.txt')], ['main\n2\n3\n4\nsession\n', marked]);
  assert.deepEqual(edited, [`${sessionId}/notes`]);

  assert.deepEqual(await sessions.update(sessionId, 'notes'), { base: updated.base, merged: [], conflicts: [] });
  assert.equal(edited.length, 1, 'nothing was edited');
  await assert.rejects(sessions.update(sessionId, 'no-such-app'), { code: 'UNKNOWN_APP' });
  await assert.rejects(sessions.update('other', 'notes'), { code: 'UNKNOWN_SESSION' });

  await rename(store.session(sessionId).app('notes'), join(store.sessionsDir, `.aside.${sessionId}.notes`));
  await sessions.open();
  assert.equal(await text('b.txt'), marked);
});

test('a session that is closed while it is kept is closed once it was', async () => {
  for (let round = 0; round < 20; round++) {
    const { sessionId } = await sessions.create(undefined, { unfinished: true });
    await Promise.all([sessions.keep(sessionId), sessions.remove(sessionId)]);
    await assert.rejects(sessions.keep(sessionId), { code: 'UNKNOWN_SESSION' });
  }
});

/** What a gateway that died left of the session's record. */
async function rewriteRecord(sid: string, change: (record: SessionRecord) => SessionRecord): Promise<void> {
  const session = store.session(sid);
  await writeSession(session, change((await readSession(session)) as SessionRecord));
}

const git = (...args: string[]) => execFileSync('git', ['-C', store.repository, ...args], { encoding: 'utf8' }).trim();

test('a session continues from a publication that went live while the gateway died', NEEDS_GIT, async () => {
  const { sessionId, base } = await sessions.create();
  await put(sessionId, 'index.html', '<h1>Published</h1>');
  const files = fingerprint(await sessions.files(sessionId, 'notes'));
  const { commit } = await commitApp('notes', store.session(sessionId).app('notes'), 'notes/v7');
  await rewriteRecord(sessionId, (record) => ({ ...record, apps: { notes: { base } } }));
  cutOff.push({ session: sessionId, published: { commit, files } });
  await sessions.open();
  const record = await readSession(store.session(sessionId));
  assert.deepEqual([record?.base, record?.apps.notes], [commit, { base: commit }]);
  assert.equal(git('rev-parse', `sessions/${sessionId}`), commit);
  await put(sessionId, 'index.html', '<h1>The next edit of the same line</h1>');
  const { conflicts } = await sessions.update(sessionId, 'notes');
  assert.deepEqual(conflicts, []);
  await sessions.remove(sessionId);
});

test(
  'files that were edited since their publication are kept, and another try would have the same end',
  NEEDS_GIT,
  async () => {
    const { sessionId, base } = await sessions.create();
    await put(sessionId, 'index.html', '<h1>Was published</h1>');
    const { commit } = await commitApp('notes', store.session(sessionId).app('notes'));
    await put(sessionId, 'index.html', '<h1>Edited since</h1>');
    await rewriteRecord(sessionId, (record) => ({ ...record, apps: { notes: { base } } }));
    cutOff.push({ session: sessionId, published: { commit, files: 'as they were sent' } });
    let warnings = 0;
    warned = () => {
      warnings += 1;
    };
    await sessions.open();
    warned = fails;
    assert.deepEqual([isFollowed, warnings], [true, 1]);
    assert.deepEqual((await readSession(store.session(sessionId)))?.apps.notes, { base });
    const { bytes } = await sessions.readFile(sessionId, 'notes', 'index.html');
    assert.equal(Buffer.from(bytes).toString(), '<h1>Edited since</h1>');
    await sessions.remove(sessionId);
  },
);

test('after a crash each session has its branch, and there are no others', NEEDS_GIT, async () => {
  const { sessionId, base } = await sessions.create();
  git('update-ref', '-d', `refs/heads/sessions/${sessionId}`);
  git('update-ref', 'refs/heads/sessions/gone', base);
  await sessions.open();
  const open = (await sessions.list()).map((row) => `${row.sessionId} ${row.base}`).sort();
  const branches = git('for-each-ref', '--format=%(refname:lstrip=3) %(objectname)', 'refs/heads/sessions/');
  assert.equal(branches, open.join('\n'));
  operated.length = 0;
  await sessions.open();
  assert.deepEqual(operated, [], 'nothing was to be repaired');
  await sessions.remove(sessionId);
});

test('a session that was opened for a request stays if the request kept it', async () => {
  const { sessionId } = await sessions.create(undefined, { unfinished: true });
  const { sessionId: kept } = await sessions.create(undefined, { unfinished: true });
  await sessions.keep(kept);
  await sessions.open();
  assert.deepEqual([await sessions.has(sessionId), await sessions.has(kept)], [false, true]);
  await sessions.remove(kept);
});

test('an app that was removed since it was taken has no base any more, and neither has a new app with its id', async () => {
  registered.set('notes', 1);
  const { sessionId } = await sessions.create();
  await put(sessionId, 'index.html', 'mine');
  const baseOfPublished = async (): Promise<string | null | undefined> => {
    await put(sessionId, 'index.html', `mine ${published.length}`);
    await sessions.publish(sessionId, { app: 'notes', origin: '' });
    return published.at(-1)?.base;
  };
  const first = await baseOfPublished();
  assert.match(String(first), /^[0-9a-f]{40}$/);
  registered.set('notes', 2);
  assert.equal(await baseOfPublished(), null, 'another app');
  assert.match(String(await baseOfPublished()), /^[0-9a-f]{40}$/, 'its own since it was published');
  registered.delete('notes');
  assert.equal(await baseOfPublished(), null, 'none');
  await sessions.remove(sessionId);
});

test('a record that cannot be written undoes its change, and a published base is still known', async () => {
  const { sessionId } = await sessions.create();
  await put(sessionId, 'index.html', 'before');
  const { record, dir, appsDir } = store.session(sessionId);
  const text = await readFile(record, 'utf8');
  await sessions.publish(sessionId, { app: 'notes', origin: '' });
  // As it is when there is no room for the new one.
  await writeFile(record, text);
  await publish('notes', { 'app.json': '{"id":"notes"}', 'index.html': 'theirs' });
  await rm(record);
  await mkdir(record);
  await assert.rejects(sessions.update(sessionId, 'notes'), { code: 'SESSION_DAMAGED' });
  await assert.rejects(
    sessions.add(sessionId, 'fresh', (folder) => writeFile(join(folder, 'app.json'), '{}')),
    { code: 'SESSION_DAMAGED', message: /session\.json of the code store is a folder.*svc sessions rm/ },
  );
  assert.deepEqual(await readdir(appsDir), ['notes']);
  assert.equal(await readFile(join(appsDir, 'notes/index.html'), 'utf8'), 'before');
  assert.deepEqual((await readdir(dir)).sort(), ['apps', 'session.json']);
  await sessions.remove(sessionId);
});

test('sessions have names: the given one, else the id, else a number of their own; a new name stays', async () => {
  const made = await Promise.all([
    sessions.create('redesign'),
    sessions.create('headings', { name: ' Larger\n headings \u0007' }),
    sessions.create(),
    sessions.create(),
  ]);
  const [redesign, headings, ...numbered] = made.map(({ name }) => name);
  assert.deepEqual([redesign, headings], ['redesign', 'Larger headings']);
  const [first = 0, second] = numbered.map((name) => Number(/^Draft (\d+)$/.exec(name)?.[1])).sort((a, b) => a - b);
  assert.equal(second, first + 1);
  assert.deepEqual(await sessions.rename('redesign', 'Smaller'), { sessionId: 'redesign', name: 'Smaller' });
  await sessions.folder('redesign', 'notes');
  const rows = await sessions.list();
  for (const { sessionId, name } of [...made, { sessionId: 'redesign', name: 'Smaller' }].slice(1))
    assert.equal(rows.find((row) => row.sessionId === sessionId)?.name, name);
  await assert.rejects(sessions.rename('none', 'x'), { code: 'UNKNOWN_SESSION' });
  for (const { sessionId } of made) await sessions.remove(sessionId);
});
