import assert from 'node:assert/strict';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { type CodeStorePaths, Layout } from '../layout.ts';
import { removeMaterialized } from './linked-code.ts';
import { moveToTrash, sweepTemporary, sweepUnregistered } from './trash.ts';

const NOW = 1_700_000_000_000;

let layout: Layout;
beforeEach(() => {
  layout = new Layout(mkdtempSync(join(tmpdir(), 'trash-')));
  for (const dir of [layout.appsDir, layout.tmpDir, layout.trashDir]) mkdirSync(dir, { recursive: true });
});
afterEach(() => rmSync(layout.dataDir, { recursive: true }));

function makeApp(id: string): void {
  mkdirSync(layout.app(id).versionsDir, { recursive: true });
  writeFileSync(layout.app(id).data, 'rows');
}

test('temporary files of an earlier process go, those of this one and everything else stay', async () => {
  for (const name of ['.token.bin.1.tmp', 'lock.1.tmp', '.token.bin.2.tmp', 'token.bin'])
    writeFileSync(join(layout.dataDir, name), '');
  for (const name of ['.token.bin.1.tmp', 'lock.1.tmp', 'token.bin']) utimesSync(join(layout.dataDir, name), 1, 1);
  assert.deepEqual((await sweepTemporary(layout.dataDir)).sort(), ['.token.bin.1.tmp', 'lock.1.tmp']);
  assert.ok(existsSync(join(layout.dataDir, '.token.bin.2.tmp')), 'it may still be at work');
  assert.ok(existsSync(layout.token), 'no temporary name');
  assert.deepEqual(await sweepTemporary(join(layout.dataDir, 'nowhere')), []);
});

test('the folder of an app whose removal was cut off goes to the trash, data included', async () => {
  for (const id of ['kept', 'gone']) makeApp(id);
  assert.deepEqual(await sweepUnregistered(layout, (id) => id === 'kept', NOW), ['gone']);
  assert.deepEqual(readdirSync(layout.appsDir), ['kept']);
  assert.ok(existsSync(join(layout.trashDir, `gone-${NOW}`, 'data.sqlite')), 'the data can be had back');
});

test('a removal takes the folders of its own commits away, and leaves those that the code of another app is about to enter', async () => {
  const store = new Layout(layout.dataDir, undefined, 'code-store').codeStore as CodeStorePaths;
  const [own, other] = ['a'.repeat(40), 'b'.repeat(40)];
  mkdirSync(store.materialized(own, 'gone'), { recursive: true });
  mkdirSync(layout.app('gone').versionsDir, { recursive: true });
  symlinkSync(store.materialized(own, 'gone'), layout.app('gone').version('gone/v1').code);
  // Between two steps of an installation it is empty.
  const entered = dirname(store.materialized(other, 'other'));
  mkdirSync(entered, { recursive: true });
  await moveToTrash(layout, 'gone', NOW);
  await removeMaterialized(store, 'gone');
  assert.deepEqual(readdirSync(store.mainDir), [other]);
  assert.ok(existsSync(entered));
  assert.ok(lstatSync(layout.trashed(`gone-${NOW}`).version('gone/v1').code).isDirectory());
});

test("somebody else's folder among the apps stays", async () => {
  mkdirSync(join(layout.appsDir, 'lost+found'));
  mkdirSync(join(layout.appsDir, 'holiday', 'photos'), { recursive: true });
  assert.deepEqual(await sweepUnregistered(layout, () => false, NOW), []);
  assert.deepEqual(readdirSync(layout.appsDir).sort(), ['holiday', 'lost+found']);
});
