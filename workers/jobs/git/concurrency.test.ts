import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { GitFixture, NEEDS_GIT } from './git-fixture.ts';
import * as git from './operations.ts';

let store: GitFixture;
beforeEach(async () => {
  store = new GitFixture();
  await store.open();
});
afterEach(() => store.remove());

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
      const { content } = await git.readBlob({ repository: store.repository, sha });
      assert.equal(Buffer.from(content).toString(), `${app} 12`);
      const { total } = await git.listVersions({ repository: store.repository, app, limit: 1, before: null });
      assert.equal(total, 12);
    }
  });

  test('main is not moved over what somebody pushed meanwhile', NEEDS_GIT, async () => {
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
