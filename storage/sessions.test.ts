import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { CodeStorePaths } from './layout.ts';
import { createSession, listSessions, readSession, replaceApp, stagingFolder } from './sessions.ts';

const RECORD = { createdAt: 1000, base: 'a'.repeat(40), apps: {} };

let root: string;
let store: CodeStorePaths;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'svc-sessions-'));
  store = new CodeStorePaths(root);
  mkdirSync(store.sessionsDir, { recursive: true });
  assert.equal(await createSession(store, 'one', RECORD), true);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

async function staged(text: string): Promise<string> {
  const folder = await stagingFolder(store);
  writeFileSync(join(folder, 'a.txt'), text);
  return folder;
}

test('what could not be written down was not replaced either', async () => {
  const target = store.session('one').app('notes');
  const fails = async (): Promise<void> => {
    throw new Error('no room');
  };
  await assert.rejects(replaceApp(store, { sid: 'one', app: 'notes', staged: await staged('1') }, fails), /no room/);
  assert.equal(existsSync(target), false, 'there was none before');
  await replaceApp(store, { sid: 'one', app: 'notes', staged: await staged('1') }, async () => {});
  await assert.rejects(replaceApp(store, { sid: 'one', app: 'notes', staged: await staged('2') }, fails), /no room/);
  assert.equal(readFileSync(join(target, 'a.txt'), 'utf8'), '1');
  assert.deepEqual(readdirSync(store.sessionsDir), ['one'], 'nothing is left beside it');
});

test('what is no session is not listed, and one without its record is', async () => {
  writeFileSync(join(store.sessionsDir, 'a-file'), '');
  mkdirSync(join(store.sessionsDir, 'empty'));
  assert.deepEqual(await listSessions(store), ['empty', 'one']);
  assert.equal(await readSession(store.session('nobody')), null);
  await assert.rejects(readSession(store.session('empty')), { code: 'SESSION_DAMAGED', message: /is missing/ });
  assert.deepEqual(await readSession(store.session('one')), RECORD);
});
