import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ProbeOrder, ProbeResult, RunnerEntry } from '../../../protocol/agents/agents.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { eventually } from '../../../testing/edges.ts';
import { RunnerCatalog } from './runner-catalog.ts';
import { Runners } from './runners.ts';

const AGENT: RunnerEntry = { kind: 'acp', command: [process.execPath] };
const GOOD: ProbeResult = { version: '1.0', models: [{ id: 'small' }], tools: [{ name: 'Bash' }] };

type Answer = (order: ProbeOrder, signal: AbortSignal) => Promise<ProbeResult>;

function world(t: TestContext, entries: Record<string, RunnerEntry> = { mine: AGENT }) {
  const dir = mkdtempSync(join(tmpdir(), 'svc-catalog-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'model-catalog.json');
  const asked: string[] = [];
  const warnings: string[] = [];
  const state: { answer: Answer; entries: Record<string, RunnerEntry> } = { answer: async () => GOOD, entries };
  const make = () =>
    new RunnerCatalog({
      runners: new Runners({ runners: state.entries, runner: null, env: {} }),
      agents: {
        probe: (order, signal) => {
          asked.push(`${order.want} ${order.runner.name}`);
          return state.answer(order, signal);
        },
      },
      file,
      folder: join(dir, 'agents', '_probe'),
      log: { warn: (_fields, message) => warnings.push(message) },
    });
  return { file, asked, warnings, state, make };
}

/** A catalog that has asked for everything at its start. */
async function warmed(catalog: RunnerCatalog): Promise<RunnerCatalog> {
  await catalog.open();
  await eventually(async () => (await catalog.report()).every((one) => !isBusy(one)));
  return catalog;
}

function isBusy({ available, modelsStatus, toolsStatus }: Awaited<ReturnType<RunnerCatalog['report']>>[number]) {
  const settled = ['ready', 'failed'];
  return available && !(settled.includes(modelsStatus) && settled.includes(toolsStatus));
}

const wants =
  (answers: Partial<Record<ProbeOrder['want'], () => Promise<ProbeResult>>>): Answer =>
  ({ want }) =>
    answers[want]?.() ?? Promise.resolve(GOOD);

test('a cold catalog is empty, and a start asks for everything', async (t) => {
  const { make, asked } = world(t);
  const catalog = make();
  assert.deepEqual([catalog.models('mine'), catalog.tools('mine'), catalog.models('other')], [[], [], []]);
  await warmed(catalog);
  assert.deepEqual(asked, ['version mine', 'models mine', 'tools mine']);
  assert.deepEqual(await catalog.report(), [
    {
      name: 'mine',
      kind: 'acp',
      enforcesData: false,
      available: true,
      version: '1.0',
      signedIn: null,
      models: GOOD.models,
      modelsStatus: 'ready',
      tools: GOOD.tools,
      toolsStatus: 'ready',
      detail: null,
    },
  ]);
  assert.equal(asked.length, 3, 'a report asks for what is known');
});

test('the catalog is there after a restart, before any agent is asked', async (t) => {
  const { make, state, asked } = world(t);
  await warmed(make());
  asked.length = 0;
  state.answer = () => new Promise(() => {});
  const catalog = make();
  await catalog.open();
  await eventually(() => asked.length > 0);
  assert.deepEqual([catalog.models('mine'), catalog.tools('mine')], [GOOD.models, GOOD.tools]);
});

test('the catalog of an earlier runner with the same name is not used', async (t) => {
  const { make, state, asked } = world(t);
  await warmed(make());
  asked.length = 0;
  state.entries = { mine: { kind: 'model', baseUrl: 'http://127.0.0.1:1' } };
  state.answer = () => new Promise(() => {});
  const catalog = make();
  await catalog.open();
  await eventually(() => asked.length > 0);
  assert.deepEqual(catalog.models('mine'), []);
});

test('an empty answer, and a failure, never replace a good one', async (t) => {
  const { make, state, file } = world(t);
  const catalog = await warmed(make());
  const kept = readFileSync(file, 'utf8');
  state.answer = async () => ({ version: '2.0', models: [], tools: [] });
  await Promise.all([catalog.refresh('models'), catalog.refresh('tools')]);
  const [empty] = await catalog.report();
  assert.deepEqual([empty?.version, empty?.models, empty?.tools], ['2.0', GOOD.models, GOOD.tools]);
  assert.deepEqual([empty?.modelsStatus, empty?.toolsStatus], ['ready', 'ready']);
  state.answer = wants({ models: () => Promise.reject(new Error('It says no.')), tools: async () => ({}) });
  await Promise.all([catalog.refresh('models'), catalog.refresh('tools')]);
  const [failed] = await catalog.report();
  assert.deepEqual([failed?.models, failed?.modelsStatus, failed?.detail], [GOOD.models, 'failed', 'It says no.']);
  assert.deepEqual([failed?.tools, failed?.toolsStatus], [GOOD.tools, 'ready']);
  assert.equal(readFileSync(file, 'utf8'), kept);
});

test('models and tools are asked for apart: one that hangs does not hold the other', async (t) => {
  const { make, state, asked } = world(t);
  const catalog = await warmed(make());
  asked.length = 0;
  state.answer = wants({
    tools: () => new Promise(() => {}),
    models: async () => ({ models: [{ id: 'large', isDefault: true }] }),
  });
  void catalog.refresh('tools');
  await eventually(() => asked.includes('tools mine'));
  await catalog.refresh('models');
  await catalog.refresh('models');
  assert.deepEqual(catalog.models('mine'), [{ id: 'large', isDefault: true }]);
  assert.equal((await catalog.report())[0]?.toolsStatus, 'loading');
  void catalog.refresh('tools');
  await catalog.refresh('models');
  assert.equal(asked.filter((what) => what === 'tools mine').length, 1, 'the same is asked twice at a time');
});

test('an agent without a sign-in is available, and reports that', async (t) => {
  const { make, state } = world(t);
  state.answer = async ({ want }) => (want === 'models' ? { ...GOOD, signedIn: false } : GOOD);
  const [report] = await (await warmed(make())).report();
  assert.deepEqual([report?.available, report?.signedIn], [true, false]);
  assert.match(report?.detail ?? '', /Nobody is signed in/);
});

test('a runner that does not say its version is not available, and is not asked for more', async (t) => {
  const { make, state, asked } = world(t);
  state.answer = () => Promise.reject(new Error('mine did not answer within 5 s.'));
  const [report] = await (await warmed(make())).report();
  assert.deepEqual([report?.available, report?.detail], [false, 'mine did not answer within 5 s.']);
  assert.deepEqual(asked, ['version mine']);
});

test('a program that is too old is not available, though it says its version, and is not asked for more', async (t) => {
  const { make, state, asked } = world(t);
  state.answer = async () => ({ version: '0.9', fault: 'This is 0.9; 1.0 or newer is needed.' });
  const [report] = await (await warmed(make())).report();
  assert.deepEqual(
    [report?.available, report?.version, report?.detail],
    [false, '0.9', 'This is 0.9; 1.0 or newer is needed.'],
  );
  assert.deepEqual(asked, ['version mine']);
});

test('a program that is not there is not started; one that appears is noticed', async (t) => {
  const { make, state, asked, file } = world(t, {});
  const program = `${file}.sh`;
  state.entries = { mine: { kind: 'acp', command: [program] } };
  const catalog = await warmed(make());
  const [gone] = await catalog.report();
  assert.deepEqual([gone?.available, gone?.detail, asked], [false, `There is no program ${program}.`, []]);
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 });
  const [found] = await catalog.report();
  assert.deepEqual([found?.available, found?.version, found?.detail], [true, '1.0', null]);
  rmSync(program);
  assert.equal((await catalog.report())[0]?.available, false);
});

