// Names that are as long as the rules permit work wherever they become names of files, with either store.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { paxName, tarball } from '../testing/archive.ts';
import { onEachStore } from '../testing/edges.ts';

const APP = 'a'.repeat(63);
const AUTOMATION = 'n'.repeat(64);
const WORKSPACE = 's'.repeat(64);
/** As long as a file system takes it. */
const named = (ending: string, length: number = LIMITS.archiveNameBytes): string =>
  `${'é'.repeat(40)}${'x'.repeat(length - 80 - ending.length)}${ending}`;
const [STYLE, MODULE, PAGE] = [named('.css'), named('.ts'), named('.html')];
const STYLES = 'p { margin: 0 }\n'.repeat(1000);

onEachStore({}, (gateway, store) => {
  const text = async (path: string, headers = {}) =>
    (await gateway.call('GET', `/svc/${APP}/${encodeURIComponent(path)}`, { headers })).bytes;

  test('an app, its files and its automation', async () => {
    const files = {
      [STYLE]: STYLES,
      [named('.css', 252)]: STYLES,
      [MODULE]: 'export const word: string = "long";\n',
      [PAGE]: '<!doctype html><title>Long</title>',
      'queries/word.js': `import { word } from '../${MODULE}';\nexport default () => word;\n`,
    };
    const manifest = { queries: [{ name: 'word' }] };
    const source = appOf(APP, { manifest, files, automations: { [AUTOMATION]: 'async () => {}' } });
    const entries = Object.entries(source).flatMap(([name, content]) => [paxName(name), { name: 'short.js', content }]);
    const uploaded = await gateway.upload(APP, tarball(entries));
    assert.equal(uploaded.status, 201, uploaded.text);
    assert.equal((await gateway.read(APP, 'word')).json.data, 'long');
    assert.equal((await text(STYLE, { 'accept-encoding': 'gzip' })).toString(), STYLES, 'no copy can have a name');
    assert.equal(gunzipSync(await text(named('.css', 252), { 'accept-encoding': 'gzip' })).toString(), STYLES);
    assert.match((await text(PAGE)).toString(), /<title>Long/);

    assert.equal((await gateway.call('DELETE', `/svc/_apps/${APP}`)).status, 200);
    const [{ id }] = (await gateway.call('GET', '/svc/_trash')).json;
    assert.equal((await gateway.call('POST', `/svc/_trash/${id}/restore`)).status, 200);
    assert.equal((await gateway.read(APP, 'word')).json.data, 'long');
  });

  if (store === 'tarball') return;
  test('a file of a workspace', async () => {
    await gateway.call('POST', '/svc/_sessions', { body: { sessionId: WORKSPACE } });
    const put = (path: string, content: string) =>
      gateway.call('PUT', `/svc/_sessions/${WORKSPACE}/apps/${APP}/files/${encodeURIComponent(path)}`, {
        body: Buffer.from(content),
      });
    for (let length = 200; length <= LIMITS.archiveNameBytes; length += 5) {
      const answer = await put(named('.md', length), 'x');
      assert.equal(answer.status, 201, answer.text);
    }
    const tooLong = await put(named('.md', LIMITS.archiveNameBytes + 1), 'x');
    assert.equal(tooLong.status, 400);
    assert.deepEqual([tooLong.json.error.code, tooLong.json.error.path], ['ARCHIVE_PATH', named('.md', 256)]);

    const read = async () =>
      (await gateway.call('POST', `/svc/_draft/${WORKSPACE}/_tool/svc_read`, { body: { app: APP, query: 'word' } }))
        .json;
    assert.equal((await put(MODULE, 'export const word: string = "edited";\n')).status, 200);
    assert.equal((await read()).data, 'edited');
    await put(MODULE, 'export enum word { Long }\n');
    assert.match((await read()).error.message, /x\.ts:1:8: .*enum/);
    await put(MODULE, 'export const word: string = "published";\n');
    const published = await gateway.call('POST', `/svc/_sessions/${WORKSPACE}/publish`, { body: { app: APP } });
    assert.equal(published.status, 201, published.text);
    assert.equal((await gateway.read(APP, 'word')).json.data, 'published');
  });
});
