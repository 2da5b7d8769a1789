import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LIMITS } from '../../protocol/limits.ts';
import { Registry } from '../../storage/apps/registry.ts';
import { Layout } from '../../storage/layout.ts';
import { automation } from '../../testing/apps.ts';
import { AutomationCatalog } from './catalog.ts';

const root = mkdtempSync(join(tmpdir(), 'catalog-'));
after(() => rmSync(root, { recursive: true, force: true }));
let directories = 0;

const VERSION = 'v_20260102T030405006Z_abcdef';
const LATER = 'v_20260102T030405007Z_abcdef';
const SLUG = '0123456789abcdef01234567';
const hook = (id: string) => automation({ triggers: [{ kind: 'webhook', id, secretHash: 'a'.repeat(64) }] });

/** App → id → the text of its `automation.json`. */
type Apps = Record<string, Record<string, string>>;

/** A data directory as uploads leave it, and the catalog of it. */
async function open(apps: Apps) {
  const layout = new Layout(join(root, String(++directories)));
  const entries = Object.keys(apps).map((app) => [app, { registeredAt: '2026-01-01T00:00:00Z' }]);
  mkdirSync(layout.appsDir, { recursive: true });
  writeFileSync(layout.registry, JSON.stringify({ apps: Object.fromEntries(entries) }));
  for (const [app, automations] of Object.entries(apps)) put(layout, app, VERSION, automations);
  const warnings: unknown[] = [];
  const log = { warn: (...args: unknown[]) => warnings.push(args), error: (...args: unknown[]) => warnings.push(args) };
  const registry = await Registry.open({
    layout,
    userVersion: async () => 0,
    makeDurable: async () => {},
    log: log as never,
  });
  const catalog = new AutomationCatalog({ layout, registry, log: log as never });
  const told: string[] = [];
  catalog.onChange((app) => told.push(app));
  return { layout, registry, catalog, told, warnings };
}

/** Stores a version and makes it the active one. */
function put(layout: Layout, app: string, versionId: string, automations: Record<string, string>): void {
  const paths = layout.app(app);
  const version = paths.version(versionId);
  mkdirSync(version.code, { recursive: true });
  mkdirSync(version.prepared, { recursive: true });
  const summary = { versionId, uploadedAt: 1, name: app, automations: Object.keys(automations).length };
  writeFileSync(version.summary, JSON.stringify(summary));
  writeFileSync(version.static, '{}');
  writeFileSync(version.validators, 'export default {};');
  writeFileSync(paths.current, JSON.stringify({ activeVersion: versionId, activatedAt: '2026-01-01T00:00:00Z' }));
  for (const [id, text] of Object.entries(automations)) {
    mkdirSync(join(version.automationsDir, id), { recursive: true });
    writeFileSync(version.automation(id), text);
  }
}

const refs = (catalog: AutomationCatalog, app?: string) => catalog.list(app).map(({ ref }) => ref);

test('finds the automations of every active version by ref and by slug', async () => {
  const { catalog, registry, told } = await open({
    todos: { b: hook(SLUG), a: automation() },
    'todos-2': { c: automation() },
    none: {},
  });
  assert.deepEqual(refs(catalog), []);
  await catalog.serve(registry.ids());
  assert.deepEqual(refs(catalog), ['todos-2/c', 'todos/a', 'todos/b']);
  assert.deepEqual(refs(catalog, 'todos'), ['todos/a', 'todos/b']);
  assert.deepEqual([refs(catalog, 'none'), refs(catalog, 'nobody')], [[], []]);
  assert.equal(catalog.bySlug(SLUG)?.ref, 'todos/b');
  assert.equal(catalog.bySlug('constructor'), undefined);
  const live = catalog.get('todos/a');
  assert.deepEqual([live?.app, live?.id, live?.versionId, live?.manifest.enabled], ['todos', 'a', VERSION, true]);
  assert.deepEqual(told.sort(), ['todos', 'todos-2'], 'an app without any is told of');
});

test('the address of a webhook stays that of an app that another node has', async () => {
  const { catalog, registry } = await open({ todos: { a: hook(SLUG) }, none: {} });
  await catalog.serve(registry.ids());
  catalog.release('todos');
  assert.deepEqual([catalog.bySlug(SLUG), catalog.holderOf(SLUG), refs(catalog)], [undefined, 'todos', []]);
  assert.deepEqual(catalog.slugsOf('todos'), [SLUG], 'an upload that ends now leaves the app its address');
  await catalog.serve(['todos']);
  assert.equal(catalog.bySlug(SLUG)?.ref, 'todos/a');
  assert.deepEqual(catalog.slugsOf('todos'), [SLUG]);
  catalog.forget('todos');
  assert.equal(catalog.holderOf(SLUG), undefined);
});

