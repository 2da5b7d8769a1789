/** Unintended actions of people and programs on the git store, against the real daemon. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { type Answer, root, startGateway, TestGateway } from '../testing/gateway.ts';

const gateway = gatewayOfSuite({ store: 'git' });

const files = (workspace: string, app: string, path = '') => `/svc/_sessions/${workspace}/apps/${app}/files${path}`;

async function open(at: TestGateway = gateway): Promise<string> {
  return (await at.call('POST', '/svc/_sessions', { body: {} })).json.sessionId;
}

function put(workspace: string, app: string, path: string, text: string, at: TestGateway = gateway): Promise<Answer> {
  return at.call('PUT', files(workspace, app, `/${path}`), { body: Buffer.from(text) });
}

function publish(workspace: string, app: string, at: TestGateway = gateway): Promise<Answer> {
  return at.call('POST', `/svc/_sessions/${workspace}/publish`, { body: { app } });
}

function ask(workspace: string, app: string, query: string): Promise<Answer> {
  return gateway.call('POST', `/svc/_draft/${workspace}/_tool/svc_read`, { body: { app, query } });
}

const word = async (app: string, at: TestGateway = gateway) => (await at.read(app, 'word')).json.data;
const handler = (text: string) => `export default () => '${text}';\n`;
const wordApp = (id: string, text: string) => appOf(id, { queries: { word: `() => '${text}'` } });
const codes = (answers: Answer[]) =>
  answers.map(({ status, json }) => `${status}${status < 400 ? '' : ` ${json.error.code}`}`);
const folderOf = (workspace: string, app: string) =>
  join(gateway.dataDir, 'code-store/worktrees/sessions', workspace, 'apps', app);

test('a name that git reserves never gets into the repository, by a file or by an archive', async () => {
  assert.equal((await gateway.upload('names', wordApp('names', 'x'))).status, 201);
  const workspace = await open();
  const taken = ['.git/a.txt', '.GIT/a.txt', '.git%20/a.txt', '.git./a.txt', '.g%E2%80%8Cit/a.txt', 'git~1/a.txt'];
  for (const path of [...taken, '.gitmodules/a.txt', '.gitattributes/a.txt', 'b/.git/a.txt']) {
    const answer = await put(workspace, 'names', path, 'x');
    assert.deepEqual(codes([answer]), ['400 ARCHIVE_PATH'], path);
  }
  const archive = await gateway.upload('names', { ...wordApp('names', 'y'), '.git/a.txt': 'x' });
  assert.deepEqual(codes([archive]), ['400 ARCHIVE_PATH']);
  for (const path of ['.github/a.md', 'git.txt', '.gitter.txt'])
    assert.equal((await put(workspace, 'names', path, 'x')).status, 201, path);
  assert.equal((await publish(workspace, 'names')).status, 201);
  const repository = join(gateway.dataDir, 'code-store/apps.git');
  const checked = execFileSync('git', ['-C', repository, 'fsck', '--strict', '--no-dangling'], { encoding: 'utf8' });
  assert.equal(checked, '');
});

test('after an acknowledged edit, the draft answers and serves the change', async () => {
  await gateway.upload('fresh', { ...wordApp('fresh', 'first'), 'page.json': '"first"' });
  const workspace = await open();
  assert.equal((await ask(workspace, 'fresh', 'word')).json.data, 'first');
  for (let n = 0; n < 5; n++) {
    await put(workspace, 'fresh', 'queries/word.js', handler(`${n}`));
    assert.equal((await ask(workspace, 'fresh', 'word')).json.data, `${n}`);
    await put(workspace, 'fresh', 'page.json', `"${n}"`);
    assert.equal((await gateway.call('GET', `/svc/_draft/${workspace}/fresh/page.json`)).text, `"${n}"`);
  }
});

test('a workspace that is closed while in use is gone, and its id can be used again', async () => {
  await gateway.upload('closed', wordApp('closed', 'x'));
  const body = { sessionId: 'used-again' };
  for (let round = 0; round < 4; round++) {
    assert.equal((await gateway.call('POST', '/svc/_sessions', { body })).status, 201, `round ${round}`);
    const [deleted, ...used] = await Promise.all([
      gateway.call('DELETE', '/svc/_sessions/used-again'),
      put('used-again', 'closed', 'a.txt', `${round}`),
      publish('used-again', 'closed'),
      ask('used-again', 'closed', 'word'),
      gateway.call('GET', '/svc/_sessions/used-again/diff?app=closed'),
      gateway.call('DELETE', '/svc/_sessions/used-again'),
    ]);
    assert.equal(deleted.status, 200, deleted.text);
    for (const one of codes(used)) assert.match(one, /^(2\d\d|404 UNKNOWN_SESSION|409 NO_CHANGES)$/);
    const left = readdirSync(join(gateway.dataDir, 'code-store/worktrees/sessions'));
    assert.deepEqual(
      left.filter((name) => name.startsWith('.') || name === 'used-again'),
      [],
    );
  }
});

test('a workspace deleted twice at once is deleted once', async () => {
  const workspace = await open();
  const twice = await Promise.all([1, 2, 3].map(() => gateway.call('DELETE', `/svc/_sessions/${workspace}`)));
  assert.deepEqual(codes(twice).sort(), ['200', '404 UNKNOWN_SESSION', '404 UNKNOWN_SESSION']);
});

test("streams of a draft's log end when its workspace is closed", async () => {
  await gateway.upload('followed', wordApp('followed', 'x'));
  const workspace = await open();
  const log = await gateway.stream(`/svc/_draft/${workspace}/_logs?app=followed&follow=1`);
  const changes = await gateway.stream(`/svc/_draft/${workspace}/followed/_changes`);
  await gateway.call('DELETE', `/svc/_sessions/${workspace}`);
  await Promise.all([log.ended(), changes.ended()]);
});

test('a link in place of an app in a workspace is not followed', async () => {
  await gateway.upload('linked', wordApp('linked', 'x'));
  const workspace = await open();
  await put(workspace, 'linked', 'a.txt', 'x');
  const folder = folderOf(workspace, 'linked');
  rmSync(folder, { recursive: true });
  symlinkSync(gateway.dataDir, folder);
  assert.equal((await gateway.call('GET', files(workspace, 'linked', '/token.bin'))).status, 404);
  assert.equal((await put(workspace, 'linked', 'b.txt', 'x')).status, 201);
  assert.ok(!existsSync(join(gateway.dataDir, 'b.txt')), 'nothing is written outside the workspace');
  assert.ok(existsSync(join(folder, 'b.txt')), 'the workspace has the app as it is published, and the new file');
});

test("an editor's temporary files do not prevent a diff or a publication", async () => {
  await gateway.upload('edited', wordApp('edited', 'old'));
  const workspace = await open();
  await put(workspace, 'edited', 'queries/word.js', handler('new'));
  const folder = folderOf(workspace, 'edited');
  for (const name of ['.app.json.swp', 'app.json~', 'queries/4913', 'queries/.word.js.0.tmp'])
    writeFileSync(join(folder, name), 'x');
  symlinkSync('somebody@somewhere.4711', join(folder, '.#app.json'));
  const listed = (await gateway.call('GET', files(workspace, 'edited'))).json as { path: string }[];
  assert.deepEqual(
    listed.map(({ path }) => path),
    ['app.json', 'queries/word.js'],
  );
  const diff = await gateway.call('GET', `/svc/_sessions/${workspace}/diff?app=edited`);
  assert.deepEqual(
    diff.json.files.map(({ path }: { path: string }) => path),
    ['queries/word.js'],
  );
  assert.equal((await publish(workspace, 'edited')).status, 201);
  assert.equal(await word('edited'), 'new');
});

test('lost live code is restored from the repository, as the version that was live', async () => {
  for (const text of ['one', 'two']) await gateway.upload('lost', wordApp('lost', text));
  await gateway.stop();
  rmSync(join(gateway.dataDir, 'code-store/worktrees/main'), { recursive: true });
  await gateway.start();
  assert.equal(await word('lost'), 'two');
  assert.equal((await gateway.call('GET', '/svc/_apps/lost')).json.activeVersion, 'lost/v2');
  const workspace = await open();
  await put(workspace, 'lost', 'a.txt', 'x');
  assert.equal((await publish(workspace, 'lost')).json.tag, 'lost/v3');
});

test('a missing repository is not replaced by an empty one, whose version numbers would begin again', async (t) => {
  const own = await startGateway(t, { store: 'git' });
  await own.upload('kept', wordApp('kept', 'one'));
  const repository = join(own.dataDir, 'code-store/apps.git');
  rmSync(repository, { recursive: true });
  assert.deepEqual(codes([await own.call('POST', '/svc/_sessions', { body: {} })]), ['500 STORE_DAMAGED']);
  assert.ok(!existsSync(repository), 'there is no new repository');
  await own.stop();
  await own.start();
  assert.equal(await word('kept', own), 'one');
  assert.deepEqual(codes([await own.upload('kept', wordApp('kept', 'two'))]), ['500 STORE_DAMAGED']);
  assert.ok(!existsSync(repository), 'nor after a start');
  assert.match(readFileSync(join(own.dataDir, 'code-store/active-main'), 'utf8'), /^[0-9a-f]{40}\n$/);
});

test('a backup has the code, its history and the workspaces, and a restored gateway continues from there', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-attack-'));
  const dataDir = join(folder, 'data');
  const restored = new TestGateway(dataDir, ['--config', join(dataDir, 'config.json')]);
  t.after(async () => {
    await restored.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  for (const text of ['one', 'two']) {
    await gateway.upload('packed', { ...wordApp('packed', text), '.well-known/a.json': '{}' });
  }
  const workspace = await open();
  await put(workspace, 'packed', 'draft.txt', 'mine');
  const svc = (...args: string[]) => execFileSync(process.execPath, [join(root, 'bin/svc.js'), ...args]);
  const archive = join(folder, 'backup.tgz');
  svc('backup', archive, '--url', gateway.url, '--token', gateway.token);
  svc('restore', archive, '--data-dir', dataDir);
  await restored.start();
  assert.equal(await word('packed', restored), 'two');
  assert.equal(
    (await restored.call('GET', '/svc/packed/.well-known/a.json')).status,
    (await gateway.call('GET', '/svc/packed/.well-known/a.json')).status,
  );
  assert.equal((await restored.call('GET', files(workspace, 'packed', '/draft.txt'))).text, 'mine');
  assert.equal((await publish(workspace, 'packed', restored)).json.tag, 'packed/v3');
  const back = await restored.call('POST', '/svc/_apps/packed/rollback', { body: { version: 1 } });
  assert.equal(back.status, 200, back.text);
  assert.equal(await word('packed', restored), 'one');
  const repository = join(dataDir, 'code-store/apps.git');
  const checked = execFileSync('git', ['-C', repository, 'fsck', '--strict', '--no-dangling'], { encoding: 'utf8' });
  assert.equal(checked, '');
});
