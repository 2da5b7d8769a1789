/**
 * Files of the git store that were damaged by hand: the error says which and what to do, and nothing else is affected.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { type Answer, root, startGateway, type TestGateway } from '../testing/gateway.ts';

const gateway = gatewayOfSuite({ store: 'git' });

const handler = (word: string) => `export default () => '${word}';\n`;
const wordApp = (id: string, word: string) => appOf(id, { queries: { word: `() => '${word}'` } });
const word = async (app: string, on = gateway) => (await on.read(app, 'word')).json.data;
const code = ({ status, json }: Answer) => `${status} ${json.error?.code ?? 'ok'}`;
const at = (workspace: string, app: string, path = '') => `/svc/_sessions/${workspace}/apps/${app}/files${path}`;
const put = (workspace: string, app: string, path: string, text: string, on = gateway) =>
  on.call('PUT', at(workspace, app, `/${path}`), { body: Buffer.from(text) });
const publish = (workspace: string, app: string, on = gateway) =>
  on.call('POST', `/svc/_sessions/${workspace}/publish`, { body: { app } });
const inStore = (path: string, on: TestGateway = gateway) => join(on.dataDir, 'code-store', path);

async function open(sessionId?: string, on = gateway): Promise<string> {
  const answer = await on.call('POST', '/svc/_sessions', { body: sessionId === undefined ? {} : { sessionId } });
  assert.equal(answer.status, 201, answer.text);
  return answer.json.sessionId;
}

function fsck(): void {
  const args = ['-C', inStore('apps.git'), 'fsck', '--strict', '--no-dangling'];
  assert.equal(execFileSync('git', args, { encoding: 'utf8' }), '');
}

/** Replaces whatever is at the path. */
function replace(path: string, by: string | Buffer | 'folder' | 'link'): void {
  rmSync(path, { recursive: true, force: true });
  if (by === 'folder') mkdirSync(join(path, 'inside'), { recursive: true });
  else if (by === 'link') symlinkSync(path, path);
  else writeFileSync(path, by);
}

const RECORDS: Record<string, string | 'folder' | 'link' | null> = {
  truncated: '{"createdAt": "2026-',
  empty: '',
  'another-type': '[1, 2]',
  'null-only': 'null',
  'wrong-members': '{"createdAt": "2026-01-01T00:00:00Z", "base": 7, "apps": {}}',
  'wrong-app': `{"createdAt": "2026-01-01T00:00:00Z", "base": "${'a'.repeat(40)}", "apps": {"shared": null}}`,
  'wrong-base': '{"createdAt": "2026-01-01T00:00:00Z", "base": "../../etc", "apps": {}}',
  'a-folder': 'folder',
  'a-loop': 'link',
  missing: null,
};

