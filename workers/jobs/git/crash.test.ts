import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { contents, GitFixture, NEEDS_GIT } from '../../../testing/git-fixture.ts';
import { whyNoShim } from '../../../testing/shim/compile.ts';
import { CrashPlan, runOn } from '../../../testing/shim/crash.ts';
import { git } from './operations.ts';

/** Commits and settles in a process of its own, which ends where the plan says. */
function publish(store: GitFixture, folder: string, plan: CrashPlan): number | null {
  return runOn(
    plan,
    `import { git } from '${join(import.meta.dirname, 'operations.ts')}';
    const { folder, ...by } = JSON.parse(process.env.PUBLICATION);
    const { commit } = await git.commitApp({ ...by, folder, message: 'x' });
    await git.settle({ ...by, commit, tag: { name: 'todos/v2', message: 'x' } });`,
    { PUBLICATION: JSON.stringify({ ...store.by, app: 'todos', folder }) },
  );
}

describe('a publication that is cut off', { skip: whyNoShim() ?? false }, () => {
  const points: [string, number][] = [
    ['create objects/tmp_obj_*', 3],
    ['sync objects/tmp_obj_*', 5],
    ['rename objects/*/*', 2],
    ['rename objects/*/*', 5],
    ['rename objects/*/*', 6],
    ['write refs/tags/todos/v2.lock', 1],
    ['rename refs/tags/todos/v2', 1],
    ['write refs/heads/main.lock', 1],
    ['sync refs/heads/main.lock', 1],
    ['rename refs/heads/main', 1],
  ];
  for (const [point, passing] of points) {
    test(`at ${point}, ${passing}, leaves a whole repository, and can be done again`, NEEDS_GIT, async () => {
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
        const plan = CrashPlan.in(store.dir, store.repository);
        plan.set([{ point, passing, mode: 'process' }]);
        assert.equal(publish(store, folder, plan), null, 'it was killed');
        assert.equal(plan.pending(), 0, 'at the point');
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
