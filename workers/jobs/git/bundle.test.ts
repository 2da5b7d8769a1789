import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { contents, GitFixture, NEEDS_GIT } from '../../../testing/git-fixture.ts';
import { git } from './operations.ts';

let store: GitFixture;
let other: GitFixture;
beforeEach(async () => {
  store = new GitFixture();
  other = new GitFixture();
  await store.open();
  await other.open();
});
afterEach(() => {
  store.remove();
  other.remove();
});

async function publish(app: string, text: string): Promise<void> {
  const folder = store.folder({ 'app.json': text, 'web/a.png': Buffer.from([0, 1, 2]) });
  const { commit } = await git.commitApp({ ...store.by, app, folder, message: 'x' });
  const { number } = await git.nextNumber({ repository: store.repository, app });
  await git.settle({ ...store.by, app, commit, tag: { name: `${app}/v${number}`, message: 'x' } });
}

async function exported(): Promise<string> {
  const to = store.fresh();
  await git.exportBundle({ repository: store.repository, to });
  return to;
}

describe('a bundle', () => {
  test('is one that git verifies and clones, and brings everything to an empty store', NEEDS_GIT, async () => {
    for (const n of [1, 2, 3]) await publish('todos', String(n));
    await publish('notes', 'n');
    await git.retire({ repository: store.repository, app: 'todos', tag: 'todos/v3' });
    const file = await exported();
    store.git('bundle', 'verify', '-q', file);
    store.git('clone', '-q', file, store.fresh());
    const { main } = await store.open().then((sha) => ({ main: sha }));
    const apps = [
      { id: 'notes', tag: 'notes/v1' },
      { id: 'todos', tag: null },
    ];
    assert.deepEqual(await git.importBundle({ repository: other.repository, from: file }), { main, tags: 3, apps });
    assert.deepEqual(
      await git.importBundle({ repository: other.repository, from: file }),
      { main, tags: 3, apps },
      'again',
    );
    other.fsck();
    const to = other.fresh();
    await git.checkout({ repository: other.repository, app: 'todos', from: 'todos/v1', to });
    assert.equal(contents(to)['app.json'], '1');
    assert.deepEqual(await git.nextNumber({ repository: other.repository, app: 'todos' }), { number: 4 });
  });

  test('that git made is taken', NEEDS_GIT, async () => {
    for (const n of [1, 2, 3]) await publish('todos', `${'line\n'.repeat(300)}${n}`);
    store.git('gc', '-q');
    const file = store.fresh();
    store.git('bundle', 'create', '-q', file, '--all');
    await git.importBundle({ repository: other.repository, from: file });
    other.fsck();
    assert.equal(
      (await git.listVersions({ repository: other.repository, app: 'todos', limit: 9, before: null })).total,
      3,
    );
  });

  /** A bundle of the store's refs, made by git, after `change`. */
  async function changed(change: () => void): Promise<string> {
    for (const n of [1, 2, 3]) await publish('todos', String(n));
    change();
    const file = store.fresh();
    store.git('bundle', 'create', '-q', file, '--all');
    return file;
  }

  const ref = (name: string): string => store.git('rev-parse', name).trim();

  for (const [what, change, words] of [
    ['a tag on a tree', () => store.git('tag', 'todos/v4', 'main^{tree}'), /refs\/tags\/todos\/v4 is not on a commit/],
    ['a tag object on a file', () => store.git('tag', '-m', 'x', 'x', 'main:apps/todos/app.json'), /tags\/x is not on/],
    [
      'a removed version on a tree',
      () => store.git('update-ref', 'refs/deleted/a/v1', 'main^{tree}'),
      /deleted\/a\/v1/,
    ],
    ['a number that leaves no room', () => store.git('tag', 'todos/v999999999', 'main'), /a number over 1000000/],
    [
      'versions out of order',
      () => {
        const [first, last] = [ref('todos/v1'), ref('todos/v3')];
        store.git('update-ref', 'refs/tags/todos/v1', last);
        store.git('update-ref', 'refs/tags/todos/v3', first);
      },
      /refs\/tags\/todos\/v2 is older than refs\/tags\/todos\/v1/,
    ],
  ] as [string, () => void, RegExp][]) {
    test(`with ${what} is refused, and nothing of it stays`, { ...NEEDS_GIT }, async () => {
      const file = await changed(change);
      const packs = () => readdirSync(join(other.repository, 'objects/pack'));
      const before = packs();
      const importing = git.importBundle({ repository: other.repository, from: file });
      await assert.rejects(importing, { code: 'INVALID_BACKUP', message: words });
      assert.deepEqual([packs(), other.git('for-each-ref', '--format=%(refname)')], [before, 'refs/heads/main\n']);
    });
  }

  test('with versions of a branch beside main is taken', NEEDS_GIT, async () => {
    const file = await changed(() => {
      // The second is on a way of its own, which is longer than that to the third.
      let commit = ref('todos/v1^{commit}');
      for (const n of [1, 2, 3, 4, 5])
        commit = store
          .git('-c', 'user.name=a', '-c', 'user.email=b', 'commit-tree', '-m', `${n}`, '-p', commit, 'main^{tree}')
          .trim();
      store.git('update-ref', 'refs/tags/todos/v2', commit);
    });
    assert.equal((await git.importBundle({ repository: other.repository, from: file })).tags, 3);
  });

  test('is refused where versions are, and when it is none or not whole', async () => {
    await publish('todos', '1');
    const file = await exported();
    const whole = readFileSync(file);
    const bad = other.fresh();
    const refused = async (content: Buffer | string): Promise<void> => {
      writeFileSync(bad, content);
      await assert.rejects(git.importBundle({ repository: other.repository, from: bad }), { code: 'INVALID_BACKUP' });
    };
    await refused('');
    await refused('# v2 git bundle\n');
    await refused(whole.subarray(0, -1));
    await refused(whole.toString('latin1').replace('refs/tags/todos/v1', 'refs/tags/../../x1'));
    for (let at = 20; at < whole.length; at += 11) await refused(whole.subarray(0, at));
    assert.equal(existsSync(join(other.repository, 'importing')), false, 'nothing is left');
    await publish('todos', '2');
    await assert.rejects(git.importBundle({ repository: store.repository, from: file }), { code: 'RESTORE_TARGET' });
  });
});

test('an app of many files is stored and read again', NEEDS_GIT, async () => {
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`d${n % 7}/f${n}.txt`, `${n}\n`.repeat(n)]));
  const folder = store.folder(many);
  const { commit } = await git.commitApp({ ...store.by, app: 'many', folder, message: 'x' });
  await git.settle({ ...store.by, app: 'many', commit, tag: { name: 'many/v1', message: 'x' } });
  const to = store.fresh();
  await git.checkout({ repository: store.repository, app: 'many', from: 'many/v1', to });
  assert.deepEqual(contents(to), many);
  store.fsck();
  assert.equal((await git.commitApp({ ...store.by, app: 'many', folder, message: 'x' })).unchanged, true);
});
