import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { inTime } from '../../testing/waiting.ts';
import { type FileChange, FolderChanges } from './folder-changes.ts';
import { WatchBudget } from './folder-watch.ts';

async function begun(t: TestContext, budget = new WatchBudget()) {
  const folder = await mkdtemp(join(tmpdir(), 'svc-changes-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'old.js'), 'old');
  await mkdir(join(folder, 'queries'));
  await writeFile(join(folder, 'queries/list.js'), 'list');
  const told: string[] = [];
  let wake = (): void => {};
  const changes = await FolderChanges.begin(folder, budget, ({ path, status }: FileChange) => {
    told.push(`${status} ${path}`);
    wake();
  });
  const next = async (count: number): Promise<void> => {
    while (told.length < count)
      await inTime(
        new Promise<void>((resolve) => {
          wake = resolve;
        }),
        'a change',
      );
  };
  return { folder, told, changes, next };
}

test('added, changed and removed files are reported, also in new folders', async (t) => {
  const { folder, told, changes, next } = await begun(t);
  await writeFile(join(folder, 'new.css'), 'a');
  await next(1);
  await mkdir(join(folder, 'actions/deep'), { recursive: true });
  await writeFile(join(folder, 'actions/deep/add.js'), 'b');
  await next(2);
  await writeFile(join(folder, 'queries/list.js'), 'longer');
  await next(3);
  for (const path of ['old.js', 'new.css']) await rm(join(folder, path));
  await next(5);
  await changes.end();
  const [added, deep, changed, ...removed] = told;
  assert.deepEqual([added, deep, changed], ['added new.css', 'added actions/deep/add.js', 'changed queries/list.js']);
  assert.deepEqual(removed.sort(), ['removed new.css', 'removed old.js']);
});

test('changes just before the end are reported, a file that is written twice only once', async (t) => {
  const { folder, told, changes, next } = await begun(t);
  await writeFile(join(folder, 'old.js'), 'one');
  await next(1);
  await writeFile(join(folder, 'old.js'), 'twice');
  await writeFile(join(folder, 'last.js'), 'x');
  await changes.end();
  assert.deepEqual(told, ['changed old.js', 'added last.js']);
});

test('without a watch, all changes are reported at the end, but not temporary files of editors', async (t) => {
  const { folder, told, changes } = await begun(t, new WatchBudget(0));
  await writeFile(join(folder, '.new.js.swp'), 'x');
  await writeFile(join(folder, 'new.js.tmp.20813.a30bf49a9597'), 'x');
  await writeFile(join(folder, 'new.js~'), 'x');
  await writeFile(join(folder, 'new.js'), 'x');
  await changes.end();
  assert.deepEqual(told, ['added new.js']);
});

test('a folder that another one takes the place of is compared with that', async (t) => {
  const { folder, told, changes } = await begun(t);
  const other = `${folder}-other`;
  await mkdir(other);
  await writeFile(join(other, 'old.js'), 'other');
  await rm(folder, { recursive: true });
  await rename(other, folder);
  await changes.end();
  // A slow machine may see the folder while it is gone: what was told last counts.
  const last = new Map(told.map((line) => line.split(' ').reverse() as [string, string]));
  assert.deepEqual([...last].sort(), [
    ['old.js', 'changed'],
    ['queries/list.js', 'removed'],
  ]);
});
