/**
 * Files are damaged while the gateway is stopped: the next start makes anew what is derived and loses nothing that was uploaded;
 * of the rest it names the file.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { buildGateway } from '../supervisor/gateway.ts';
import { appOf } from '../testing/apps.ts';
import { startGateway } from '../testing/gateway.ts';

for (const store of ['tarball', 'git'] as const) {
  test(`an app on the ${store} store answers, and rolls back, after what was prepared of it was damaged`, async (t) => {
    const gateway = await startGateway(t, store === 'git' ? { store } : {});
    const app = (word: string) => ({
      'app.json': JSON.stringify({ id: 'words', name: 'Words', version: word, queries: [{ name: 'word' }] }),
      'index.html': `<!doctype html><title>${word}</title>`,
      'queries/word.ts': `import { word } from '../lib/word.ts';\nexport default (): string => word;\n`,
      'lib/word.ts': `export const word: string = '${word}';\n`,
    });
    for (const word of ['old', 'new']) await gateway.upload('words', app(word));
    const list = async () => (await gateway.call('GET', '/svc/_apps/words/versions')).json;
    const listed = await list();
    const [newer, older] = listed.map((row: { versionId: string }) => row.versionId);
    const prepared = join(gateway.dataDir, 'apps/words/prepared');
    const of = (versionId: string, path: string) => join(prepared, versionId.split('/').at(-1) as string, path);
    const damages: Record<string, () => void> = {
      'version.json cut': () => truncateSync(of(newer, 'version.json'), 20),
      'version.json of the older one empty': () => writeFileSync(of(older, 'version.json'), ''),
      'static.json gone': () => rmSync(of(newer, 'static.json')),
      'validators.js garbage': () => writeFileSync(of(newer, 'validators.js'), '}{'),
      'a module without types cut': () => truncateSync(of(newer, 'erased/lib/word.ts'), 4),
      'one of the older version cut': () => truncateSync(of(older, 'erased/lib/word.ts'), 4),
      'a page cut': () => truncateSync(of(newer, 'static/index.html'), 4),
      'a folder gone': () => rmSync(of(older, ''), { recursive: true }),
      'all gone': () => rmSync(prepared, { recursive: true }),
    };
    for (const [what, damage] of Object.entries(damages)) {
      await gateway.stop();
      damage();
      await gateway.start();
      assert.equal((await gateway.read('words', 'word')).json.data, 'new', what);
      assert.match((await gateway.call('GET', '/svc/words/')).text, /<title>new/, what);
      assert.deepEqual(await list(), listed, what);
      const back = await gateway.call('POST', '/svc/_apps/words/activate', { body: { versionId: older } });
      assert.equal(back.status, 200, back.text);
      assert.equal((await gateway.read('words', 'word')).json.data, 'old', what);
      await gateway.call('POST', '/svc/_apps/words/activate', { body: { versionId: newer } });
    }
    assert.equal(readdirSync(join(gateway.dataDir, 'apps/words/versions')).length, 2);
    assert.ok(existsSync(prepared));
  });
}

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
