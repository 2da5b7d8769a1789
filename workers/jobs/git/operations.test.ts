import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { CommitResult, GitVersionInfo } from '../../../protocol/wire/git-jobs.ts';
import { contents, type Files, GitFixture, NEEDS_GIT } from '../../../testing/git-fixture.ts';
import { git } from './operations.ts';

const info: GitVersionInfo = {
  sha256: 'ab',
  version: '1.0.0',
  uploadedAt: '2026-01-01T00:00:00.000Z',
  files: 1,
  bytes: 2,
};

let store: GitFixture;
beforeEach(async () => {
  store = new GitFixture();
  await store.open();
});
afterEach(() => store.remove());

function commit(app: string, files: Files | null, message = 'Publish'): Promise<CommitResult> {
  return git.commitApp({ ...store.by, app, folder: files === null ? null : store.folder(files), message });
}

/** Commits and settles: the app's next version. */
async function publish(app: string, files: Files): Promise<string> {
  const made = await commit(app, files);
  const { number } = await git.nextNumber({ repository: store.repository, app });
  const tag = { name: `${app}/v${number}`, message: 'Publish', info };
  await git.settle({ ...store.by, app, commit: made.commit, tag });
  return made.commit;
}

async function files(app: string, from = 'main'): Promise<Record<string, string>> {
  const to = store.fresh();
  const { commit: found } = await git.checkout({ repository: store.repository, app, from, to });
  assert.notEqual(found, null, `${from} has no ${app}`);
  return contents(to);
}

