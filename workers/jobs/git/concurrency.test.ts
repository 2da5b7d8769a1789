import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs, { copyFileSync, existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { objectId } from '../../../storage/git/object.ts';
import { LockFile } from '../../../storage/git/refs.ts';
import { GitFixture, NEEDS_GIT } from '../../../testing/git-fixture.ts';
import { git } from './operations.ts';

/** More than a reader that looks twice takes, and fewer than one that gives up. */
const REPLACEMENTS = 10;

let store: GitFixture;
beforeEach(async () => {
  store = new GitFixture();
  await store.open();
});
afterEach(() => store.remove());

function looseObjects(): string[] {
  const names = readdirSync(join(store.repository, 'objects'), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => /^..[\\/].{38}$|tmp_obj/.test(name)).sort();
}

describe('side by side', () => {
  test('apps are committed while git packs, and nothing is lost', NEEDS_GIT, async () => {
    const apps = ['one', 'two', 'three', 'four'];
    let settled: Promise<unknown> = Promise.resolve();
    const settle = async (app: string, commit: string, n: number): Promise<void> => {
      const tag = { name: `${app}/v${n}`, message: 'x' };
      const mine = settled.then(() => git.settle({ ...store.by, app, commit, tag }));
      settled = mine;
      await mine;
    };
    let done = false;
    const pack = async (): Promise<void> => {
      while (!done) await promisify(execFile)('git', ['gc', '-q'], { cwd: store.repository });
    };
    const packing = pack();
    try {
      await Promise.all(
        apps.map(async (app) => {
          for (let n = 1; n <= 12; n++) {
            const folder = store.folder({ 'app.json': `${app} ${n}`, 'same.md': `${n}` });
            const { commit } = await git.commitApp({ ...store.by, app, folder, message: 'x' });
            await settle(app, commit, n);
            const to = store.fresh();
            await git.checkout({ repository: store.repository, app, from: `${app}/v${n}`, to });
          }
        }),
      );
    } finally {
      done = true;
      await packing;
    }
    store.fsck();
    for (const app of apps) {
      const { files } = await git.treeOf({ repository: store.repository, app, from: 'main' });
      const sha = files?.[0]?.sha ?? '';
      const content = await store.blob(sha);
      assert.equal(content.toString(), `${app} 12`);
      const { total } = await git.listVersions({ repository: store.repository, app, limit: 1, before: null });
      assert.equal(total, 12);
    }
  });

  test('an object is read however often its pack is replaced meanwhile', NEEDS_GIT, async (t) => {
    const folder = store.folder({ 'a.md': 'kept' });
    const { commit } = await git.commitApp({ ...store.by, app: 'one', folder, message: 'x' });
    await git.settle({ ...store.by, app: 'one', commit, tag: null });
    store.git('repack', '-a', '-d', '-q');
    const sha = store.git('rev-parse', 'main:apps/one/a.md').trim();
    const packs = join(store.repository, 'objects', 'pack');
    let replaced = 0;
    // Whenever the reader opens the pack that it has found, that has another name already, as git names packs by their content.
    const { readFileSync } = fs;
    const { mock } = t.mock.method(fs, 'readFileSync', (...args: Parameters<typeof readFileSync>) => {
      const found = basename(String(args[0]), '.pack');
      if (String(args[0]).endsWith('.pack') && replaced < REPLACEMENTS) {
        replaced += 1;
        for (const end of ['pack', 'idx'])
          renameSync(join(packs, `${found}.${end}`), join(packs, `pack-${replaced}.${end}`));
      }
      return readFileSync(...args);
    });
    syncBuiltinESMExports();
    t.after(() => {
      mock.restore();
      syncBuiltinESMExports();
    });
    const content = await store.blob(sha);
    assert.deepEqual([replaced, content.toString()], [REPLACEMENTS, 'kept']);
  });

  test('an index without its pack, as git leaves it for a moment, is passed over', NEEDS_GIT, async () => {
    const folder = store.folder({ 'a.md': 'kept' });
    const { commit } = await git.commitApp({ ...store.by, app: 'one', folder, message: 'x' });
    await git.settle({ ...store.by, app: 'one', commit, tag: null });
    store.git('repack', '-a', '-d', '-q');
    const packs = join(store.repository, 'objects', 'pack');
    const index = readdirSync(packs).find((name) => name.endsWith('.idx')) ?? '';
    // Many, as the order in which they are looked at is the file system's.
    for (let n = 0; n < 20; n++) copyFileSync(join(packs, index), join(packs, `.tmp-${n}-${index}`));
    const sha = store.git('rev-parse', 'main:apps/one/a.md').trim();
    const content = await store.blob(sha);
    assert.equal(content.toString(), 'kept');
  });

  test('no object is there before those that it names', async () => {
    const folder = store.folder({ 'a.md': 'first', 'b.md': 'second' });
    const before = looseObjects();
    // The folder that the first file belongs into cannot be made.
    writeFileSync(join(store.repository, 'objects', objectId('blob', Buffer.from('first')).slice(0, 2)), '');
    await assert.rejects(git.commitApp({ ...store.by, app: 'one', folder, message: 'x' }));
    assert.deepEqual(looseObjects(), before);
  });

  test('a name that git packs in the moment in which it is set is set', NEEDS_GIT, async () => {
    const { repository } = store;
    const lock = await LockFile.take(join(repository, 'refs/tags/one/v1'), repository);
    const id = store.git('rev-parse', 'main').trim();
    const set = lock.replace(`${id}\n`);
    const isThere = () => existsSync(join(repository, 'refs/tags/one/v1'));
    // Each step of the lock ends while this thread is busy here: so that git is faster than the step after the rename.
    while (!isThere()) {
      for (const until = Date.now() + 5; Date.now() < until && !isThere(); );
      if (!isThere()) await new Promise(setImmediate);
    }
    store.git('pack-refs', '--all', '--prune');
    await set;
    assert.equal(store.git('rev-parse', 'refs/tags/one/v1').trim(), id);
  });

  test('main does not overwrite a concurrent push', NEEDS_GIT, async () => {
    const one = await git.commitApp({ ...store.by, app: 'one', folder: store.folder({ 'a.md': '1' }), message: 'x' });
    const clone = store.fresh();
    store.git('clone', '-q', '.', clone);
    const inClone = ['-C', clone, '-c', 'user.name=a', '-c', 'user.email=b'];
    store.git(...inClone, 'commit', '-q', '--allow-empty', '-m', 'pushed');
    store.git(...inClone, 'push', '-q', 'origin', 'main');
    const pushed = await store.open();
    const { main } = await git.settle({ ...store.by, app: 'one', commit: one.commit, tag: null });
    assert.equal(store.git('rev-list', '--parents', '-1', 'main').trim(), `${main} ${pushed} ${one.commit}`);
  });
});
