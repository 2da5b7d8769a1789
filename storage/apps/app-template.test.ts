import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { renameApp } from './app-template.ts';

/** A template "feeds" with one automation. */
function template(t: TestContext, automation: object): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-rename-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'automations/sweep'), { recursive: true });
  writeFileSync(join(folder, 'app.json'), JSON.stringify({ id: 'feeds', name: 'Feeds', version: '1' }));
  writeFileSync(join(folder, 'automations/sweep/automation.json'), JSON.stringify(automation));
  return folder;
}

const read = (folder: string, file: string) => JSON.parse(readFileSync(join(folder, file), 'utf8'));

test('id and name change, also in automations', (t) => {
  const folder = template(t, { apps: ['feeds', 'notes'], onFailure: 'feeds/alarm', name: 'feeds' });
  assert.equal(renameApp(folder, 'news', 'News'), 'News');
  assert.deepEqual(read(folder, 'app.json'), { id: 'news', name: 'News', version: '1' });
  assert.deepEqual(read(folder, 'automations/sweep/automation.json'), {
    apps: ['news', 'notes'],
    onFailure: 'news/alarm',
    name: 'feeds',
  });
});

test('the page gets the app’s name', (t) => {
  const folder = template(t, {});
  const page = (name: string, other: string) =>
    `<title>${name}</title><h1 id="top" class="x">${name}</h1><h1>${other}</h1><h2>Feeds</h2><p>Feeds</p><script>'Feeds'</script>`;
  writeFileSync(join(folder, 'index.html'), page(' Feeds\n', 'Feeds of friends'));
  renameApp(folder, 'news', "Ann's <News> $&");
  assert.equal(readFileSync(join(folder, 'index.html'), 'utf8'), page("Ann's &lt;News&gt; $&amp;", 'Feeds of friends'));
});

test('without a name it keeps its own, and text about other things stays', (t) => {
  const automation = { apps: ['feedsy'], onFailure: 'feedsy/alarm' };
  const folder = template(t, automation);
  assert.equal(renameApp(folder, 'news', null), 'Feeds');
  assert.deepEqual(read(folder, 'automations/sweep/automation.json'), automation);
});

test('a manifest that cannot be read is said to be damaged', (t) => {
  const folder = template(t, []);
  assert.throws(() => renameApp(folder, 'news', null), { code: 'INVALID_MANIFEST' });
});

test('manifests of a template name the schemas beside the app', (t) => {
  const folder = template(t, { $schema: '../../../../schemas/automation.schema.json' });
  const manifest = { $schema: '../../schemas/app.schema.json', id: 'feeds', name: '"$schema": "../../schemas/x"' };
  writeFileSync(join(folder, 'app.json'), JSON.stringify(manifest));
  renameApp(folder, 'feeds', null);
  assert.deepEqual(read(folder, 'app.json'), { ...manifest, $schema: './.schemas/app.schema.json' });
  const { $schema } = read(folder, 'automations/sweep/automation.json');
  assert.equal($schema, '../../.schemas/automation.schema.json');
  const others = { ...manifest, $schema: 'https://example.com/schemas/app.schema.json' };
  writeFileSync(join(folder, 'app.json'), JSON.stringify(others));
  renameApp(folder, 'feeds', null);
  assert.deepEqual(read(folder, 'app.json'), others);
});
