/** What is derived is damaged while the gateway is stopped: the next start makes it anew, and loses nothing that was uploaded. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
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
