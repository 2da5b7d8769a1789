import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { Layout } from '../layout.ts';
import { Registry } from './registry.ts';

async function open(t: TestContext, ids: string[] = []) {
  const layout = new Layout(mkdtempSync(join(tmpdir(), 'registry-')));
  t.after(() => rmSync(layout.dataDir, { recursive: true }));
  const again = () =>
    Registry.open({
      layout,
      userVersion: async () => 0,
      makeDurable: async () => {},
      log: pino({ enabled: false }),
    });
  const registry = await again();
  for (const id of ids) await registry.register(id);
  return { layout, registry, again };
}

const MOVED = { code: 'STORAGE_UNAVAILABLE', headers: { 'retry-after': '1' } };

test('an app that is refused is read, and one that another node has is not', async (t) => {
  const { layout, registry } = await open(t, ['notes', 'todos']);
  await registry.state('notes');
  registry.refuse(['notes']);
  assert.throws(() => registry.demand('notes'), MOVED);
  assert.equal((await registry.state('notes')).active, null);
  assert.deepEqual(registry.ids(), ['todos']);

  await registry.leave(['notes']);
  await assert.rejects(registry.state('notes'), MOVED);
  assert.deepEqual(
    [registry.has('notes'), registry.loaded('notes'), registry.registered()],
    [true, undefined, ['notes', 'todos']],
  );
  assert.deepEqual(
    (await registry.states()).map(({ id }) => id),
    ['todos'],
  );
  registry.demand('todos');

  // Another node has made a version live.
  const version = layout.app('notes').version('v_20260101T000000000Z_abcdef');
  for (const folder of [version.code, version.prepared]) mkdirSync(folder, { recursive: true });
  const summary = { versionId: 'v_20260101T000000000Z_abcdef', uploadedAt: 1, name: 'notes' };
  for (const [file, value] of [
    [version.summary, summary],
    [version.static, {}],
    [layout.app('notes').current, { activeVersion: summary.versionId, activatedAt: '2026-01-01T00:00:00Z' }],
  ] as const)
    writeFileSync(file, JSON.stringify(value));
  writeFileSync(version.validators, 'export default {};');
  registry.refuse(['notes']);
  assert.equal((await registry.state('notes')).active?.versionId, summary.versionId);
  registry.serve(['notes']);
  registry.demand('notes');
  assert.deepEqual(registry.ids(), ['notes', 'todos']);
});

test('a state that was being read when the app left is forgotten', async (t) => {
  const { registry } = await open(t, ['notes']);
  const reading = registry.state('notes');
  await registry.leave(['notes']);
  await reading;
  assert.equal(registry.loaded('notes'), undefined);
});

test('it takes what a cluster knows: apps that are new, registered again, or removed', async (t) => {
  const { registry, again } = await open(t, ['removed', 'kept', 'again']);
  const { registeredAt } = await registry.state('kept');
  const known = [
    { id: 'kept', registeredAt, maker: null },
    { id: 'again', registeredAt: 5, maker: 'p1' },
    { id: 'new', registeredAt: 7, maker: null },
  ];
  await registry.learn(known, ['removed', 'unknown']);
  for (const one of [registry, await again()]) {
    assert.deepEqual(one.registered(), ['again', 'kept', 'new']);
    assert.deepEqual([one.registeredAt('again'), one.makerOf('again'), one.registeredAt('new')], [5, 'p1', 7]);
    assert.deepEqual([one.wasRemoved('removed'), one.wasRemoved('unknown')], [true, false]);
  }
});

test('apps that other nodes serve are known, and take no calls here until they come; those that are here stay so', async (t) => {
  const { registry } = await open(t);
  const listed = (id: string, registeredAt: number) => ({ id, registeredAt, maker: null });
  await registry.learn([listed('here', 1)]);
  registry.serve(['here']);
  registry.refuse(['coming']);
  await registry.learnElsewhere([listed('here', 1), listed('coming', 2), listed('there', 3)], []);
  assert.deepEqual([registry.registered(), registry.ids()], [['coming', 'here', 'there'], ['here']]);
  assert.deepEqual([registry.isElsewhere('there'), registry.isElsewhere('coming')], [true, false]);
  assert.equal(registry.registeredAt('there'), 3);
  registry.serve(['coming']);
  await registry.learnElsewhere([], ['there', 'unknown']);
  assert.deepEqual(
    [registry.registered(), registry.ids()],
    [
      ['coming', 'here'],
      ['coming', 'here'],
    ],
  );
  // Another one of this id may be made here.
  assert.equal(registry.refusalOf('there'), null);
});

test('a list of some apps reads no file of others', async (t) => {
  const { registry } = await open(t, ['notes', 'todos']);
  assert.deepEqual(
    (await registry.states(['todos'])).map(({ id }) => id),
    ['todos'],
  );
  assert.equal(registry.loaded('notes'), undefined);
});