describe('the repository', () => {
  test('opens again as it is', async () => {
    const main = await store.open();
    await publish('todos', { 'app.json': '{}' });
    assert.notEqual(await store.open(), main, 'main moved');
  });

  test('begins though its making was cut off when it held the lock', async () => {
    const main = await store.open();
    const branch = join(store.repository, 'refs/heads/main');
    rmSync(branch);
    writeFileSync(`${branch}.lock`, `svc ${hostname()} 999999999\n`);
    assert.notEqual(await store.open(), main);
  });

  test('has the branches of the workspaces that there are, and no others', NEEDS_GIT, async () => {
    const { repository } = store;
    const before = await store.open();
    for (const name of ['sessions/gone', 'sessions/behind', 'mine']) await git.branch({ repository, name, to: before });
    store.git('pack-refs', '--all');
    const main = await publish('todos', { 'app.json': '{}' });
    await git.branches({ repository, prefix: 'sessions/', branches: { behind: main, missing: before } });
    const branches = store.git('for-each-ref', '--format=%(refname:lstrip=2) %(objectname)', 'refs/heads/').trim();
    assert.deepEqual(branches.split('\n'), [
      `main ${main}`,
      `mine ${before}`,
      `sessions/behind ${main}`,
      `sessions/missing ${before}`,
    ]);
    store.fsck();
  });

  test('is one that git clones, logs and finds nothing wrong with', NEEDS_GIT, async () => {
    await publish('todos', { 'app.json': '{}', 'web/index.html': '<p>', 'web.md': 'x', 'web/a/b/c.txt': '' });
    await publish('notes', { 'app.json': '{"a":1}' });
    await publish('todos', { 'app.json': '{}' });
    store.fsck();
    const clone = store.fresh();
    store.git('clone', '-q', '.', clone);
    assert.deepEqual(Object.keys(contents(join(clone, 'apps'))), ['notes/app.json', 'todos/app.json']);
    assert.equal(store.git('log', '--format=%an <%ae>', 'main').trim().split('\n').length, 4);
    assert.equal(store.git('tag', '-l').trim(), 'notes/v1\ntodos/v1\ntodos/v2');
  });

  test('is read and written on after git packed it', NEEDS_GIT, async () => {
    for (let n = 0; n < 5; n++) await publish('todos', { 'app.json': `${'line\n'.repeat(200)}${n}` });
    store.git('gc', '-q', '--prune=now');
    assert.equal(store.git('count-objects').split(' ')[0], '0', 'all is packed');
    assert.match((await files('todos', 'todos/v2'))['app.json'] ?? '', /1$/);
    await publish('todos', { 'app.json': 'new' });
    const { versions, total } = await git.listVersions({
      repository: store.repository,
      app: 'todos',
      limit: 2,
      before: null,
    });
    assert.deepEqual([versions.map(({ tag }) => tag), total], [['todos/v6', 'todos/v5'], 6]);
    store.git('gc', '-q', '--prune=now');
    store.fsck();
    assert.deepEqual(await files('todos'), { 'app.json': 'new' });
  });

  test('follows no configuration of a user', NEEDS_GIT, async () => {
    writeFileSync(
      join(store.repository, 'config'),
      '[core]\n\tbare = true\n\tfsmonitor = /bin/false\n\thooksPath = /nowhere\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n[user]\n\tname = evil\n',
    );
    const home = store.folder({ '.gitconfig': '[user]\n\tname = evil\n[core]\n\tautocrlf = true\n' });
    const before = {
      HOME: process.env.HOME,
      GIT_DIR: process.env.GIT_DIR,
      GIT_AUTHOR_NAME: process.env.GIT_AUTHOR_NAME,
    };
    Object.assign(process.env, { HOME: home, GIT_DIR: '/nowhere', GIT_AUTHOR_NAME: 'evil' });
    try {
      await publish('todos', { 'app.json': 'a\r\nb\n' });
    } finally {
      for (const [name, value] of Object.entries(before)) {
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    }
    assert.deepEqual(await files('todos'), { 'app.json': 'a\r\nb\n' });
    assert.equal(store.git('log', '-1', '--format=%an %cn %G?', 'main').trim(), 'svc svc N');
  });
});

describe('versions', () => {
  test('a commit moves nothing until it is settled', async () => {
    const main = await store.open();
    const made = await commit('todos', { 'app.json': '{}' });
    assert.deepEqual([made.parent, made.unchanged, await store.open()], [main, false, main]);
    const settled = await git.settle({ ...store.by, app: 'todos', commit: made.commit, tag: null });
    assert.deepEqual([settled.main, await store.open()], [made.commit, made.commit]);
    const again = await commit('todos', { 'app.json': '{}' });
    assert.deepEqual(again, { commit: made.commit, parent: made.commit, tree: made.tree, unchanged: true });
  });

  test('of two apps made side by side are both on main, and settling twice changes nothing', NEEDS_GIT, async () => {
    const one = await commit('one', { 'a.txt': '1' });
    const two = await commit('two', { 'a.txt': '2' });
    const job = { app: 'two', commit: two.commit, tag: { name: 'two/v1', message: 'Two', info } };
    await git.settle({ ...store.by, app: 'one', commit: one.commit, tag: { name: 'one/v1', message: 'One' } });
    const { main } = await git.settle({ ...store.by, ...job });
    assert.deepEqual(await git.settle({ ...store.by, ...job }), { main });
    assert.deepEqual([await files('one'), await files('two')], [{ 'a.txt': '1' }, { 'a.txt': '2' }]);
    assert.equal(store.git('rev-list', '--parents', '-1', 'main').trim(), `${main} ${one.commit} ${two.commit}`);
    store.fsck();
  });

  test('show the data of their tags, newest first, in pages', async () => {
    for (const n of [1, 2, 3]) await publish('todos', { 'app.json': String(n) });
    await publish('todos-2', { 'app.json': 'other' });
    const list = (limit: number, before: number | null) =>
      git.listVersions({ repository: store.repository, app: 'todos', limit, before });
    const { versions, total } = await list(2, null);
    assert.equal(total, 3);
    assert.deepEqual(
      versions.map(({ tag, number, message, info: told }) => ({ tag, number, message, told })),
      [
        { tag: 'todos/v3', number: 3, message: 'Publish', told: info },
        { tag: 'todos/v2', number: 2, message: 'Publish', told: info },
      ],
    );
    assert.deepEqual(
      (await list(10, 2)).versions.map(({ tag }) => tag),
      ['todos/v1'],
    );
  });

  test('numbers are not given again, not those of removed versions and apps either', async () => {
    const next = () => git.nextNumber({ repository: store.repository, app: 'todos' });
    assert.deepEqual(await next(), { number: 1 });
    for (const n of [1, 2, 3]) await publish('todos', { 'app.json': String(n) });
    assert.deepEqual(await git.retire({ repository: store.repository, app: 'todos', tag: 'todos/v3' }), {
      retired: ['todos/v3'],
    });
    assert.deepEqual(await next(), { number: 4 });
    await git.retire({ repository: store.repository, app: 'todos', tag: null });
    assert.deepEqual(await next(), { number: 4 });
    await assert.rejects(files('todos', 'todos/v1'), { code: 'UNKNOWN_VERSION' });
  });

  test('are set aside when git has packed their tags', NEEDS_GIT, async () => {
    for (const n of [1, 2]) await publish('todos', { 'app.json': String(n) });
    await publish('notes', { 'app.json': '1' });
    store.git('pack-refs', '--all');
    await git.retire({ repository: store.repository, app: 'todos', tag: null });
    assert.equal(store.git('tag', '-l').trim(), 'notes/v1');
    store.fsck();
    await publish('todos', { 'app.json': '3' });
    assert.equal(store.git('tag', '-l').trim(), 'notes/v1\ntodos/v3');
  });

  test('a tag stays with its commit', async () => {
    await publish('todos', { 'app.json': '1' });
    const other = await commit('todos', { 'app.json': '2' });
    const tag = { name: 'todos/v1', message: 'again' };
    await assert.rejects(git.tagOnly({ ...store.by, commit: other.commit, tag }), { code: 'CONFLICT' });
    await git.tagOnly({ ...store.by, commit: other.commit, tag: { name: 'todos/v2', message: 'aside' } });
    assert.deepEqual(
      [await files('todos'), await files('todos', 'todos/v2')],
      [{ 'app.json': '1' }, { 'app.json': '2' }],
    );
  });

  test('a rollback has exactly the files of then', async () => {
    await publish('todos', { 'app.json': '1', 'old.md': 'old' });
    await publish('todos', { 'app.json': '2', 'new.md': 'new' });
    const back = await git.commitTree({ ...store.by, app: 'todos', from: 'todos/v1', message: 'Roll back' });
    await git.settle({ ...store.by, app: 'todos', commit: back.commit, tag: null });
    assert.deepEqual(await files('todos'), { 'app.json': '1', 'old.md': 'old' });
  });

  test('a removed app is gone from main, and can come back', async () => {
    await publish('todos', { 'app.json': '1' });
    const gone = await commit('todos', null);
    await git.settle({ ...store.by, app: 'todos', commit: gone.commit, tag: null });
    const job = { repository: store.repository, app: 'todos', from: 'main' };
    assert.deepEqual(await git.checkout({ ...job, to: store.fresh() }), { commit: null, files: [] });
    assert.equal((await git.treeOf(job)).files, null);
    assert.equal((await commit('todos', null)).unchanged, true);
    await publish('todos', { 'app.json': '1' });
    assert.deepEqual(await files('todos'), { 'app.json': '1' });
  });
});

describe('folders', () => {
  test('are committed as they are, byte for byte', NEEDS_GIT, async () => {
    const bytes = Buffer.from([0, 255, 13, 10, 128]);
    await publish('todos', { 'a.png': bytes, 'ü/ß.txt': 'x\r\n', 'a-b/c.txt': '1', 'a/c.txt': '2', 'a.txt': '3' });
    const { files: listed } = await git.treeOf({ repository: store.repository, app: 'todos', from: 'main' });
    const sha = listed?.find(({ path }) => path === 'a.png')?.sha ?? '';
    assert.deepEqual(await store.blob(sha), bytes);
    assert.equal(store.git('hash-object', join(store.dir, 'folder-1', 'a.png')).trim(), sha);
    assert.deepEqual(
      listed?.map(({ path }) => path),
      ['a-b/c.txt', 'a.png', 'a.txt', 'a/c.txt', 'ü/ß.txt'],
    );
    store.fsck();
  });

  test('hold plain files only, with names that archives may have', async () => {
    const folder = store.folder({ 'app.json': '{}' });
    symlinkSync('app.json', join(folder, 'link.json'));
    const job = { ...store.by, app: 'todos', folder, message: 'x' };
    await assert.rejects(git.commitApp(job), { code: 'ARCHIVE_ENTRY_TYPE', path: 'link.json' });
    rmSync(join(folder, 'link.json'));
    writeFileSync(join(folder, 'run.exe'), '');
    await assert.rejects(git.commitApp(job), { code: 'ARCHIVE_EXTENSION', path: 'run.exe' });
  });

  test('of a commit that somebody else made do not lead out of the app', NEEDS_GIT, async () => {
    const blob = store.git('hash-object', '-w', join(store.folder({ 'x.txt': '/etc/passwd' }), 'x.txt')).trim();
    const plant = (mode: string, path: string): void => {
      const tree = (entry: string): string => execGit(['mktree', '--missing'], entry).trim();
      const apps = tree(`040000 tree ${tree(`${mode} blob ${blob}\t${path}\n`)}\ttodos\n`);
      const root = tree(`040000 tree ${apps}\tapps\n`);
      store.git(
        'update-ref',
        'refs/heads/main',
        store.git('-c', 'user.name=a', '-c', 'user.email=b', 'commit-tree', '-m', 'x', root).trim(),
      );
    };
    const execGit = (args: string[], input: string): string =>
      execFileSync('git', args, { cwd: store.repository, encoding: 'utf8', input });
    plant('120000', 'link.txt');
    await assert.rejects(files('todos'), { code: 'ARCHIVE_ENTRY_TYPE', path: 'link.txt' });
    plant('100644', '..\\x.txt');
    await assert.rejects(files('todos'), { code: 'ARCHIVE_PATH' });
    plant('100755', 'x.txt');
    assert.deepEqual(await files('todos'), { 'x.txt': '/etc/passwd' });
  });
});
