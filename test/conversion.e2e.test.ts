/** `svc convert`: apps move from the tarball store to the git store with their versions, and a crash leaves one of the two. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { Layout } from '../storage/layout.ts';
import { checkStore, storeIn } from '../supervisor/deployments/store/open-store.ts';
import { appOf } from '../testing/apps.ts';
import { svc as svcHere } from '../testing/command-line.ts';
import { makeGateway, root, TestGateway } from '../testing/gateway.ts';
import { whyNoShim } from '../testing/shim/compile.ts';
import { CrashPlan } from '../testing/shim/crash.ts';

const words = (version: string) =>
  appOf('words', {
    manifest: { version },
    migrations: ['CREATE TABLE words (word TEXT);'],
    queries: { version: `() => '${version}'`, all: "({ db }) => db.all('SELECT word FROM words')" },
    actions: { add: "({ db, input }) => db.run('INSERT INTO words VALUES (?)', [input.word])" },
  });

function svc(args: string[], env: Record<string, string> = {}) {
  const { status, stdout } = spawnSync(process.execPath, [join(root, 'bin/svc.js'), ...args, '--json'], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  return { status, json: stdout === '' ? null : JSON.parse(stdout) };
}

const convert = (dataDir: string, env?: Record<string, string>) =>
  svc(['convert', '--store', 'git', '--data-dir', dataDir], env);

function temporary(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-convert-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/**
 * A stopped gateway on the tarball store: two versions of `words`, the older one live, with a row; and `other`, never
 * changed.
 */
const made = makeGateway({ store: 'tarball' });
before(async () => {
  const { gateway } = made;
  await gateway.start();
  for (const version of ['1.0.0', '2.0.0']) {
    const answer = await gateway.upload('words', words(version));
    assert.equal(answer.status, 201, answer.text);
  }
  await gateway.upload('other', appOf('other', { queries: { word: "() => 'other'" } }));
  await gateway.write('words', 'add', { word: 'kept' });
  assert.equal((await gateway.call('POST', '/svc/_apps/words/rollback', { body: {} })).status, 200);
  await gateway.stop();
});
after(() => made.remove());

function copyTo(dataDir: string): string {
  cpSync(made.gateway.dataDir, dataDir, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
  return dataDir;
}

test('apps and versions move to the git store, live versions stay live, data stays; then everything works as before', async (t) => {
  const folder = temporary(t);
  const dataDir = copyTo(join(folder, 'data'));
  const data = readFileSync(join(dataDir, 'apps/words/data.sqlite'));
  const { status, json } = convert(dataDir);
  assert.equal(status, 0, JSON.stringify(json));
  assert.deepEqual(json, { dataDir, store: 'git', apps: 2, versions: 3 });
  assert.deepEqual(readFileSync(join(dataDir, 'apps/words/data.sqlite')), data);

  const git = (...args: string[]) =>
    execFileSync('git', ['-C', join(dataDir, 'code-store/apps.git'), ...args], { encoding: 'utf8' }).trim();
  assert.equal(git('fsck', '--strict'), '');
  assert.deepEqual(git('tag').split('\n'), ['other/v1', 'words/v1', 'words/v2']);
  assert.match(git('show', 'main:apps/words/queries/version.js'), /1\.0\.0/);
  assert.match(git('show', 'words/v2:apps/words/queries/version.js'), /2\.0\.0/);

  const gateway = new TestGateway(dataDir, []);
  t.after(() => gateway.stop());
  await gateway.start();
  const live = async () => (await gateway.read('words', 'version')).json.data;
  assert.equal(await live(), '1.0.0');
  assert.deepEqual((await gateway.read('words', 'all')).json.data, [{ word: 'kept' }]);
  const versions = async () =>
    ((await gateway.call('GET', '/svc/_apps/words/versions')).json as { versionId: string; active: boolean }[]).map(
      ({ versionId, active }) => `${versionId}${active ? ' live' : ''}`,
    );
  assert.deepEqual(await versions(), ['words/v2', 'words/v1 live']);
  const activated = await gateway.call('POST', '/svc/_apps/words/activate', { body: { versionId: 'words/v2' } });
  assert.equal(activated.status, 200, activated.text);
  assert.equal(await live(), '2.0.0');
  assert.equal((await gateway.upload('words', words('3.0.0'))).json.versionId, 'words/v3');
  assert.equal((await gateway.call('DELETE', '/svc/_apps/words/versions/words%2Fv1')).status, 200);
  assert.deepEqual(await versions(), ['words/v3 live', 'words/v2']);
  assert.deepEqual((await gateway.read('words', 'all')).json.data, [{ word: 'kept' }]);
  const running = convert(dataDir);
  assert.deepEqual([running.status, running.json.error.code], [1, 'FAILED']);
  assert.match(running.json.error.message, /in use by another gateway/);
  await gateway.stop();
  assert.deepEqual(convert(dataDir).json, { dataDir, store: 'git', apps: 0, versions: 0 });
});

test('a directory that cannot be converted is left unchanged, with what to do', async (t) => {
  const folder = temporary(t);
  const nowhere = join(folder, 'nowhere');
  const none = convert(nowhere);
  assert.match(`${none.status} ${none.json.error.message}`, /^1 No gateway has run on /);
  assert.equal(existsSync(nowhere), false);
  assert.equal(svc(['convert', '--store', 'tarball', '--data-dir', nowhere]).status, 2);

  const dataDir = copyTo(join(folder, 'data'));
  writeFileSync(join(dataDir, 'journal/words.json'), '{}');
  const cutOff = convert(dataDir);
  assert.match(`${cutOff.status} ${cutOff.json.error.message}`, /^1 A change of "words" was cut off/);
  assert.match(cutOff.json.error.hint, /svc serve .*--store tarball/);
  assert.equal(await storeIn(new Layout(dataDir)), null);
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith('code-store')),
    [],
  );
});

