// ctx.agent: what a runner's events become, and every way in which its turn ends.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Usage } from '../../../protocol/automations/runs.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { RunsWorld, settle } from '../../../testing/scripted-runs.ts';
import type { ConversationRunner } from '../../extension-points.ts';
import { askAgent, type PermissionDecision } from './fire-agents.ts';

type Event = { type: string; [member: string]: unknown };

const says = (...events: Event[]): ConversationRunner =>
  async function* () {
    yield* events;
  };

function ask(runner: ConversationRunner, more: { json?: boolean; signal?: AbortSignal; tools?: string[] } = {}) {
  const deltas: string[] = [];
  const usage: (Partial<Usage> & { model?: string })[] = [];
  const decisions: PermissionDecision[] = [];
  const answer = askAgent(runner, {
    app: 'todos',
    automationRef: 'todos/digest',
    runId: '0190-run',
    ordinal: 3,
    prompt: 'Sum up.',
    json: more.json ?? false,
    model: 'house/best',
    tools: more.tools,
    signal: more.signal ?? new AbortController().signal,
    onDelta: (delta) => deltas.push(delta),
    onUsage: (used, model) => usage.push(model === null ? used : { ...used, model }),
    onPermission: (decision) => decisions.push(decision),
  });
  return { answer, deltas, usage, decisions };
}

describe('the answer of an agent', () => {
  test('is the text of final, and its deltas are passed on', async () => {
    const { answer, deltas } = ask(
      says(
        { type: 'assistant.start' },
        { type: 'assistant.delta', delta: 'Thr' },
        { type: 'assistant.delta', delta: 'ee' },
        { type: 'final', text: 'Three.' },
        { type: 'end' },
        { type: 'final', text: 'too late' },
      ),
    );
    assert.equal(await answer, 'Three.');
    assert.deepEqual(deltas, ['Thr', 'ee']);
  });

  test('is all deltas where there is no final', async () => {
    const { answer } = ask(says({ type: 'assistant.delta', delta: 'a' }, { type: 'assistant.delta', delta: 'b' }));
    assert.equal(await answer, 'ab');
  });

  for (const text of ['{"n":1}', ' ```json\n{"n":1}\n```\n', '```\n{"n":1}\n```']) {
    test(`with json is the value of ${JSON.stringify(text)}`, async () => {
      assert.deepEqual(await ask(says({ type: 'final', text }), { json: true }).answer, { n: 1 });
    });
  }

  test('with json is scanned once, with any content', async () => {
    // Looking for fences in this by trial and error would take the rest of the day.
    const text = `\`\`\`json${'\n'.repeat(LIMITS.agentTextChars - 8)}`;
    const { answer } = ask(says({ type: 'final', text }), { json: true });
    await assert.rejects(answer, { code: 'AGENT_FAILED' });
  });

  test('with json may not nest too deeply', async () => {
    const text = `${'['.repeat(LIMITS.jsonDepth + 1)}${']'.repeat(LIMITS.jsonDepth + 1)}`;
    const { answer } = ask(says({ type: 'final', text }), { json: true });
    await assert.rejects(answer, { code: 'AGENT_FAILED', message: /nests deeper/ });
  });

  test('with json must be JSON', async () => {
    const { answer } = ask(says({ type: 'final', text: 'Here you are: 1' }), { json: true });
    await assert.rejects(answer, { code: 'AGENT_FAILED', message: /did not answer with JSON/ });
  });

  test('has a limit', async () => {
    const half = 'x'.repeat(LIMITS.agentTextChars / 2 + 1);
    const events = [1, 2].map(() => ({ type: 'assistant.delta', delta: half }));
    await assert.rejects(ask(says(...events)).answer, { code: 'AGENT_FAILED' });
  });
});

