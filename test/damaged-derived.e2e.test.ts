/**
 * Files are damaged while the gateway is stopped: the next start makes anew what is derived and loses nothing that was uploaded;
 * of the rest it names the file.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { pino } from 'pino';
import { buildGateway } from '../supervisor/gateway.ts';
import { appOf } from '../testing/apps.ts';
import { onEachStore } from '../testing/edges.ts';
import { startGateway } from '../testing/gateway.ts';
import { eventually, LIMIT_MS } from '../testing/waiting.ts';

const words = (id: string, word: string) => ({
  'app.json': JSON.stringify({ id, name: 'Words', version: word, queries: [{ name: 'word' }] }),
  'index.html': `<!doctype html><title>${word}</title>`,
  'icon.svg': '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8"/></svg>',
  'queries/word.ts': `import { word } from '../lib/word.ts';\nexport default (): string => word;\n`,
  'lib/word.ts': `export const word: string = '${word}';\n`,
});

/** A file below the app's folder `prepared`, of its newer or its older version. */
type FileOf = (version: 'newer' | 'older', path: string) => string;

const DAMAGES: [what: string, damage: (file: FileOf) => void][] = [
  ['version.json cut', (file) => truncateSync(file('newer', 'version.json'), 20)],
  ['version.json of the older one empty', (file) => writeFileSync(file('older', 'version.json'), '')],
  ['static.json gone', (file) => rmSync(file('newer', 'static.json'))],
  ['validators.js garbage', (file) => writeFileSync(file('newer', 'validators.js'), '}{')],
  ['a module without types cut', (file) => truncateSync(file('newer', 'erased/lib/word.ts'), 4)],
  ['one of the older version cut', (file) => truncateSync(file('older', 'erased/lib/word.ts'), 4)],
  ['a page cut', (file) => truncateSync(file('newer', 'static/index.html'), 4)],
  ['an icon cut', (file) => truncateSync(file('newer', 'static/icon-512.png'), 4)],
  ['a folder gone', (file) => rmSync(file('older', ''), { recursive: true })],
  ['all gone', (file) => rmSync(dirname(file('newer', '')), { recursive: true })],
];

onEachStore({}, (gateway) => {
  /** The versions of each damaged app before that, the newest first. */
  const listed: { versionId: string }[][] = [];
  const list = async (id: string) => (await gateway.call('GET', `/svc/_apps/${id}/versions`)).json;

  before(async () => {
    for (const n of DAMAGES.keys()) {
      for (const word of ['old', 'new']) await gateway.install(`words-${n}`, words(`words-${n}`, word));
      listed[n] = await list(`words-${n}`);
    }
    await gateway.stop();
    for (const [n, [, damage]] of DAMAGES.entries()) {
      const [newer = '', older = ''] = (listed[n] ?? []).map(({ versionId }) => versionId.split('/').at(-1));
      const prepared = join(gateway.dataDir, 'apps', `words-${n}`, 'prepared');
      damage((version, path) => join(prepared, version === 'newer' ? newer : older, path));
    }
    await gateway.start();
  });

  test('a start repairs an app that nobody asks for', async () => {
    const n = DAMAGES.findIndex(([what]) => what === 'validators.js garbage');
    const repaired = new RegExp(`"app":"words-${n}".*Repaired: the prepared files of a version were damaged`);
    assert.ok(await eventually(LIMIT_MS, () => repaired.test(gateway.log)), gateway.log);
  });

  for (const [n, [what]] of DAMAGES.entries()) {
    test(`an app answers, and rolls back, after what was prepared of it was damaged: ${what}`, async () => {
      const id = `words-${n}`;
      const activate = async (versionId: string | undefined) => {
        const answer = await gateway.call('POST', `/svc/_apps/${id}/activate`, { body: { versionId } });
        assert.equal(answer.status, 200, answer.text);
      };
      assert.equal((await gateway.read(id, 'word')).json.data, 'new');
      assert.match((await gateway.call('GET', `/svc/${id}/`)).text, /<title>new/);
      assert.equal((await gateway.call('GET', `/svc/${id}/icon-512.png`)).status, 200);
      assert.deepEqual(await list(id), listed[n]);
      await activate(listed[n]?.[1]?.versionId);
      assert.equal((await gateway.read(id, 'word')).json.data, 'old');
      await activate(listed[n]?.[0]?.versionId);
      assert.equal((await gateway.read(id, 'word')).json.data, 'new');
      assert.equal(readdirSync(join(gateway.dataDir, 'apps', id, 'versions')).length, 2);
    });
  }
});

test('a damaged analytics.sqlite is put aside and made anew; of others the start or the answer names the file', async (t) => {
  const gateway = await startGateway(t);
  await gateway.upload('words', appOf('words', { queries: { word: `() => 'here'` } }));
  const insights = async () => (await gateway.call('GET', '/svc/_insights')).status;
  assert.equal(await insights(), 200);
  const file = (name: string) => join(gateway.dataDir, name);
  const damages = {
    garbage: (path: string) => writeFileSync(path, 'garbage '.repeat(2000)),
    truncated: (path: string) => truncateSync(path, 150),
    'without its middle': (path: string) => {
      const bytes = readFileSync(path);
      writeFileSync(path, bytes.fill(0xa5, 100));
    },
  };
  let aside = 0;
  for (const [how, damage] of Object.entries(damages)) {
    await gateway.stop();
    damage(file('analytics.sqlite'));
    const damaged = readFileSync(file('analytics.sqlite'));
    await gateway.start();
    assert.equal((await gateway.read('words', 'word')).json.data, 'here', how);
    assert.equal(await insights(), 200, how);
    const names = readdirSync(gateway.dataDir).filter((name) => /^analytics\.sqlite\.damaged-\d+$/.test(name));
    assert.equal(names.length, ++aside, how);
    assert.ok(
      names.some((name) => readFileSync(file(name)).equals(damaged)),
      'nothing of it is lost',
    );
  }
  await gateway.stop();
  damages.garbage(file('identity.sqlite'));
  await gateway.start();
  assert.equal((await gateway.read('words', 'word')).json.data, 'here');
  for (const path of ['/_svc-user/id', '/_svc-user/prefs']) {
    const { status, json } = await gateway.call('GET', path);
    assert.deepEqual([status, json.error?.code], [500, 'STORE_DAMAGED'], path);
    assert.match(json.error.message, /identity\.sqlite/);
    assert.ok(!json.error.message.includes(gateway.dataDir));
  }
});

test('the log names both files of a database that was put aside; a start on a damaged runtime.sqlite says what to do', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-damaged-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const lines: string[] = [];
  const start = () => {
    const logger = pino({ level: 'warn', base: null }, { write: (line: string) => void lines.push(line) });
    return buildGateway({ dataDir, edge: 'node', logger });
  };
  writeFileSync(join(dataDir, 'analytics.sqlite'), 'garbage '.repeat(2000));
  const first = start();
  await first.start();
  await first.stop(0);
  assert.equal(
    lines.filter((line) => /analytics\.sqlite was damaged\. It is analytics\.sqlite\.damaged-\d+ now/.test(line))
      .length,
    1,
  );
  const runtime = join(dataDir, 'runtime.sqlite');
  const garbage = 'garbage '.repeat(2000);
  writeFileSync(runtime, garbage);
  const second = start();
  await assert.rejects(second.start(), {
    code: 'STORE_DAMAGED',
    message: /runtime\.sqlite .* damaged .*move runtime\.sqlite .* away .*, or restore a backup/,
  });
  assert.equal(readFileSync(runtime, 'utf8'), garbage);
  rmSync(runtime);
  await second.start();
  await second.stop(0);
});
