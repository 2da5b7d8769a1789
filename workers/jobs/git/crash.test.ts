import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { contents, GitFixture, NEEDS_GIT } from '../../../testing/git-fixture.ts';
import * as git from './operations.ts';

/** Commits and settles in a process of its own, which ends where the plan says. */
function publish(store: GitFixture, folder: string, plan: string): number | null {
  const by = JSON.stringify({ ...store.by, app: 'todos' });
  const code = `
    import * as git from '${new URL('./operations.ts', import.meta.url).href}';
    const by = ${by};
    const { commit } = await git.commitApp({ ...by, folder: '${folder}', message: 'x' });
    await git.settle({ ...by, commit, tag: { name: 'todos/v2', message: 'x' } });`;
  const args = ['--import', 'tsx', '--input-type=module', '--eval', code];
  return spawnSync(process.execPath, args, { env: { ...process.env, SVC_CRASH_PLAN: plan } }).status;
}

describe('a publication that is cut off', () => {
  const points = [
    'git.objects-staged 1',
    'git.objects-durable 1',
    'git.objects-durable 2',
    'git.locked 1',
    'git.tagged 1',
    'git.locked 2',
    'git.main-moved 1',
  ];
  for (const point of points) {
    test(`at ${point} leaves a whole repository, and can be done again`, NEEDS_GIT, async () => {
      const store = new GitFixture();
      try {
        await store.open();
        const first = await git.commitApp({
          ...store.by,
          app: 'todos',
          folder: store.folder({ 'a.md': '1' }),
          message: 'x',
        });
        await git.settle({ ...store.by, app: 'todos', commit: first.commit, tag: { name: 'todos/v1', message: 'x' } });
        const folder = store.folder({ 'a.md': '2', 'b.md': '2' });
        const plan = join(store.dir, 'plan');
        writeFileSync(plan, `${point} process\n`);
        assert.equal(publish(store, folder, plan), null, 'it was killed');
        assert.equal(readFileSync(plan, 'utf8').trim(), '', 'at the point');
        store.fsck();
        const to = store.fresh();
        await git.checkout({ repository: store.repository, app: 'todos', from: 'main', to });
        const found = contents(to);
        assert.ok(found['a.md'] === '1' || found['b.md'] === '2', 'main is old or new');
        const { commit } = await git.commitApp({ ...store.by, app: 'todos', folder, message: 'x' });
        const { number } = await git.nextNumber({ repository: store.repository, app: 'todos' });
        await git.settle({ ...store.by, app: 'todos', commit, tag: { name: `todos/v${number}`, message: 'x' } });
        await git.checkout({ repository: store.repository, app: 'todos', from: `todos/v${number}`, to: store.fresh() });
        store.fsck();
      } finally {
        store.remove();
      }
    });
  }
});