test('follows the active version, and forgets an app', async () => {
  const { catalog, layout, registry, told } = await open({ todos: { a: hook(SLUG), b: automation() } });
  await catalog.serve(registry.ids());
  assert.deepEqual(catalog.counts, { registered: 2, enabled: 2 });
  put(layout, 'todos', LATER, { b: automation({ enabled: false }), c: hook(SLUG) });
  registry.forget('todos');
  await catalog.load('todos');
  assert.deepEqual(refs(catalog), ['todos/b', 'todos/c']);
  assert.equal(catalog.get('todos/b')?.manifest.enabled, false);
  assert.deepEqual(catalog.counts, { registered: 2, enabled: 1 });
  assert.equal(catalog.bySlug(SLUG)?.ref, 'todos/c');
  catalog.forget('todos');
  assert.deepEqual([refs(catalog), catalog.bySlug(SLUG), catalog.get('todos/b')], [[], undefined, undefined]);
  assert.deepEqual(told, ['todos', 'todos', 'todos']);
});

test('of two automations with the same slug the first by ref has it, and the other one when that is gone', async () => {
  const { catalog } = await open({ b: { x: hook(SLUG) }, a: { z: hook(SLUG), y: hook(SLUG) } });
  await catalog.load('b');
  assert.equal(catalog.bySlug(SLUG)?.ref, 'b/x');
  await catalog.load('a');
  assert.equal(catalog.bySlug(SLUG)?.ref, 'a/y');
  catalog.forget('a');
  assert.equal(catalog.bySlug(SLUG)?.ref, 'b/x');
});

const DAMAGED: [name: string, text: string, code: string, path: string][] = [
  ['cut off', automation().slice(0, -1), 'invalid_json', ''],
  ['empty', '', 'invalid_json', ''],
  ['of another shape', automation({ triggers: 5 }), 'invalid_field', 'triggers'],
  ['too large', automation({ x: 'x'.repeat(LIMITS.automationStoredBytes) }), 'invalid_field', ''],
];

for (const [name, text, code, path] of DAMAGED) {
  test(`a file that is ${name} is a fault, and the others are there`, async () => {
    const { catalog, registry, layout, warnings } = await open({ todos: { a: automation(), b: hook(SLUG) } });
    await catalog.serve(registry.ids());
    writeFileSync(layout.app('todos').version(VERSION).automation('b'), text);
    await catalog.load('todos');
    assert.deepEqual(refs(catalog), ['todos/a']);
    assert.equal(catalog.bySlug(SLUG), undefined);
    const [fault, ...others] = catalog.faults();
    assert.deepEqual([fault?.ref, fault?.code, fault?.path, others], ['todos/b', code, path, []]);
    assert.deepEqual(catalog.faults('none'), []);
    assert.equal(warnings.length, 1);
  });
}

test('a file of gigabytes is not read', async () => {
  const { catalog, registry, layout } = await open({ todos: { a: automation() } });
  truncateSync(layout.app('todos').version(VERSION).automation('a'), 8 * 1024 ** 3);
  await catalog.serve(registry.ids());
  assert.equal(catalog.faults()[0]?.code, 'invalid_field');
});

test('a file that cannot be read is a fault, and the others are there', async () => {
  const { catalog, registry, layout } = await open({ todos: { a: automation(), b: automation() } });
  const file = layout.app('todos').version(VERSION).automation('a');
  rmSync(file);
  mkdirSync(file);
  await catalog.serve(registry.ids());
  assert.deepEqual(
    catalog.faults('todos').map(({ ref, code }) => [ref, code]),
    [['todos/a', 'INTERNAL']],
  );
  assert.deepEqual(refs(catalog), ['todos/b']);
});

test('a load that ends after the removal of its app changes nothing', async () => {
  const { catalog } = await open({ todos: { a: automation() } });
  const loading = catalog.load('todos');
  catalog.forget('todos');
  await loading;
  assert.deepEqual(refs(catalog), []);
});

test('10,000 automations cost less than 30 MiB, with prompts and schemas of any size', async () => {
  const text = automation({
    prompt: 'Do. '.repeat(1000),
    triggers: [{ kind: 'cron', expr: '0 9 * * MON-FRI', tz: 'Europe/Berlin' }],
    requires: { tools: ['svc_read', 'svc_write'] },
    outputSchema: { type: 'object', properties: { count: { type: 'number' } } },
  });
  const ids = Array.from({ length: LIMITS.automations }, (_, i) => [`a${i}`, text]);
  const { catalog, registry } = await open(
    Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`app${i}`, Object.fromEntries(ids)])),
  );
  await catalog.load('app0');
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  catalog.forget('app0');
  collect();
  const before = process.memoryUsage().heapUsed;
  await catalog.serve(registry.ids());
  collect();
  const used = process.memoryUsage().heapUsed - before;
  assert.equal(catalog.list().length, 10_000);
  assert.ok(used < 30 * 1024 ** 2, `it took ${(used / 1024 ** 2).toFixed(1)} MiB`);
});

test('an app without automations costs a start no look at its files', async () => {
  const { registry, catalog } = await open({ none: {}, one: { nightly: automation() } });
  await catalog.serve(['none', 'one']);
  assert.equal(registry.loaded('none'), undefined);
  assert.equal(registry.loaded('one')?.active?.automations, 1);
  assert.equal((await registry.state('none')).active?.versionId, VERSION);
});