describe('a runner', () => {
  test('gets the automation, the model and a new window', async () => {
    const turns: object[] = [];
    const runner: ConversationRunner = (turn) => {
      const { answer: _answer, ...told } = turn;
      turns.push(told);
      return says({ type: 'final', text: '' })(turn);
    };
    const { signal } = new AbortController();
    await ask(runner, { signal, tools: ['svc_read'] }).answer;
    assert.deepEqual(turns, [
      {
        app: 'todos',
        windowId: '0190-run-3',
        message: 'Sum up.',
        model: 'house/best',
        run: { runId: '0190-run', automationRef: 'todos/digest', tools: ['svc_read'] },
        signal,
      },
    ]);
  });

  test('reports usage; invalid values are not counted', async () => {
    const { answer, usage } = ask(
      says(
        { type: 'usage', model: 'm', inputTokens: 10, costUsd: 0.5 },
        { type: 'usage', inputTokens: -1, outputTokens: 'many' },
      ),
    );
    await answer;
    assert.deepEqual(usage, [{ inputTokens: 10, costUsd: 0.5, model: 'm' }, {}]);
  });

  for (const [what, runner, message] of [
    ['an error', says({ type: 'error', code: 'X', message: 'No credit.' }), 'The agent failed: No credit.'],
    ['an abort', says({ type: 'aborted' }), 'The agent failed: it was aborted.'],
    [
      'a throw in its turn',
      // biome-ignore lint/correctness/useYield: it fails before its first event
      async function* () {
        throw new Error('broken pipe');
      },
      'The agent failed: broken pipe.',
    ],
    [
      'a throw when it is called',
      () => {
        throw new Error('not ready');
      },
      'The agent failed: not ready.',
    ],
  ] as [string, ConversationRunner, string][]) {
    test(`that ends with ${what} is AGENT_FAILED`, async () => {
      await assert.rejects(ask(runner).answer, { code: 'AGENT_FAILED', message });
    });
  }

  test('that does not react to an abort is not waited for', async () => {
    const controller = new AbortController();
    const runner: ConversationRunner = async function* () {
      yield { type: 'assistant.delta', delta: 'a' };
      await new Promise(() => {});
    };
    const { answer } = ask(runner, { signal: controller.signal });
    await settle();
    const over = new SvcError('RUN_ABORTED', 'The run has ended.');
    controller.abort(over);
    await assert.rejects(answer, over);
    await assert.rejects(ask(runner, { signal: controller.signal }).answer, over);
  });

  test('keeps its own code', async () => {
    const none = (): never => {
      throw new SvcError('NO_RUNNER', 'There is no agent.');
    };
    await assert.rejects(ask(none).answer, { code: 'NO_RUNNER' });
  });
});

