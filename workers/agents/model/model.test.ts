// The runner that asks a model server itself, in each of the three protocols.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, mock } from 'node:test';
import { MODEL_APIS, type RunnerSpec } from '../../../protocol/agents/agents.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { STUB_MODELS, startModelStub } from '../../../testing/model-stub.ts';
import { type RequestBody, type RunnerTester, runnerCases } from '../../../testing/runner-cases.ts';
import { eventsOf, finalOf, RunnerTurns } from '../../../testing/runner-turns.ts';
import { modelRunner } from './model.ts';

/** Milliseconds between the tries of the `ai` library, which pass at once here. */
const RETRY_WAITS = [2000, 4000];
let waited: number[] = [];
const { setTimeout } = globalThis;
before(() => {
  mock.method(globalThis, 'setTimeout', (work: () => void, ms?: number, ...rest: []) => {
    if (ms === undefined || !RETRY_WAITS.includes(ms)) return setTimeout(work, ms, ...rest);
    waited.push(ms);
    return setTimeout(work, 0, ...rest);
  });
});
after(() => mock.restoreAll());

/** The Messages protocol takes tokens. */
const BUDGETS: Record<string, string> = { 24576: 'high', 2048: 'low' };

for (const api of MODEL_APIS) {
  const spec = (url: string): RunnerSpec => ({ name: 'local', kind: 'model', api, baseUrl: `${url}/v1`, env: {} });
  runnerCases(
    {
      name: `model, ${api}`,
      runner: modelRunner,
      skip: false,
      spec: ({ stub }) => ({ ...spec(stub.url), model: 'stub-model' }),
      hasProgram: false,
      hasSystem: true,
      reasons: true,
      effortOf: {
        chat: ({ reasoning_effort: effort }: RequestBody) => effort,
        responses: ({ reasoning }: RequestBody) => reasoning?.effort,
        messages: ({ thinking }: RequestBody) => BUDGETS[thinking?.budget_tokens],
      }[api],
    },
    (runnerTest) => {
      worksOnFiles(runnerTest);
      staysInBounds(runnerTest);

      runnerTest(
        'sends the key, and asks the first model that there is where none is named',
        async ({ place, turns }) => {
          const stub = await startModelStub({ key: 'sesame' });
          const keyed = { baseUrl: `${stub.url}/v1`, apiKey: 'sesame' };
          const nameless = new RunnerTurns(place, modelRunner, { ...spec(stub.url), ...keyed }, turns.gateway);
          try {
            assert.equal(finalOf(await nameless.run('say: open')), 'open');
            assert.equal(stub.requests[0]?.model, 'stub-model');
            assert.deepEqual(await turns.probe('models', keyed), {
              models: STUB_MODELS.map((id) => ({ id, name: id })),
            });
            await assert.rejects(turns.probe('models', { ...keyed, apiKey: 'x' }), /answered 401/);
          } finally {
            await nameless.end();
            await stub.close();
          }
        },
      );
    },
  );
}

function worksOnFiles(runnerTest: RunnerTester): void {
  runnerTest('works on the files of a draft in mode full, and nowhere else', async ({ turns, place }) => {
    const folder = join(place.folder, 'draft');
    mkdirSync(folder);
    writeFileSync(join(folder, 'app.json'), '{"id":"todos"}');
    writeFileSync(join(place.folder, 'secret.txt'), 'secret');
    const steps = [
      'call: write {"path":"notes/plan.md","text":"by day"}',
      'call: edit {"path":"notes/plan.md","before":"day","after":"week"}',
      'call: read {"path":"notes/plan.md"}',
      // The app has a query of the name `list`.
      'call: file_list {}',
      'call: search {"text":"WEEK"}',
      'call: rename {"from":"notes/plan.md","to":"plan.md"}',
      'call: rename {"from":"plan.md","to":"app.json"}',
      'call: delete {"path":"plan.md"}',
      'call: delete {"path":"plan.md"}',
      'call: read {"path":"../secret.txt"}',
      'call: read {"path":5}',
    ];
    const events = await turns.run(`${steps.join('\nthen\n')}\nsay: done`, { mode: 'full', folder });
    finalOf(events);
    assert.deepEqual(
      eventsOf(events, 'tool.result').map(({ result, errorText }) => result ?? errorText),
      [
        'Written.',
        'Edited.',
        'by week',
        'app.json (14)\nnotes/plan.md (7)',
        'notes/plan.md:1: by week',
        'Renamed.',
        'There is a file of this name already; read it first.',
        'Deleted.',
        'The app has no file of this name in the workspace.',
        '../secret.txt is not in the draft.',
        '"path" must be a text.',
      ],
    );
    assert.deepEqual(readdirSync(folder, { recursive: true }), ['app.json'], 'empty folders go too');
    finalOf(await turns.run('say: done', { folder }));
    const names = place.stub.requests.at(-1)?.tools.map(({ name }) => name) ?? [];
    assert.ok(names.includes('add') && !names.includes('write'), names.join());
  });
}

function staysInBounds(runnerTest: RunnerTester): void {
  runnerTest('ends a turn whose model does nothing but call tools', async ({ turns }) => {
    const script = Array(LIMITS.modelSteps + 1)
      .fill('call: stats {}')
      .join('\nthen\n');
    const events = await turns.run(script);
    assert.equal(eventsOf(events, 'tool.result').length, LIMITS.modelSteps);
    assert.match(eventsOf(events, 'error')[0]?.message ?? '', /called tools 32 times/);
  });

  runnerTest('tries again what the server could not do at once', async ({ turns }) => {
    waited = [];
    const again = await turns.run('status: 500 1\nsay: now');
    assert.equal(finalOf(again), 'now');
    const told = { type: 'phase', phase: 'retrying' };
    const detail = (attempt: number) => `The model server answered 500: ${attempt} of 2.`;
    assert.deepEqual(eventsOf(again, 'phase'), [{ ...told, detail: detail(1) }]);
    assert.deepEqual(waited, [2000]);
    const failed = await turns.run('status: 500');
    assert.equal(eventsOf(failed, 'error').length, 1);
    assert.deepEqual(
      eventsOf(failed, 'phase'),
      [1, 2].map((attempt) => ({ ...told, detail: detail(attempt) })),
      'the last failure is not tried again',
    );
    assert.deepEqual(waited, [2000, 2000, 4000]);
  });

  runnerTest('says which file its model does not get', async ({ turns, place }) => {
    const attachments = [{ name: 'gone.txt', type: 'text/plain', path: join(place.folder, 'gone') }];
    const events = await turns.run('say: x', { attachments });
    assert.equal(finalOf(events), 'x');
    assert.match(eventsOf(events, 'phase')[0]?.detail ?? '', /does not get gone\.txt: .*ENOENT/);
  });

  runnerTest('says so when the tools of the app cannot be reached', async ({ turns }) => {
    const gateway = { ...turns.gateway, token: 'wrong' };
    const without = await turns.run('say: x', { gateway });
    assert.match(eventsOf(without, 'error')[0]?.message ?? '', /tools of the app cannot be reached/);
  });
}
