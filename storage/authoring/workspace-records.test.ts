import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { CodeStorePaths } from '../layout.ts';
import {
  createWorkspace,
  linkFolder,
  listWorkspaces,
  readWorkspace,
  replaceFolder,
  stagingFolder,
  sweepUnfinished,
  sweepWorkspaces,
  type WorkspaceRecord,
  writeWorkspace,
} from './workspace-records.ts';

const BASE = 'a'.repeat(40);
let root: string;
let store: CodeStorePaths;

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'svc-session-files-'));
  store = new CodeStorePaths(root);
  await mkdir(store.workspacesDir, { recursive: true });
});

after(() => rm(root, { recursive: true, force: true }));

async function open(id: string, more: Partial<WorkspaceRecord> = {}): Promise<void> {
  await createWorkspace(store, id, { createdAt: 1, base: BASE, apps: {}, ...more });
}

async function put(folder: string, name: string, text: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, name), text);
}

const hidden = async () => (await readdir(store.workspacesDir)).filter((name) => name.startsWith('.'));

/** As a start does. */
async function sweep(): Promise<void> {
  await sweepWorkspaces(store, await listWorkspaces(store));
  await sweepUnfinished(store);
}

test('files that a record names replace the app’s, after an interruption at any step', async () => {
  for (const at of ['before', 'between']) {
    await open(at);
    const folder = store.workspace(at).app('notes');
    const staged = await stagingFolder(store);
    await put(staged, 'index.html', 'new');
    if (at === 'before') await put(folder, 'index.html', 'old');
    else await put(join(store.workspacesDir, `.aside.${at}.notes`), 'index.html', 'old');
    const apps = { notes: { base: BASE, from: basename(staged) } };
    await mkdir(store.workspace(at).appsDir, { recursive: true });
    await writeWorkspace(store.workspace(at), { createdAt: 1, base: BASE, apps });
    await sweep();
    assert.equal(await readFile(join(folder, 'index.html'), 'utf8'), 'new', at);
    assert.deepEqual(await hidden(), [], at);
    assert.deepEqual((await readWorkspace(store.workspace(at)))?.apps, apps);
    await sweep();
    assert.equal(await readFile(join(folder, 'index.html'), 'utf8'), 'new', `${at}, once more`);
  }
});

test('files that no record names do not, and the old files come back', async () => {
  await open('kept', { apps: { notes: { base: BASE } } });
  await put(join(store.workspacesDir, '.aside.kept.notes'), 'index.html', 'old');
  await put(await stagingFolder(store), 'index.html', 'new');
  await sweep();
  assert.equal(await readFile(join(store.workspace('kept').app('notes'), 'index.html'), 'utf8'), 'old');
  const automations = join(store.workspace('kept').app('notes'), 'automations');
  await mkdir(automations);
  await put(join(store.workspacesDir, '.aside.kept.notes.nightly'), 'handler.js', 'old');
  await sweep();
  assert.equal(await readFile(join(automations, 'nightly', 'handler.js'), 'utf8'), 'old');
  assert.deepEqual(await hidden(), []);
});

test('a workspace whose request was interrupted is removed, and so are unfinished files in others', async () => {
  await open('unfinished', { unfinished: true });
  await open('open', { apps: { notes: { base: null } } });
  const folder = store.workspace('open').app('notes');
  await put(folder, 'index.html', 'text');
  for (const name of ['.index.html', '']) await put(folder, `${name}.0b4f1e5c-8f0a-4a6e-9d38-2f1f2b8c9d10.tmp`, 'half');
  await put(folder, '.mine.tmp', "an editor's");
  await sweep();
  assert.deepEqual((await readdir(folder)).sort(), ['.mine.tmp', 'index.html']);
  const ids = await listWorkspaces(store);
  assert.ok(ids.includes('open') && !ids.includes('unfinished'), `there are ${ids}`);
});

test('a workspace whose record is damaged is left as it is', async () => {
  await open('damaged');
  await put(store.workspace('damaged').app('notes'), 'index.html', 'text');
  await writeFile(store.workspace('damaged').record, '{');
  await sweep();
  assert.equal(await readFile(join(store.workspace('damaged').app('notes'), 'index.html'), 'utf8'), 'text');
});

test('when the new files cannot be put into place, the old ones are there again', async () => {
  await open('refused');
  const folder = store.workspace('refused').app('notes');
  await put(folder, 'index.html', 'old');
  await assert.rejects(replaceFolder(store, ['refused', 'notes'], join(store.workspacesDir, 'not-there')), {
    code: 'ENOENT',
  });
  assert.equal(await readFile(join(folder, 'index.html'), 'utf8'), 'old');
});

test('a twin has all files, and what is replaced in it stays in the other', async () => {
  const from = join(root, 'from');
  await put(join(from, 'deep'), 'a.txt', 'a');
  const to = await stagingFolder(store);
  await linkFolder(from, to);
  assert.equal(await readFile(join(to, 'deep', 'a.txt'), 'utf8'), 'a');
  await rm(to, { recursive: true });
  assert.equal(await readFile(join(from, 'deep', 'a.txt'), 'utf8'), 'a');
});

test('a workspace without its record is listed, other folders are not', async () => {
  await writeFile(join(store.workspacesDir, 'a-file'), '');
  await mkdir(join(store.workspacesDir, 'empty'));
  const ids = await listWorkspaces(store);
  assert.ok(ids.includes('empty') && !ids.includes('a-file'), `there are ${ids}`);
  assert.equal(await readWorkspace(store.workspace('nobody')), null);
  await assert.rejects(readWorkspace(store.workspace('empty')), { code: 'SESSION_DAMAGED', message: /is missing/ });
});