describe('permissions that an agent of an automation asks for', () => {
  const OPTIONS = [
    { optionId: 'a', kind: 'allow_always', label: 'Always' },
    { optionId: 'b', kind: 'allow_once', label: 'Once' },
    { optionId: 'c', kind: 'reject_once', label: 'No' },
  ];
  const request = (requestId: string, toolName: unknown, options: unknown = OPTIONS) => ({
    type: 'permission',
    requestId,
    toolName,
    detail: 'x',
    options,
  });

  test('is allowed once where requires.tools names it, and denied otherwise', async () => {
    const answers: unknown[] = [];
    const runner: ConversationRunner = async function* ({ answer }) {
      for (const [id, tool, options] of [
        ['1', 'Fetch', OPTIONS],
        ['2', 'Bash', OPTIONS],
        ['3', 'Fetch', []],
        ['4', 7, [null, { kind: 'reject_once' }]],
        ['5', 'Bash', 'none'],
      ] as const) {
        // Asked before its event is read, as our own runner does.
        const asked = answer?.(id);
        yield request(id, tool, options);
        answers.push(await asked, await answer?.(id));
      }
      yield { type: 'final', text: 'done' };
    };
    const asked = ask(runner, { tools: ['svc_read', 'Fetch'] });
    assert.equal(await asked.answer, 'done');
    assert.deepEqual(answers, ['b', 'b', 'c', 'c', ...Array(6).fill(null)]);
    assert.deepEqual(
      asked.decisions.map(({ toolName, optionId, ok }) => [toolName, optionId, ok]),
      [
        ['Fetch', 'b', true],
        ['Bash', 'c', false],
        ['Fetch', null, false],
        ['tool', null, false],
        ['Bash', null, false],
      ],
    );
  });

  test('is reported once, with its runner’s answer', async () => {
    const asked = ask(
      says(
        { ...request('1', 'Fetch'), optionId: 'c' },
        request('1', 'Fetch'),
        { ...request('2', 'Bash'), optionId: 'a' },
        { ...request('3', 'Bash'), optionId: 'unknown' },
      ),
      { tools: ['Fetch'] },
    );
    await asked.answer;
    assert.deepEqual(asked.decisions, [
      { toolName: 'Fetch', detail: 'x', optionId: 'c', ok: false },
      { toolName: 'Bash', detail: 'x', optionId: 'a', ok: true },
      { toolName: 'Bash', detail: 'x', optionId: null, ok: false },
    ]);
  });

  test('is a node of the run, granted or not', async () => {
    const runner = says(request('1', 'Fetch'), request('2', 'Bash'), { type: 'final', text: 'done' });
    const world = new RunsWorld({ runner });
    world.add('todos/digest', { requires: { tools: ['Fetch'] } });
    const { run, ended, handler } = await world.startCalled('todos/digest');
    await handler.ask('agent', { prompt: 'p' });
    handler.returns();
    await ended;
    assert.deepEqual(
      world.ledger.nodes.map(({ ordinal, batchId, kind, name, args, output, ok, error }) => {
        return [ordinal, batchId, kind, name, args, output, ok, error?.code];
      }),
      [
        [2, 1, 'permission', 'Fetch', { detail: 'x' }, { optionId: 'b' }, true, undefined],
        [3, 1, 'permission', 'Bash', { detail: 'x' }, { optionId: 'c' }, false, 'FORBIDDEN'],
        [1, 1, 'agent', 'agent', { prompt: 'p', json: false }, 'done', true, undefined],
      ],
    );
    const types = ['node.start', 'node.start', 'node.end', 'node.start', 'node.end', 'node.end'];
    assert.deepEqual(world.types(run.runId).slice(1, 7), types);
  });

  test('is denied without requires.tools', async () => {
    let answered: unknown;
    const runner: ConversationRunner = async function* ({ answer, run }) {
      assert.deepEqual(run, { runId: '0190-run', automationRef: 'todos/digest' });
      yield request('1', 'Fetch');
      answered = await answer?.('1');
    };
    await ask(runner).answer;
    assert.equal(answered, 'c');
  });
});

test('an agent in a run is a node with deltas and usage, which the run adds up', async () => {
  const runner = says(
    { type: 'assistant.delta', delta: 'ok' },
    { type: 'usage', inputTokens: 7, costUsd: 0.25 },
    { type: 'final', text: '[1]' },
  );
  const world = new RunsWorld({ runner });
  world.add('todos/digest', { requires: { model: 'house/best' } });
  const { run, ended, handler } = await world.startCalled('todos/digest');
  assert.deepEqual(await handler.ask('agent', { prompt: 'p', json: true }), [1]);
  await handler.ask('agent', { prompt: 'p' });
  handler.returns();
  const { usage } = await ended;
  assert.deepEqual([usage.inputTokens, usage.costUsd, usage.outputTokens], [14, 0.5, 0]);
  assert.deepEqual(world.ledger.models, ['house/best']);
  const [node] = world.ledger.nodes;
  assert.deepEqual([node?.kind, node?.name, node?.usage.inputTokens], ['agent', 'house/best', 7]);
  assert.deepEqual(world.types(run.runId).slice(0, 4), ['run.start', 'node.start', 'node.delta', 'node.end']);
});

test('an agent without a runner is a node that failed', async () => {
  const world = new RunsWorld();
  world.add('todos/digest');
  const { handler } = await world.startCalled('todos/digest');
  await assert.rejects(handler.ask('agent', { prompt: 'p' }), { code: 'NO_RUNNER' });
  assert.equal(world.ledger.nodes[0]?.error?.code, 'NO_RUNNER');
});