test('a workspace whose record is damaged says so, is listed as such and can be closed; the others keep working', async () => {
  await gateway.upload('shared', wordApp('shared', 'live'));
  const whole = await open('whole');
  await put(whole, 'shared', 'mine.txt', 'mine');
  for (const [name, record] of Object.entries(RECORDS)) {
    const workspace = await open(name);
    assert.equal((await put(workspace, 'shared', 'work.txt', 'work')).status, 201);
    const path = inStore(`worktrees/sessions/${workspace}/session.json`);
    if (record === null) rmSync(path);
    else replace(path, record);
  }
  const check = async (): Promise<void> => {
    for (const name of Object.keys(RECORDS)) {
      for (const answer of [
        await gateway.call('GET', at(name, 'shared')),
        await put(name, 'shared', 'a.txt', 'x'),
        await publish(name, 'shared'),
        await gateway.call('GET', `/svc/_sessions/${name}/diff`),
        await gateway.call('POST', `/svc/_sessions/${name}/apps/shared/update`),
        await gateway.call('POST', '/svc/_apps/shared/meta', { body: { name: 'x', sessionId: name } }),
        await gateway.call('POST', `/svc/_draft/${name}/_tool/svc_describe`, { body: {} }),
      ]) {
        assert.equal(code(answer), '500 SESSION_DAMAGED', `${name}: ${answer.text}`);
        assert.match(answer.json.error.message, new RegExp(`worktrees/sessions/${name}/session\\.json.*close`, 'i'));
        assert.ok(!answer.text.includes(gateway.dataDir), 'no path of the machine is shown');
      }
      assert.equal(code(await gateway.call('POST', '/svc/_sessions', { body: { sessionId: name } })), '409 CONFLICT');
    }
    const rows = (await gateway.call('GET', '/svc/_sessions')).json as { sessionId: string; damaged?: string }[];
    const damaged = rows.filter((row) => row.damaged !== undefined);
    assert.deepEqual(damaged.map(({ sessionId }) => sessionId).sort(), Object.keys(RECORDS).sort());
    assert.deepEqual((damaged[0] as unknown as { apps: string[] }).apps, ['shared']);
    assert.deepEqual(
      rows.filter((row) => row.damaged === undefined).map(({ sessionId }) => sessionId),
      ['whole'],
    );
    assert.equal((await gateway.call('GET', at(whole, 'shared', '/mine.txt'))).text, 'mine');
    assert.equal(await word('shared'), 'live');
  };
  const doctor = (): void => {
    const { stdout } = run('doctor', '--data-dir', gateway.dataDir);
    for (const name of ['truncated', 'a-folder', 'missing']) assert.match(stdout, new RegExp(`\\b${name}\\b`));
    assert.match(stdout, /damaged/);
  };
  await check();
  doctor();
  await gateway.stop();
  doctor();
  await gateway.start();
  await check();
  const work = inStore('worktrees/sessions/truncated/apps/shared/work.txt');
  assert.equal(readFileSync(work, 'utf8'), 'work', 'the files are still there');
  for (const name of Object.keys(RECORDS)) {
    assert.equal(code(await gateway.call('DELETE', `/svc/_sessions/${name}`)), '200 ok', name);
    assert.ok(!existsSync(inStore(`worktrees/sessions/${name}`)), `${name} is gone`);
    await gateway.call('DELETE', `/svc/_sessions/${await open(name)}`);
  }
  assert.equal((await publish(whole, 'shared')).status, 201);
});

/** What is damaged before a start: an intention to publish and the note of the live tree, the mark of the store, and the repository. */
const STARTS = [
  { bad: 'folder', mark: '{', repository: 'missing' },
  { bad: '{', mark: 'null', repository: 'empty' },
  { bad: 'link', mark: '{"appsStoreRoot": 7}', repository: null },
] as const;

const markOfStore = () => JSON.parse(readFileSync(join(gateway.dataDir, 'apps/_store.json'), 'utf8'));

