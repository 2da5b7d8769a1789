/** The code of all apps out of one gateway and into another, by the command line, as a bundle and as folders. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { appOf, automation } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { root, startGateway, type TestGateway } from '../testing/gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-transfer-'));
after(() => rmSync(folder, { recursive: true, force: true }));

// biome-ignore lint/suspicious/noExplicitAny: the tests look into answers of every shape
function svc({ url, token }: TestGateway, ...args: string[]): { code: number | null; json: any } {
  const env = { ...process.env, SVC_URL: url, SVC_TOKEN: token };
  const { status, stdout } = spawnSync(process.execPath, [join(root, 'bin/svc.js'), ...args, '--json'], { env });
  return { code: status, json: JSON.parse(stdout.toString()) };
}

/** The git program in a repository like that of the store, which has these apps; `commit` adds what changed as a version. */
function repositoryOf(name: string, ids: string[]) {
  const clone = join(folder, name);
  mkdirSync(clone);
  const git = (...args: string[]): void => {
    execFileSync('git', ['-C', clone, '-c', 'user.name=a', '-c', 'user.email=b', ...args], { stdio: 'pipe' });
  };
  const commit = (version: string): void => {
    git('add', '-A');
    git('commit', '-qm', 'x');
    git('tag', '-a', version, '-m', 'x');
  };
  git('init', '-q', '-b', 'main');
  for (const id of ids) {
    for (const [path, content] of Object.entries(appOf(id, word('old')))) {
      const file = join(clone, 'apps', id, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
    }
    commit(`${id}/v1`);
  }
  const bundle = join(folder, `${name}.bundle`);
  const pack = () => git('bundle', 'create', '-q', bundle, 'HEAD', 'refs/heads/main', '--tags');
  return { clone, commit, bundle, pack };
}

const word = (text: string) => ({ queries: { word: `() => '${text}'` }, migrations: ['CREATE TABLE t (a)'] });

/** Where code comes from, and an empty one that takes it. */
const from = gatewayOfSuite({ store: 'git' });
const to = gatewayOfSuite({ store: 'git' });

test('folders are exported as they are published, and pushed one by one', async (t) => {
  const files = appOf('plain', { ...word('here'), files: { 'pixel.png': Buffer.from([0, 255, 1, 254]) } });
  await from.upload('plain', files);
  const dir = join(folder, 'plain');
  assert.deepEqual(svc(from, 'export', dir).json.apps, ['plain']);
  assert.deepEqual(readFileSync(join(dir, 'plain', 'pixel.png')), Buffer.from([0, 255, 1, 254]));
  assert.deepEqual((await from.call('GET', '/svc/_sessions')).json, [], 'no workspace is left');

  const to = await startGateway(t, {});
  assert.deepEqual(
    svc(to, 'import', dir).json.apps.map(({ id }: { id: string }) => id),
    ['plain'],
  );
  assert.equal((await to.read('plain', 'word', {})).json.data, 'here');
});

test('a file that is not a bundle changes nothing', () => {
  const bad = join(folder, 'bad.bundle');
  writeFileSync(bad, '# v2 git bundle\nnothing');
  const { code, json } = svc(to, 'import', bad);
  assert.deepEqual([code, json.error.code], [1, 'INVALID_BACKUP'], JSON.stringify(json));
});

test('a bundle brings every app and version, live as they were, and git can clone it', async () => {
  await from.upload('one', appOf('one', word('old')));
  await from.upload('one', appOf('one', word('new')));
  await from.upload(
    'two',
    appOf('two', {
      ...word('two'),
      files: {
        'automations/hook/automation.json': automation({ triggers: [{ kind: 'webhook', pending: true }] }),
        'automations/hook/handler.js': 'export default () => ({});',
      },
    }),
  );
  await from.call('POST', '/svc/_apps/one/rollback', { body: { version: 1 } });
  const bundle = join(folder, 'apps.bundle');
  assert.equal(svc(from, 'export', bundle).code, 0);
  execFileSync('git', ['clone', '-q', bundle, join(folder, 'clone')], { stdio: 'pipe' });
  assert.deepEqual(readdirSync(join(folder, 'clone', 'apps')).sort(), ['one', 'plain', 'two']);
  assert.equal(svc(from, 'export', bundle).code, 1, 'an existing file is not replaced');

  const { code, json } = svc(to, 'import', bundle);
  assert.equal(code, 0, JSON.stringify(json));
  assert.deepEqual(json.apps, [
    { id: 'one', versionId: 'one/v1' },
    { id: 'plain', versionId: 'plain/v1' },
    { id: 'two', versionId: 'two/v1' },
  ]);
  assert.equal(json.webhooks[0]?.automationId, 'hook', 'an imported webhook has a new address');
  assert.equal((await to.read('one', 'word', {})).json.data, 'old');
  const back = await to.call('POST', '/svc/_apps/one/activate', { body: { versionId: 'one/v2' } });
  assert.equal(back.status, 200, back.text);
  assert.equal((await to.read('one', 'word', {})).json.data, 'new');
  const again = svc(to, 'import', bundle);
  assert.deepEqual([again.code, again.json.error.code], [1, 'RESTORE_TARGET']);
  await to.stop();
  await to.start();
  assert.equal((await to.read('two', 'word', {})).json.data, 'two');
});

test('an imported version that breaks a rule is live with warnings; one that cannot be loaded is refused', async (t) => {
  const { clone, commit, bundle, pack } = repositoryOf('unchecked', ['broken', 'careless']);
  writeFileSync(join(clone, 'apps/broken/queries/word.js'), 'export default () => (;');
  commit('broken/v2');
  writeFileSync(join(clone, 'apps/careless/queries/word.js'), "export default ({ db }) => db.run('DELETE FROM t');\n");
  commit('careless/v2');
  pack();

  const to = await startGateway(t, { store: 'git' });
  const { json } = svc(to, 'import', bundle);
  assert.deepEqual(
    json.failed.map(({ id, error }: { id: string; error: { code: string; path: string } }) => [
      id,
      error.code,
      error.path,
    ]),
    [['broken', 'INVALID_HANDLER', 'queries/word.js']],
  );
  const [{ id, versionId, warnings }] = json.apps;
  assert.deepEqual([id, versionId, warnings.length], ['careless', 'careless/v2', 1]);
  assert.equal(warnings[0].keyword, 'query-handlers-read-only');
  // A rollback restores the version that was stored before.
  const back = await to.call('POST', '/svc/_apps/careless/activate', { body: { versionId: 'careless/v1' } });
  assert.equal(back.status, 200, back.text);
  assert.equal((await to.call('POST', '/svc/_apps/careless/rollback', { body: { version: 2 } })).status, 200);
});

test('an app with a link or a tree that is too deep is refused by name, and its id can be taken', async (t) => {
  const { clone, commit, bundle, pack } = repositoryOf('hostile', ['deep', 'good', 'linked']);
  symlinkSync('/etc/passwd', join(clone, 'apps/linked/page.html'));
  commit('linked/v2');
  const depths = join(clone, 'apps/deep', ...Array<string>(140).fill('d'));
  mkdirSync(depths, { recursive: true });
  writeFileSync(join(depths, 'page.html'), 'x');
  commit('deep/v2');
  pack();

  const to = await startGateway(t, { store: 'git' });
  const answer = await to.call('POST', '/svc/_code/import', { body: readFileSync(bundle) });
  assert.equal(answer.status, 201, answer.text);
  assert.deepEqual(answer.json.apps, [{ id: 'good', versionId: 'good/v1' }]);
  const failed = answer.json.failed as { id: string; error: { code: string; path: string } }[];
  assert.deepEqual(
    failed.map(({ id, error }) => [id, error.code]),
    [
      ['deep', 'ARCHIVE_PATH'],
      ['linked', 'ARCHIVE_ENTRY_TYPE'],
    ],
  );
  assert.equal(failed[1]?.error.path, 'page.html');
  const repository = join(to.dataDir, 'code-store/apps.git');
  const onMain = execFileSync('git', ['-C', repository, 'ls-tree', '--name-only', 'main', 'apps/'], {
    encoding: 'utf8',
  });
  assert.equal(onMain.trim(), 'apps/good');
  const active = readFileSync(join(to.dataDir, 'code-store/active-main'), 'utf8').trim();
  assert.equal(active, execFileSync('git', ['-C', repository, 'rev-parse', 'main'], { encoding: 'utf8' }).trim());
  const uploaded = await to.upload('linked', appOf('linked', word('new')));
  assert.equal(uploaded.status, 201, uploaded.text);
  assert.equal(uploaded.json.versionId, 'linked/v3', 'no number is given twice');
  const made = await to.call('POST', '/svc/_apps', { body: { id: 'deep', publish: true } });
  assert.equal(made.status, 201, made.text);
  assert.equal((await to.read('linked', 'word', {})).json.data, 'new');
});
