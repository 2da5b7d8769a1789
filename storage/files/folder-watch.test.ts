import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FolderWatch, WatchBudget } from './folder-watch.ts';

/** `changed` resolves with the next sign of a change after it was called. */
function setUp(t: TestContext, budget = new WatchBudget()) {
  const root = mkdtempSync(join(tmpdir(), 'svc-watch-'));
  let told = (): void => {};
  const watch = new FolderWatch(budget, () => told());
  // Watching keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  t.after(() => {
    clearInterval(alive);
    watch.close();
    rmSync(root, { recursive: true, force: true });
  });
  const changed = () =>
    new Promise<void>((resolve) => {
      told = resolve;
    });
  return { root, watch, changed };
}

test('changes of files are noticed in every folder, new ones included', async (t) => {
  const { root, watch, changed } = setUp(t);
  mkdirSync(join(root, 'a/b'), { recursive: true });
  await watch.follow(root);
  assert.ok(watch.complete, 'all folders are watched');
  for (const name of ['top.js', 'a/one.js', 'a/b/two.js']) {
    const sign = changed();
    writeFileSync(join(root, name), name);
    await sign;
  }
  const made = changed();
  mkdirSync(join(root, 'a/b/c'));
  await made;
  await watch.follow(root);
  const sign = changed();
  writeFileSync(join(root, 'a/b/c/three.js'), '');
  await sign;
});

test('a folder that took the place of another is followed', async (t) => {
  const { root, watch, changed } = setUp(t);
  mkdirSync(join(root, 'app'));
  mkdirSync(join(root, 'next'));
  await watch.follow(join(root, 'app'));
  renameSync(join(root, 'app'), join(root, 'before'));
  renameSync(join(root, 'next'), join(root, 'app'));
  await watch.follow(join(root, 'app'));
  const sign = changed();
  writeFileSync(join(root, 'app/a.js'), '');
  await sign;
});

test('a folder that is made anew is followed, though the system gives it the number of the one before', async (t) => {
  const { root, watch, changed } = setUp(t);
  mkdirSync(join(root, 'app'));
  await watch.follow(root);
  rmSync(join(root, 'app'), { recursive: true });
  mkdirSync(join(root, 'app'));
  await watch.caughtUp();
  await watch.follow(root);
  // What is told of the making itself is over.
  await watch.caughtUp();
  let told = false;
  void changed().then(() => {
    told = true;
  });
  writeFileSync(join(root, 'app/a.js'), '');
  await watch.caughtUp();
  assert.ok(told, 'the change in the new folder was noticed');
});

test('folders that cannot be watched are reported, and watchers are released', async (t) => {
  const budget = new WatchBudget(2);
  const { root, watch } = setUp(t, budget);
  for (const name of ['a', 'b']) mkdirSync(join(root, name));
  await watch.follow(root);
  assert.equal(watch.complete, false);
  rmSync(join(root, 'a'), { recursive: true });
  await watch.follow(root);
  assert.equal(watch.complete, true);
  watch.stop();
  assert.equal(watch.complete, false);
  assert.ok(budget.take() && budget.take() && !budget.take(), 'both are there again');
});

test('a folder that is not there is the error of whoever asked', async (t) => {
  const { root, watch } = setUp(t);
  await assert.rejects(watch.follow(join(root, 'none')), { code: 'ENOENT' });
});
