/** The rules for handlers refuse an upload, or their findings come back with the answer (specification, "Handler rules"). */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { onEachStore } from '../testing/edges.ts';
import { root, type TestGateway } from '../testing/gateway.ts';

const home = mkdtempSync(join(tmpdir(), 'svc-gates-'));
after(() => rmSync(home, { recursive: true, force: true }));

const HANDLER = 'export default async () => ({});\n';
/** A query that writes, and an automation that reads the clock. */
const careless = (id: string) =>
  appOf(id, {
    migrations: ['CREATE TABLE notes (a)'],
    queries: { clear: `({ db }) => db.run('DELETE FROM notes')` },
    automations: { digest: '() => ({ output: Date.now() })' },
  });
const FOUND = [
  { path: 'automations/digest/handler.js', keyword: 'date-now', line: 1, column: 33 },
  { path: 'queries/clear.js', keyword: 'query-handlers-read-only', line: 1, column: 35 },
];

type Finding = (typeof FOUND)[number] & { message: string };
const places = (issues: Finding[] = []) =>
  issues.map(({ path, keyword, line, column }) => ({ path, keyword, line, column }));

function svc({ url, token }: TestGateway, ...args: string[]) {
  const env = { ...process.env, SVC_URL: url, SVC_TOKEN: token };
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'bin/svc.js'), ...args], {
    env,
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

function folderOf(id: string, parent = home): string {
  const folder = join(parent, id);
  for (const [path, content] of Object.entries(careless(id))) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

onEachStore({}, (gateway, store) => {
  const broken: [name: string, file: string, text: string, rule: string][] = [
    ['does not parse', 'actions/add.js', 'export default async () => { return (; };\n', 'syntax'],
    ['has no default export', 'actions/add.js', 'export const add = async () => {};\n', 'default-export'],
    ['imports a missing file', 'actions/add.js', `import '../lib/none.js';\n${HANDLER}`, 'import'],
    ['imports a file that does not parse', 'lib/a.js', 'let a; let a;\n', 'syntax'],
  ];
  for (const [name, file, text, rule] of broken) {
    test(`a version whose handler ${name} is refused, and the live one stays`, async () => {
      const app = appOf('broken', { actions: { add: 'async () => ({ status: 200, body: 1 })' } });
      app['actions/add.js'] = `import '../lib/a.js';\n${app['actions/add.js']}`;
      app['lib/a.js'] = '';
      const sound = await gateway.upload('broken', app);
      assert.ok(sound.status < 300, sound.text);
      const { status, json } = await gateway.upload('broken', { ...app, [file]: text });
      assert.deepEqual([status, json.error.code, json.error.path], [400, 'INVALID_HANDLER', file]);
      assert.deepEqual(
        json.error.issues.map(({ keyword }: Finding) => keyword),
        [rule],
      );
      assert.equal((await gateway.write('broken', 'add')).status, 200);
      const { json: record } = await gateway.call('GET', '/svc/_apps/broken');
      assert.equal(record.activeVersion, sound.json.versionId);
    });
  }

  if (store === 'tarball') {
    test('a version that breaks a rule is stored, and the findings come back with each answer', async () => {
      const { status, json } = await gateway.upload('careless', careless('careless'));
      assert.equal(status, 201);
      assert.deepEqual(places(json.warnings), FOUND);
      assert.match(json.warnings[0].message, /use ctx\.now/);
      assert.equal((await gateway.read('careless', 'clear', {})).status, 200);
      const again = await gateway.upload('careless', careless('careless'));
      assert.deepEqual([again.status, again.json.deduplicated, places(again.json.warnings)], [200, true, FOUND]);
      const sound = await gateway.upload('careless', appOf('careless', { migrations: ['CREATE TABLE notes (a)'] }));
      assert.deepEqual([sound.status, 'warnings' in sound.json], [201, false]);
    });

    test('svc push and svc import print where each finding is and what to do', async () => {
      const pushed = svc(gateway, 'push', folderOf('pushed'));
      assert.equal(pushed.status, 0, pushed.stderr);
      assert.match(pushed.stdout, /^! automations\/digest\/handler\.js:1:33 .*use ctx\.now.* \(date-now\)$/m);
      assert.match(pushed.stdout, /^! queries\/clear\.js:1:35 .*an action.* \(query-handlers-read-only\)$/m);
      const imported = join(home, 'imported');
      folderOf('folded', imported);
      assert.match(svc(gateway, 'import', imported).stdout, /^! queries\/clear\.js:1:35 /m);
      const { apps } = JSON.parse(svc(gateway, 'import', imported, '--json').stdout);
      assert.deepEqual(places(apps[0].warnings), FOUND);
    });
    return;
  }

  test('svc push to the git store is refused for the same reasons as publishing', async () => {
    const { status, json } = await gateway.upload('careless', careless('careless'));
    assert.deepEqual([status, json.error.code, places(json.error.issues)], [400, 'INVALID_HANDLER', FOUND]);
    assert.equal((await gateway.call('GET', '/svc/_apps/careless')).status, 404);
    const stored = await gateway.upload('careless', careless('careless'), '?activate=0');
    assert.deepEqual([stored.status, stored.json.error.code], [400, 'INVALID_HANDLER']);
    const pushed = svc(gateway, 'push', folderOf('refused'));
    assert.equal(pushed.status, 1);
    assert.match(pushed.stderr, /INVALID_HANDLER: automations\/digest\/handler\.js:1:33: .*use ctx\.now/);
    assert.match(pushed.stderr, /queries\/clear\.js:1:35/);
  });

  test('an icon that cannot be drawn is a warning of each answer, and refuses nothing', async () => {
    const UNDRAWN = [{ path: 'icon.svg', keyword: 'icon', line: undefined, column: undefined }];
    const page = { 'index.html': '<p>A page', 'icon.svg': '<svg' };
    const { status, json } = await gateway.upload('drawn', appOf('drawn', { files: page }));
    assert.deepEqual([status, places(json.warnings)], [201, UNDRAWN]);
    assert.equal((await gateway.call('GET', '/svc/drawn/icon-192.png')).headers['content-type'], 'image/png');
    const { sessionId } = (await gateway.call('POST', '/svc/_sessions', { body: {} })).json;
    const file = `/svc/_sessions/${sessionId}/apps/drawn/files/icon.svg`;
    assert.ok((await gateway.call('PUT', file, { body: Buffer.from('<svg>') })).status < 300);
    const published = await gateway.call('POST', `/svc/_sessions/${sessionId}/publish`, { body: {} });
    assert.deepEqual([published.status, places(published.json.warnings)], [201, UNDRAWN]);
  });
});