test('a crash at any step leaves the old store or the new one', { skip: whyNoShim() ?? false }, async (t) => {
  const folder = temporary(t);
  const tried = join(folder, 'tried');
  const plan = CrashPlan.in(folder, tried);
  const again = () => {
    rmSync(tried, { recursive: true, force: true });
    copyTo(tried);
  };
  again();
  plan.set([]);
  assert.equal(convert(tried, plan.env).status, 0);
  const points = [...new Set(plan.passed().map(({ point }) => point))];
  const decided = points.findIndex((point) => /^rename .*code-store/.test(point) && !point.includes('apps.git'));
  assert.ok(decided > 0, points.join('\n'));

  const seen = new Set<string>();
  for (const [i, point] of points.entries()) {
    // Before the rename only the new store changes: three moments of its creation are enough.
    if (i < decided - 3) continue;
    again();
    plan.set([{ point, passing: 1, mode: 'process' }]);
    assert.equal(convert(tried, plan.env).status, null, `killed at ${point}`);
    plan.set([]);
    const found = await storeIn(new Layout(tried));
    const layout = new Layout(tried, undefined, found ?? undefined);
    // As each start of a gateway does.
    await checkStore(layout);
    const { activeVersion } = JSON.parse(readFileSync(layout.app('words').current, 'utf8'));
    const versions = readdirSync(layout.app('words').versionsDir).sort();
    const prepared = readdirSync(layout.app('words').preparedDir).sort();
    assert.deepEqual(prepared, versions, point);
    const [first = '', second] = versions;
    const isOld = found === null;
    seen.add(isOld ? 'old' : 'new');
    if (isOld) assert.deepEqual([activeVersion, first.startsWith('v_')], [first, true], point);
    else assert.deepEqual([activeVersion, first, second], ['words/v1', 'v1', 'v2'], point);
    // In this process: only the killed one has to be one of its own.
    const converted = await svcHere(['convert', '--store', 'git', '--data-dir', tried, '--json']);
    assert.equal(JSON.parse(converted.stdout).store, 'git', point);
    const names = readdirSync(join(tried, 'code-store'));
    assert.deepEqual(names, ['apps.git'], point);
  }
  assert.deepEqual([...seen].sort(), ['new', 'old']);
});