test('garbage or a folder in place of an intention to publish, of the mark of the store, or of HEAD and config prevents neither publications nor starts', async () => {
  await gateway.upload('intended', wordApp('intended', '0'));
  const workspace = await open();
  let published = 1;
  const change = async (): Promise<void> => {
    await put(workspace, 'intended', 'queries/word.js', handler(`${published}`));
    published += 1;
    const answer = await publish(workspace, 'intended');
    assert.equal(answer.json.tag, `intended/v${published}`, answer.text);
    assert.equal(await word('intended'), `${published - 1}`);
  };
  const intention = join(gateway.dataDir, 'journal/intended.json');
  for (const bad of ['folder', '', '{', 'null', '7', '{"kind": "publish"}', '{"kind": "tide"}', 'link']) {
    replace(intention, bad);
    await change();
    assert.ok(!existsSync(intention), 'nothing is left of it');
  }
  const active = () => readFileSync(inStore('active-main'), 'utf8').trim();
  for (const bad of ['folder', '', 'garbage', 'f'.repeat(40), 'link']) {
    replace(inStore('active-main'), bad);
    await change();
    assert.match(active(), /^[0-9a-f]{40}$/);
  }
  for (const { bad, mark, repository } of STARTS) {
    for (const name of repository === null ? [] : ['HEAD', 'config']) {
      rmSync(inStore(`apps.git/${name}`));
      if (repository === 'empty') writeFileSync(inStore(`apps.git/${name}`), '');
    }
    await change();
    await gateway.stop();
    replace(intention, bad);
    replace(inStore('active-main'), bad);
    replace(join(gateway.dataDir, 'apps/_store.json'), mark);
    await gateway.start();
    assert.equal(await word('intended'), `${published - 1}`, mark);
    assert.match(active(), /^[0-9a-f]{40}$/, 'a start puts it right');
    assert.ok(!existsSync(intention), 'and removes the useless record');
    assert.deepEqual(markOfStore(), { appsStoreRoot: 'code-store' });
    fsck();
    await change();
  }
  // The tag of the live version was not made when the note of it was damaged: its number is not given again.
  const tag = inStore(`apps.git/refs/tags/intended/v${published}`);
  await gateway.stop();
  rmSync(tag);
  replace(intention, '{');
  replace(join(gateway.dataDir, 'apps/_store.json'), 'folder');
  await gateway.start();
  assert.ok(existsSync(tag), 'the tag is there again');
  assert.deepEqual(markOfStore(), { appsStoreRoot: 'code-store' });
  await change();
  fsck();
});

test('code that is lost while the gateway runs is reported, and the next publication or start restores it', async () => {
  await gateway.upload('lost', { ...wordApp('lost', 'first'), 'page.json': '"page"' });
  assert.equal(await word('lost'), 'first');
  rmSync(inStore('worktrees/main'), { recursive: true });
  assert.equal(await word('lost'), 'first', 'running apps continue');
  const workspace = await open();
  await put(workspace, 'lost', 'queries/word.js', handler('second'));
  const second = await publish(workspace, 'lost');
  assert.equal(second.json.tag, 'lost/v2', second.text);
  assert.equal(await word('lost'), 'second');
  assert.equal((await gateway.call('GET', '/svc/lost/page.json')).text, '"page"');
  const back = await gateway.call('POST', '/svc/_apps/lost/rollback', { body: { version: 1 } });
  assert.equal(back.status, 200, back.text);
  assert.equal(await word('lost'), 'first');
});

test('damaged refs stop only the operations that need them', async (t) => {
  const own = await startGateway(t, { store: 'git' });
  for (const id of ['hurt', 'fine']) await own.upload(id, wordApp(id, 'one'));
  const refs = inStore('apps.git/refs', own);
  const workspace = await open('mine', own);
  await put(workspace, 'fine', 'queries/word.js', handler('two'), own);
  for (const bad of ['', '\0\0\0']) {
    replace(join(refs, 'tags/hurt/v1'), bad);
    replace(join(refs, 'heads/sessions/mine'), bad);
    const versions = await own.call('GET', '/svc/_apps/hurt/versions');
    assert.equal(code(versions), '500 STORE_DAMAGED', versions.text);
    assert.match(versions.json.error.message, /refs\/tags\/hurt\/v1/);
    assert.equal(await word('hurt', own), 'one');
    await own.call('DELETE', `/svc/_sessions/${await open('other', own)}`);
    await put(workspace, 'fine', 'a.txt', bad, own);
    assert.equal((await publish(workspace, 'fine', own)).status, 201, 'another app is published');
    await own.stop();
    await own.start();
    assert.equal(await word('hurt', own), 'one');
    await put(workspace, 'fine', 'a.txt', `${bad}.`, own);
    assert.equal((await publish(workspace, 'fine', own)).status, 201, 'after a start too');
  }
  replace(join(refs, 'heads/sessions/mine'), 'garbage');
  assert.equal(code(await own.call('DELETE', '/svc/_sessions/mine')), '200 ok');
  replace(join(refs, 'heads/sessions/mine'), 'garbage');
  await open('mine', own);
  const main = readFileSync(join(refs, 'heads/main'));
  replace(join(refs, 'heads/main'), 'garbage');
  const refused = await own.call('POST', '/svc/_sessions', { body: {} });
  assert.equal(code(refused), '500 STORE_DAMAGED');
  assert.match(refused.json.error.message, /refs\/heads\/main/);
  assert.equal(await word('fine', own), 'two');
  replace(join(refs, 'heads/main'), main);
  await open('whole-again', own);
});

