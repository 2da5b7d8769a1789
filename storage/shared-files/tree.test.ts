/** A tree as it was at one moment, though its files change while it is read. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pause } from '../../testing/waiting.ts';
import { Layout } from '../layout.ts';
import { Changed, type Entries, piecesOf, Tree } from './tree.ts';

function appIn(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-tree-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const app = new Layout(folder).app('notes');
  const code = join(app.versionsDir, 'v1');
  mkdirSync(code, { recursive: true });
  return { folder, app, code, tree: new Tree(new Layout(folder), { kind: 'app', id: 'notes' }) };
}

/** More than the clock of a file system ticks. */
const TICK_MS = 150;

const sizeOf = (entries: Entries, path: string) => entries.get(path)?.size;

test('two changes that come while a tree is read are both in it, or neither', async (t) => {
  const { app, code, tree } = appIn(t);
  writeFileSync(app.settings, 'old');
  writeFileSync(join(code, 'app.json'), 'old');
  // Read when their last change was a while ago, they are not read again unless something tells of a change.
  await pause(TICK_MS);
  await tree.read();
  const { readdir } = promises;
  let isDone = false;
  t.mock.method(promises, 'readdir', async (...given: Parameters<typeof readdir>) => {
    if (given[0] === code && !isDone) {
      isDone = true;
      // The settings were looked at already, what is in this folder was not.
      writeFileSync(app.settings, 'newer');
      writeFileSync(join(code, 'app.json'), 'newer');
    }
    return readdir(...given);
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  const entries = await tree.read();
  assert.ok(isDone);
  assert.deepEqual(
    ['apps/notes/settings.json', 'apps/notes/versions/v1/app.json'].map((path) => sizeOf(entries, path)),
    [5, 5],
  );
});

test('a link in the place of a folder is not entered, and a file that changed since is not read as it was', async (t) => {
  const { folder, app, tree } = appIn(t);
  mkdirSync(join(folder, 'outside'));
  writeFileSync(join(folder, 'outside/secret'), 'x');
  symlinkSync(join(folder, 'outside'), app.chatDir);
  writeFileSync(app.settings, 'settings');
  const entries = await tree.read();
  assert.deepEqual(
    [...entries.keys()].filter((path) => path.includes('_chat')),
    [],
  );
  const settings = entries.get('apps/notes/settings.json');
  assert.ok(settings !== undefined);
  const read = async (): Promise<string> => {
    const pieces: Buffer[] = [];
    for await (const piece of piecesOf(app.settings, settings)) pieces.push(piece);
    return Buffer.concat(pieces).toString();
  };
  assert.equal(await read(), readFileSync(app.settings, 'utf8'));
  for (const other of ['SETTINGS', 'set']) {
    writeFileSync(app.settings, other);
    await assert.rejects(read(), Changed);
  }
  rmSync(app.settings);
  await assert.rejects(read(), Changed);
});
