/**
 * A real disk that runs full under the git store, at several levels: every step says so, leaves nothing partial, and
 * works again.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { fill } from '../testing/full-disk.ts';
import { type Answer, TestGateway } from '../testing/gateway.ts';
import { mountSmall, whyNoSmallDisk } from '../testing/mount.ts';

const missing = whyNoSmallDisk();
if (missing !== null && process.env.CI !== undefined) throw new Error(`These tests need a small disk: ${missing}`);

const KIB = 1024;
/** Free space on the disk. Each is too little for the steps below, which fail at different places. */
const LEVELS = [0, 8, 16, 40, 64, 128].map((kib) => kib * KIB);

const wordApp = (id: string, word: string) =>
  appOf(id, {
    migrations: ['CREATE TABLE t (x); INSERT INTO t VALUES (1);'],
    queries: { word: `() => '${word}'`, rows: "({ db }) => db.get('SELECT count(*) AS n FROM t')" },
    files: { 'settled.txt': 'x'.repeat(40_000) },
  });
const handler = (word: string) => `export default () => '${word}';\n`;
const code = ({ status, json }: Answer) => `${status} ${json.error?.code ?? 'ok'}`;

test('the git store on a disk that runs full', { skip: missing ?? false }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-small-'));
  const mount = join(folder, 'disk');
  const unmount = mountSmall(mount, '24m');
  const gateway = new TestGateway(join(mount, 'data'), ['--store', 'git']);
  t.after(async () => {
    await gateway.stop();
    unmount();
    rmSync(folder, { recursive: true, force: true });
  });
  await gateway.start();
  const store = join(gateway.dataDir, 'code-store');
  const filler = join(mount, 'filler');
  const full = (free: number): void => fill(filler, free);
  const empty = (): void => rmSync(filler, { force: true });
  const workspaces = async () =>
    (
      (await gateway.call('GET', '/svc/_sessions')).json as { sessionId: string; apps: string[]; damaged?: string }[]
    ).map(({ sessionId, apps, damaged }) => ({ sessionId, apps, damaged }));
  const at = (workspace: string, app: string, path = '') => `/svc/_sessions/${workspace}/apps/${app}/files${path}`;
  const put = (workspace: string, app: string, path: string, text: string | Buffer) =>
    gateway.call('PUT', at(workspace, app, `/${path}`), { body: Buffer.from(text) });
  const open = (sessionId: string) => gateway.call('POST', '/svc/_sessions', { body: { sessionId } });
  const publish = (workspace: string, app: string) =>
    gateway.call('POST', `/svc/_sessions/${workspace}/publish`, { body: { app } });
  const word = async () => (await gateway.read('notes', 'word')).json.data;

  /** The state that a caller can see, and the unfinished work on disk. */
  const state = async () => {
    const workspace = join(store, 'worktrees/sessions');
    return {
      apps: ((await gateway.call('GET', '/svc/_apps')).json as { id: string; activeVersion: string }[]).map(
        ({ id, activeVersion }) => [id, activeVersion],
      ),
      versions: (await gateway.call('GET', '/svc/_apps/notes/versions')).json.map(
        ({ versionId }: { versionId: string }) => versionId,
      ),
      workspaces: await workspaces(),
      files: filesBelow(workspace),
      code: filesBelow(join(store, 'worktrees/main')).length,
      left: [
        ...readdirSync(join(gateway.dataDir, 'tmp')),
        ...readdirSync(join(gateway.dataDir, 'journal')),
        ...readdirSync(workspace).filter((name) => name.startsWith('.')),
        ...allBelow(gateway.dataDir).filter((name) => /\.tmp$|\.lock$|tmp_obj_|importing/.test(name)),
      ],
    };
  };
  const fsck = (): void => {
    const args = ['-C', join(store, 'apps.git'), 'fsck', '--strict', '--no-dangling'];
    assert.equal(execFileSync('git', args, { encoding: 'utf8' }), '');
  };

  /**
   * Does it at every level; `again` with space. Either it succeeds, or it is refused with `STORAGE_FULL` and has
   * changed nothing.
   */
  const step = async (name: string, act: (n: number) => Promise<Answer>, before?: (n: number) => Promise<void>) => {
    let refused = 0;
    for (const [n, free] of LEVELS.entries()) {
      await before?.(n);
      const was = await state();
      full(free);
      const live = await word();
      const answer = await act(n);
      const outcome = code(answer);
      const text = `${name} with ${free / KIB} KiB left was answered ${answer.text}`;
      assert.ok(answer.status < 300 || outcome === '507 STORAGE_FULL', text);
      assert.equal((await gateway.call('GET', '/svc/_sessions')).status, 200, text);
      if (answer.status >= 300) assert.deepEqual([await word(), await state()], [live, was], text);
      fsck();
      empty();
      if (answer.status < 300) continue;
      refused += 1;
      const again = await act(n);
      assert.ok(again.status < 300, `${name} with space again: ${again.text}`);
      assert.deepEqual((await state()).left, [], `${name} with space again`);
      fsck();
    }
    assert.ok(refused > 0, `${name} was refused at some level`);
  };

  assert.equal((await gateway.upload('notes', wordApp('notes', 'first'))).status, 201);
  assert.equal((await gateway.read('notes', 'rows')).json.data.n, 1);
  assert.equal((await open('mine')).status, 201);
  assert.equal((await put('mine', 'notes', 'queries/word.js', handler('0'))).status, 200);
  assert.equal((await publish('mine', 'notes')).status, 201);

  await t.test('publishing', async () => {
    await step(
      'publish',
      () => publish('mine', 'notes'),
      async (n) => {
        await put('mine', 'notes', 'queries/word.js', handler(`${n + 1}`));
        await put('mine', 'notes', 'noise.txt', randomBytes(60_000).toString('hex'));
        const sql = `INSERT INTO t VALUES (${n});`;
        await put('mine', 'notes', `migrations/${String(n + 2).padStart(4, '0')}_more.sql`, sql);
      },
    );
    assert.equal(await word(), String(LEVELS.length));
    assert.equal((await gateway.read('notes', 'rows')).json.data.n, LEVELS.length + 1);
  });

  await t.test('writing a file', async () => {
    await step('put', (n) => put('mine', 'notes', `deep${n}/er/noise.txt`, randomBytes(100_000).toString('hex')));
    for (let n = 0; n < LEVELS.length; n++) await gateway.call('DELETE', at('mine', 'notes', `/deep${n}/er/noise.txt`));
  });

  await t.test('opening a workspace, and adding an app to it', async () => {
    await step('open', (n) => open(`opened${n}`));
    await step('take', (n) => gateway.call('GET', at(`opened${n}`, 'notes')));
    await step('draft', async (n) => {
      const path = `/svc/_draft/opened${n}/_tool/svc_read`;
      return gateway.call('POST', path, { body: { app: 'notes', query: 'word' } });
    });
    for (let n = 0; n < LEVELS.length; n++)
      assert.equal((await gateway.call('DELETE', `/svc/_sessions/opened${n}`)).status, 200);
  });

  await t.test('cloning a template, making an app, and uploading', async () => {
    await step('clone', (n) =>
      gateway.call('POST', '/svc/_apps/_clone', { body: { templateId: 'todos', id: `clone${n}`, sessionId: 'mine' } }),
    );
    await step('create', (n) => gateway.call('POST', '/svc/_apps', { body: { id: `made${n}`, publish: true } }));
    await step('upload', (n) => gateway.upload(`up${n}`, wordApp(`up${n}`, 'x')));
  });

  await t.test('merging publications into workspaces, and closing workspaces', async () => {
    await step(
      'update',
      () => gateway.call('POST', '/svc/_sessions/behind/apps/notes/update'),
      async (n) => {
        await gateway.call('DELETE', '/svc/_sessions/behind');
        await open('behind');
        await put('behind', 'notes', 'settled.txt', `behind ${n}\n`);
        await put('mine', 'notes', 'settled.txt', `mine ${n}\n${'y'.repeat(40_000)}`);
        assert.equal((await publish('mine', 'notes')).status, 201);
      },
    );
    full(0);
    assert.equal((await gateway.call('DELETE', '/svc/_sessions/behind')).status, 200, 'closing needs no room');
    empty();
  });

  await t.test('importing', async () => {
    const bundle = await gateway.call('POST', '/svc/_code/export', { body: {} });
    assert.equal(bundle.status, 200, 'exported');
    await gateway.stop();
    rmSync(gateway.dataDir, { recursive: true });
    await gateway.start();
    const importing = () => gateway.call('POST', '/svc/_code/import', { body: bundle.bytes });
    const size = bundle.bytes.length;
    for (const free of [0, size / 2, size * 1.2, size * 2].map(Math.floor)) {
      full(free);
      const answer = await importing();
      const outcome = `with ${free} bytes left: ${answer.text}`;
      assert.ok(answer.status === 201 || code(answer) === '507 STORAGE_FULL', outcome);
      const live = ((await gateway.call('GET', '/svc/_apps')).json as { id: string }[]).map(({ id }) => id);
      const told = answer.status === 201 ? answer.json.apps.map(({ id }: { id: string }) => id) : [];
      assert.deepEqual(live, told.sort(), outcome);
      assert.deepEqual(readdirSync(join(gateway.dataDir, 'tmp')), []);
      fsck();
      empty();
      if (answer.status !== 201) continue;
      // Some are live and their webhooks were returned; the others are on main, and can be published unchanged.
      await open('rest');
      for (const { id, error } of answer.json.failed as { id: string; error: { code: string } }[]) {
        assert.equal(error.code, 'STORAGE_FULL', outcome);
        const published = await publish('rest', id);
        assert.equal(published.status, 201, published.text);
      }
      break;
    }
    if ((await gateway.call('GET', '/svc/_apps/notes')).status === 404) {
      const imported = await importing();
      assert.equal(imported.status, 201, imported.text);
      assert.deepEqual(imported.json.failed, []);
    }
    assert.equal(await word(), String(LEVELS.length));
    fsck();
  });
});

function allBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' });
}

/** Path and content of every file, except the records of workspaces, which the gateway's answers show better. */
function filesBelow(folder: string): string[] {
  return allBelow(folder)
    .filter((path) => statSync(join(folder, path)).isFile() && !path.endsWith('session.json'))
    .map((path) => `${path} ${readFileSync(join(folder, path), 'latin1').length}`)
    .sort();
}