test('a missing object is named', async () => {
  await gateway.upload('kept', { ...wordApp('kept', 'one'), 'big.txt': 'x'.repeat(3000) });
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', inStore('apps.git'), ...args], { encoding: 'utf8' }).trim();
  const blob = git('rev-parse', 'main:apps/kept/big.txt');
  const object = inStore(`apps.git/objects/${blob.slice(0, 2)}/${blob.slice(2)}`);
  const bytes = readFileSync(object);
  for (const how of ['missing', 'truncated'] as const) {
    rmSync(object);
    if (how === 'truncated') {
      writeFileSync(object, bytes);
      truncateSync(object, 9);
    }
    const other = await open();
    const answer = await gateway.call('GET', at(other, 'kept'));
    assert.equal(code(answer), '500 STORE_DAMAGED', how);
    assert.ok(answer.json.error.message.includes(blob), answer.text);
    assert.equal(await word('kept'), 'one');
    assert.equal((await gateway.call('GET', '/svc/_sessions')).json.length > 0, true);
    assert.equal(code(await gateway.call('DELETE', `/svc/_sessions/${other}`)), '200 ok');
    rmSync(object, { force: true });
    writeFileSync(object, bytes);
  }
  fsck();
});

test('a repository that is gone, or was emptied, is said and never made anew, and works again when it is back', async () => {
  await gateway.upload('orphan', wordApp('orphan', 'one'));
  const repository = inStore('apps.git');
  const away = inStore('away.git');
  const check = async (): Promise<void> => {
    for (const answer of [
      await gateway.call('GET', '/svc/_apps/orphan/versions'),
      await gateway.call('POST', '/svc/_apps/orphan/rollback', { body: {} }),
      await gateway.upload('orphan', wordApp('orphan', 'two')),
      await gateway.call('POST', '/svc/_sessions', { body: {} }),
    ]) {
      assert.equal(code(answer), '500 STORE_DAMAGED', answer.text);
      assert.match(answer.json.error.message, /apps\.git of the code store is missing, or has no branch and no tag/);
    }
    assert.equal(await word('orphan'), 'one');
  };
  renameSync(repository, away);
  await check();
  assert.match(run('doctor', '--data-dir', gateway.dataDir).stdout, /code store .*apps\.git is missing/);
  await gateway.stop();
  rmSync(inStore('active-main'));
  for (const emptied of [false, true]) {
    if (emptied) mkdirSync(repository);
    await gateway.start();
    await check();
    assert.deepEqual(existsSync(repository) ? readdirSync(repository) : null, emptied ? [] : null);
    assert.match(gateway.log, /The git repository cannot be used; what is live is served all the same/);
    await gateway.stop();
  }
  assert.equal(run('doctor', '--data-dir', gateway.dataDir).code, 1);
  rmSync(repository, { recursive: true });
  renameSync(away, repository);
  await gateway.start();
  assert.equal((await gateway.call('GET', '/svc/_apps/orphan/versions')).json.length, 1);
  assert.equal((await gateway.upload('orphan', wordApp('orphan', 'two'))).json.versionId, 'orphan/v2');
});

function run(...args: string[]): { stdout: string; code: number } {
  try {
    const stdout = execFileSync(process.execPath, [join(root, 'bin/svc.js'), ...args], { encoding: 'utf8' });
    return { stdout, code: 0 };
  } catch (error) {
    // It found something to repair.
    const { stdout, status } = error as { stdout?: string; status?: number };
    return { stdout: String(stdout), code: status ?? -1 };
  }
}
