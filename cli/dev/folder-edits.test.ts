import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../testing/command-line.ts';
import { FolderEdits, LOOK_MS } from './folder-edits.ts';

test('every edit is noticed: in new folders, of installed packages, after renames, and after the folder itself was away', async (t) => {
  const folder = join(temporaryFolder(t), 'notes');
  mkdirSync(folder);
  writeFileSync(join(folder, 'app.json'), '{}');
  const edits = new FolderEdits(folder);
  t.after(() => edits.close());
  const after = async (edit: () => void): Promise<void> => {
    edit();
    await edits.next();
  };

  await after(() => writeFileSync(join(folder, 'app.json'), '{ }'));
  await after(() => {
    mkdirSync(join(folder, 'queries/deep'), { recursive: true });
    writeFileSync(join(folder, 'queries/deep/list.js'), '');
  });
  await after(() => writeFileSync(join(folder, 'queries/deep/list.js'), 'x'));
  await after(() => renameSync(join(folder, 'queries'), join(folder, 'lib')));
  await after(() => rmSync(join(folder, 'lib'), { recursive: true }));
  await after(() => mkdirSync(join(folder, 'node_modules')));
  await after(() => mkdirSync(join(folder, 'node_modules/zod')));
  await after(() => writeFileSync(join(folder, 'node_modules/.package-lock.json'), '{}'));
  await after(() => renameSync(folder, `${folder}-away`));
  await after(() => renameSync(`${folder}-away`, folder));
  await after(() => writeFileSync(join(folder, 'app.json'), '{  }'));
});

test('edits of files that are not sent are ignored', (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'app.json'), '{}');
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const edits = new FolderEdits(folder);
  t.after(() => edits.close());
  // By then it scans again, however long a scan takes here.
  const look = () => t.mock.timers.tick(100 * LOOK_MS);
  for (const name of ['.app.json.swp', 'app.json~', '4913', '#app.json#']) writeFileSync(join(folder, name), 'x');
  look();
  assert.equal(edits.came, false);
  writeFileSync(join(folder, 'app.json'), '{ }');
  look();
  assert.equal(edits.came, true);
});