test('a model server has no version to be asked for', async (t) => {
  const { make, asked } = world(t, { mine: { kind: 'model', baseUrl: 'http://127.0.0.1:1' } });
  const [report] = await (await warmed(make())).report();
  assert.deepEqual([report?.available, report?.models, asked], [true, GOOD.models, ['models mine', 'tools mine']]);
});

test('one runner that hangs does not keep the others from being reported', async (t) => {
  const { make, state } = world(t, { slow: AGENT, mine: AGENT });
  state.answer = ({ runner, want }) =>
    runner.name === 'slow' && want === 'models' ? new Promise(() => {}) : Promise.resolve(GOOD);
  const catalog = make();
  await catalog.open();
  const reports = await catalog.report();
  assert.deepEqual(
    reports.map(({ name, available }) => [name, available]),
    [
      ['slow', true],
      ['mine', true],
    ],
  );
});

for (const [name, content] of [
  ['no JSON', '{"runners": {'],
  ['a list', '[1]'],
  ['of another form', '{"runners": [{"mine": 1}]}'],
  ['without its members', '{"runners": {"mine": {"models": "many"}}}'],
] as const) {
  test(`a file that is ${name} counts as missing, and is replaced`, async (t) => {
    const { make, file } = world(t);
    writeFileSync(file, content);
    const catalog = await warmed(make());
    assert.deepEqual(catalog.models('mine'), GOOD.models);
    assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')).runners.mine.models, GOOD.models);
  });
}

test('the valid parts of an agent’s answer are used', async (t) => {
  const { make, state } = world(t);
  const models = [
    null,
    {},
    { id: 7 },
    { id: '' },
    { id: 'a', name: 3, isDefault: 'yes', extra: 1 },
    { id: 'b'.repeat(501) },
  ];
  const many = Array.from({ length: LIMITS.catalogItems + 5 }, (_, i) => ({
    name: `t${i}`,
    description: 'x'.repeat(9000),
  }));
  state.answer = async () => ({ version: 'v'.repeat(9000), models, tools: many }) as unknown as ProbeResult;
  const [report] = await (await warmed(make())).report();
  assert.deepEqual(report?.models, [{ id: 'a' }]);
  assert.equal(report?.tools.length, LIMITS.catalogItems);
  assert.deepEqual(
    [report?.version?.length, report?.tools[0]?.description?.length],
    [LIMITS.textChars, LIMITS.textChars],
  );
});

test('a gateway that stops ends its probes', async (t) => {
  const { make, state, file } = world(t);
  state.answer = (_order, signal) =>
    new Promise((_resolve, reject) => {
      signal.throwIfAborted();
      signal.addEventListener('abort', () => reject(new Error('stopped')));
    });
  const catalog = make();
  await catalog.open();
  catalog.stop();
  assert.equal((await catalog.report())[0]?.available, false);
  assert.equal(existsSync(file), false);
});
