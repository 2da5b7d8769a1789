// The published schemas match the checks: editors and the gateway agree on a file.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { LIMITS } from '../protocol/limits.ts';
import { parseAutomation } from '../protocol/rules/automation-check.ts';
import { checkManifest } from '../protocol/rules/manifest-check.ts';
import APP_SCHEMA from '../schemas/app.schema.json' with { type: 'json' };
import AUTOMATION_SCHEMA from '../schemas/automation.schema.json' with { type: 'json' };
import { svc } from '../testing/command-line.ts';
import { root } from '../testing/gateway.ts';

const ajv = new Ajv2020({ strict: false });
const isApp = ajv.compile(APP_SCHEMA);
const isAutomation = ajv.compile(AUTOMATION_SCHEMA);
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const apps = ['templates', 'examples']
  .flatMap((folder) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`))
  .filter((path) => existsSync(join(root, path, 'app.json')));

for (const app of apps) {
  test(`${app}: its files are valid under the published schemas, and to the checks with $schema in them`, () => {
    const manifest = JSON.parse(read(`${app}/app.json`)) as { $schema: string; id: string; name: string };
    assert.ok(isApp(manifest), JSON.stringify(isApp.errors));
    assert.equal(checkManifest(JSON.stringify(manifest), manifest.id).name, manifest.name);
    assert.equal(manifest.$schema, '../../schemas/app.schema.json');
    const folder = join(root, app, 'automations');
    for (const id of existsSync(folder) ? readdirSync(folder) : []) {
      const file = JSON.parse(read(`${app}/automations/${id}/automation.json`));
      assert.ok(isAutomation(file), JSON.stringify(isAutomation.errors));
      assert.ok('manifest' in parseAutomation(JSON.stringify(file), { firesAfter: 0 }));
      assert.equal(file.$schema, '../../../../schemas/automation.schema.json');
    }
  });
}

test('at least one template has an automation', () => {
  assert.ok(apps.some((app) => existsSync(join(root, app, 'automations'))));
});

test('limits in the schemas are those of the gateway', () => {
  const { uses, network, queries, actions } = APP_SCHEMA.properties;
  assert.equal(uses.maxItems, LIMITS.usedApps);
  assert.equal(network.maxItems, LIMITS.networkHosts);
  assert.equal(queries.items.properties.refreshSeconds.maximum, LIMITS.liveRefreshSeconds);
  for (const list of [queries, actions]) assert.equal(list.items.properties.timeoutMs.maximum, LIMITS.toolTimeoutMs);
  assert.equal(AUTOMATION_SCHEMA.properties.triggers.maxItems, LIMITS.automationTriggers);
  assert.equal(AUTOMATION_SCHEMA.$defs.trigger.allOf[0]?.then.properties.expr?.maxLength, LIMITS.cronChars);
});

test('the package has the schemas', () => {
  assert.ok((JSON.parse(read('package.json')) as { files: string[] }).files.includes('schemas'));
});

test('svc new puts the schemas where the manifests name them', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'svc-new-'));
  t.after(() => rmSync(home, { recursive: true }));
  for (const words of [[], ['--ts'], ['--clone', 'todos'], ['--clone', 'todos', '--id', 'mine']]) {
    const folder = join(home, `app${words.join('')}`);
    const { code, stderr } = await svc(['new', folder, '--id', 'app', ...words]);
    assert.equal(code, 0, stderr);
    const manifests = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) =>
      /(?:^|[\\/])(?:app|automation)\.json$/.test(path),
    );
    assert.equal(manifests.length, words.includes('todos') ? 3 : 1);
    for (const manifest of manifests) {
      const { $schema } = JSON.parse(readFileSync(join(folder, manifest), 'utf8'));
      const named = readFileSync(join(folder, dirname(manifest), $schema), 'utf8');
      assert.equal(named, read(`schemas/${basename($schema)}`));
    }
  }
});
