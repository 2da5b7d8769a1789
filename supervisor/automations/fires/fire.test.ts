// What a handler asks for while it runs: nodes, their batches and limits, ctx.state, ctx.runs, the log.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RunEvent, RunNode } from '../../../protocol/automations/runs.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { Redactor } from '../../../protocol/text/redactor.ts';
import { RunsWorld, type ScriptedCall, settle } from '../../../testing/scripted-runs.ts';
import type { Fire } from './fire.ts';
import type { ToolAnswer } from './fire-tools.ts';

const DIGEST = 'todos/digest';
const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;

/** Tools that answer when the test says so. */
class ScriptedTools {
  readonly asked: {
    name: string;
    args: unknown;
    answer(json: string, ok?: boolean): void;
    fail(error: Error): void;
  }[] = [];

  call = (_caller: unknown, name: string, args: unknown): Promise<ToolAnswer> =>
    new Promise((resolve, reject) => {
      const answer = (json: string, ok = true) => resolve({ json: Buffer.from(json), ok });
      this.asked.push({ name, args, answer, fail: reject });
    });
}

async function running(): Promise<{ world: RunsWorld; tools: ScriptedTools; handler: ScriptedCall; runId: string }> {
  const tools = new ScriptedTools();
  const world = new RunsWorld({ tools });
  world.add(DIGEST, { apps: ['ops'] });
  world.add('todos/other');
  world.add('ops/alarm');
  world.add('foreign/secret');
  const { run, handler } = await world.startCalled(DIGEST);
  return { world, tools, handler, runId: run.runId };
}

describe('nodes', () => {
  test('a call of a tool is reported at its start and end, recorded, and then answered', async () => {
    const { world, tools, handler, runId } = await running();
    const asked = handler.ask('tool', { name: 'svc_read', args: { app: 'todos' } });
    assert.deepEqual(world.types(runId), ['run.start', 'node.start']);
    tools.asked[0]?.answer('[1]');
    assert.deepEqual(await asked, [1]);
    const [node] = world.ledger.nodes;
    assert.deepEqual(
      [node?.ordinal, node?.kind, node?.name, node?.args, node?.output, node?.ok, node?.error],
      [1, 'tool', 'svc_read', { app: 'todos' }, [1], true, null],
    );
    assert.deepEqual(world.events.at(-1), { type: 'node.end', node });
  });

  test('requests of the thread are nodes; they count for no limit, and end with the run', async () => {
    const { world, tools, handler, runId } = await running();
    const first = await handler.ask('fetch', { method: 'GET', url: 'https://a.example/b' });
    assert.deepEqual(world.types(runId), ['run.start', 'node.start']);
    await handler.ask('fetched', { ordinal: first, status: 200 });
    await handler.ask('fetched', { ordinal: first, status: 500 });
    const second = await handler.ask('fetch', { method: 'PUT', url: `https://a.example/${'x'.repeat(500)}` });
    await handler.ask('fetched', { ordinal: second, error: { code: 'HOSTILE', message: 'no such name' } });
    for (let i = 0; i < LIMITS.runNodesAtOnce + 1; i++)
      await handler.ask('fetch', { method: 'GET', url: 'https://b.example/' });
    const asked = handler.ask('tool', { name: 'svc_read' });
    tools.asked[0]?.answer('1');
    assert.equal(await asked, 1);
    await assert.rejects(handler.ask('fetch', { method: 'GET' }), { code: 'BAD_REQUEST' });
    handler.returns();
    await settle();
    const [ok, failed, tool, open] = world.ledger.nodes;
    assert.deepEqual(
      [ok?.kind, ok?.name, ok?.output, ok?.ok],
      ['fetch', 'GET https://a.example/b', { status: 200 }, true],
    );
    assert.deepEqual([failed?.ok, failed?.error], [false, { code: 'HANDLER_ERROR', message: 'no such name' }]);
    assert.equal(failed?.name.length, 200);
    assert.deepEqual([tool?.name, open?.ok, open?.error?.code], ['svc_read', false, 'HANDLER_ERROR']);
    assert.equal(world.ledger.nodes.length, LIMITS.runNodesAtOnce + 4);
  });

  test('an answer that reports a failure is a node that is not ok', async () => {
    const { world, tools, handler } = await running();
    const asked = handler.ask('tool', { name: 'svc_write', args: {} });
    tools.asked[0]?.answer('{"status":404,"body":null}', false);
    assert.deepEqual(await asked, { status: 404, body: null });
    assert.deepEqual([world.ledger.nodes[0]?.ok, world.ledger.nodes[0]?.error], [false, null]);
  });

  test('secrets of the app are in no record and no event, and reach the tool and the handler', async () => {
    const KEY = 'sk_"live" 51';
    const tools = new ScriptedTools();
    const redactor = new Redactor();
    redactor.hide([['KEY', KEY]]);
    const world = new RunsWorld({ tools, secrets: { get: () => undefined, redactor: () => redactor } });
    world.add(DIGEST);
    const { handler } = await world.startCalled(DIGEST, { input: { [KEY]: KEY } });
    const asked = handler.ask('tool', { name: 'srv.call', args: { key: KEY } });
    assert.deepEqual(tools.asked[0]?.args, { key: KEY });
    tools.asked[0]?.answer(JSON.stringify({ said: KEY }));
    assert.deepEqual(await asked, { said: KEY });
    const refused = handler.ask('tool', { name: 'srv.call', args: {} });
    tools.asked[1]?.fail(new SvcError('TOOL_SERVER_FAILED', `no ${KEY}`));
    await assert.rejects(refused, { message: `no ${KEY}` });
    handler.returns({ output: KEY });
    await settle();
    const [node, failed] = world.ledger.nodes;
    assert.deepEqual([node?.args, node?.output], [{ key: '[secret KEY]' }, { said: '[secret KEY]' }]);
    assert.equal(failed?.error?.message, 'no [secret KEY]');
    assert.doesNotMatch(JSON.stringify([world.events, world.ledger.nodes, ...world.ledger.rows.values()]), /live/);
  });

  test('a tool that fails rejects with its code, and the run goes on', async () => {
    const { world, tools, handler } = await running();
    const asked = handler.ask('tool', { name: 'svc_read' });
    tools.asked[0]?.fail(new SvcError('UNKNOWN_APP', 'None.', { path: 'app' }));
    await assert.rejects(asked, { code: 'UNKNOWN_APP', message: 'None.', path: 'app' });
    assert.equal(world.ledger.nodes[0]?.error?.code, 'UNKNOWN_APP');
    handler.returns();
    await settle();
    assert.deepEqual(world.ledger.states(DIGEST), ['ok']);
  });

  test('errors that were not written for callers do not reach the handler', async () => {
    const { world, tools, handler } = await running();
    const asked = handler.ask('tool', { name: 'svc_read' });
    tools.asked[0]?.fail(new Error('/etc/secret is missing'));
    await assert.rejects(asked, (error: { code: string; message: string }) => {
      return error.code === 'INTERNAL' && !error.message.includes('/etc');
    });
    assert.equal(world.ledger.nodes[0]?.error?.code, 'INTERNAL');
  });

  test('calls under way together are one batch', async () => {
    const { world, tools, handler } = await running();
    const ask = () => handler.ask('tool', { name: 't' });
    const end = async (at: number) => {
      tools.asked[at]?.answer('1');
      await settle();
    };
    void ask();
    void ask();
    await end(0);
    void ask();
    await end(1);
    await end(2);
    void ask();
    await end(3);
    const batches = world.ledger.nodes.map(({ ordinal, batchId }) => [ordinal, batchId]);
    assert.deepEqual(batches, [
      [1, 1],
      [2, 1],
      [3, 1],
      [4, 2],
    ]);
  });

  test('as many as may are under way at a time', async () => {
    const { tools, handler } = await running();
    const ask = () => handler.ask('tool', { name: 't' });
    const all = Array.from({ length: LIMITS.runNodesAtOnce }, ask);
    await assert.rejects(ask(), { code: 'OVERLOADED' });
    for (const { answer } of tools.asked) answer('1');
    await Promise.all(all);
    void ask();
    assert.equal(tools.asked.length, LIMITS.runNodesAtOnce + 1);
  });

  test('as many as may are made by one run', async () => {
    const world = new RunsWorld();
    world.add(DIGEST);
    const { handler } = await world.startCalled(DIGEST);
    for (let i = 0; i < LIMITS.runNodes; i++) await handler.ask('tool', { name: 't' });
    await assert.rejects(handler.ask('tool', { name: 't' }), { code: 'OVERLOADED' });
    assert.equal(world.ledger.nodes.length, LIMITS.runNodes);
  });

  for (const how of ['returns', 'is cancelled'] as const) {
    test(`those that are under way when the run ${how} end before it does, once`, async () => {
      const { world, tools, handler, runId } = await running();
      const asked = handler.ask('tool', { name: 't' });
      if (how === 'returns') handler.returns();
      else await world.engine.cancel(runId);
      await settle();
      assert.deepEqual(world.types(runId), ['run.start', 'node.start', 'node.end', 'run.end']);
      assert.match(String(world.ledger.nodes[0]?.error?.message), /outcome is unknown/);
      tools.asked[0]?.answer('1');
      await asked;
      assert.equal(world.ledger.nodes.length, 1);
    });
  }

  test('a large output is answered whole and recorded cut', async () => {
    const { world, tools, handler } = await running();
    const asked = handler.ask('tool', { name: 't' });
    const large = 'x'.repeat(LIMITS.runValueBytes);
    tools.asked[0]?.answer(JSON.stringify(large));
    assert.equal(await asked, large);
    const [node] = world.ledger.nodes as [RunNode];
    const { cut, bytes } = node.output as { cut: boolean; bytes: number };
    assert.deepEqual([cut, bytes], [true, LIMITS.runValueBytes + 2]);
  });

  test('a deep output is answered whole and recorded as its text, which can be answered with again', async () => {
    const { world, tools, handler } = await running();
    const asked = handler.ask('tool', { name: 't' });
    const text = deep(LIMITS.jsonDepth + 1);
    tools.asked[0]?.answer(text);
    assert.equal(JSON.stringify(await asked), text);
    assert.deepEqual(world.ledger.nodes[0]?.output, { cut: true, bytes: text.length, head: text });
  });
});

describe('requests of a thread are checked', () => {
  for (const [what, verb, payload] of [
    ['no JSON', 'tool', '{'],
    ['no object', 'tool', '[1]'],
    ['a tool without a name', 'tool', '{}'],
    ['an agent without a prompt', 'agent', '{"prompt":""}'],
    ['json that is no boolean', 'agent', '{"prompt":"p","json":1}'],
    ['a filter that is none', 'runs.list', '{"filter":1}'],
    ['a ref that is none', 'runs.list', '{"filter":{"ref":"digest"}}'],
    ['a state that is none', 'runs.list', '{"filter":{"state":"good"}}'],
    ['a limit over the limit', 'runs.list', `{"filter":{"limit":${LIMITS.listRowsMax + 1}}}`],
    ['too deep', 'state.set', `{"key":"k","value":${deep(LIMITS.jsonDepth)}}`],
    ['too much', 'state.set', `{"key":"k","value":1,"more":"${'x'.repeat(LIMITS.askBytes)}"}`],
  ] as const) {
    test(what, async () => {
      const { handler } = await running();
      await assert.rejects((handler.call.reply as Fire).ask(verb, Buffer.from(payload)), { code: 'BAD_REQUEST' });
    });
  }
});

describe('ctx.state', () => {
  test('keeps values for the next run of the same automation', async () => {
    const { world, handler } = await running();
    assert.equal(await handler.ask('state.get', { key: 'cursor' }), undefined);
    await handler.ask('state.set', { key: 'cursor', value: { at: 3 } });
    assert.deepEqual(await handler.ask('state.get', { key: 'cursor' }), { at: 3 });
    assert.deepEqual([...world.ledger.values.keys()], ['todos/digest cursor']);
    await handler.ask('state.delete', { key: 'cursor' });
    assert.equal(await handler.ask('state.get', { key: 'cursor' }), undefined);
    assert.equal(world.ledger.nodes.length, 0, 'it makes no node');
  });
});

describe('ctx.runs', () => {
  test('gives the runs before this one, newest first', async () => {
    const { world, handler } = await running();
    handler.throws();
    await settle();
    const second = await world.startCalled(DIGEST);
    second.handler.returns();
    await second.ended;
    const third = await world.startCalled(DIGEST);
    const list = (filter?: object) => third.handler.ask('runs.list', { filter }) as Promise<{ state: string }[]>;
    assert.deepEqual(
      (await list()).map(({ state }) => state),
      ['ok', 'error'],
    );
    assert.equal((await list({ state: 'error', limit: 1 })).length, 1);
    assert.equal(((await third.handler.ask('runs.last', {})) as { state: string }).state, 'ok');
    assert.equal(await third.handler.ask('runs.last', { filter: { state: 'aborted' } }), null);
  });

  test('shows only those of its own app and of apps that it names', async () => {
    const { handler } = await running();
    for (const ref of ['todos/other', 'ops/alarm']) {
      assert.deepEqual(await handler.ask('runs.list', { filter: { ref } }), []);
    }
    await assert.rejects(handler.ask('runs.list', { filter: { ref: 'foreign/secret' } }), { code: 'TOOL_REFUSED' });
  });
});

test('a run whose result nests too deeply fails, and says so', async () => {
  const { world, handler, runId } = await running();
  handler.call.reply.result(
    200,
    Buffer.from(`{"output":${deep(LIMITS.jsonDepth)}}`),
    {
      queueMs: 0,
      handlerMs: 0,
      started: true,
    },
    null,
  );
  await settle();
  const { error = null } = world.ledger.rows.get(runId) ?? {};
  assert.equal(error?.code, 'HANDLER_ERROR');
  assert.match(String(error?.message), /nests deeper than 1000 levels/);
});

test('a log line that nests too deeply reaches the followers as text', async () => {
  const { world, handler } = await running();
  const line = `{"v":${deep(LIMITS.jsonDepth)}}`;
  (handler.call.reply as Fire).logged(line);
  assert.deepEqual(
    world.events.flatMap((event) => (event.type === 'log' ? [event.line] : [])),
    [line],
  );
});

test('log lines reach the followers of the run until it is over, their time in milliseconds', async () => {
  const { world, handler, runId } = await running();
  const fire = handler.call.reply as Fire;
  fire.logged('{"ts":"1970-01-01T00:00:01.000Z","msg":"one"}');
  fire.logged('not JSON');
  handler.returns();
  fire.logged('{"msg":"late"}');
  const lines = world.events.filter((event): event is RunEvent & { type: 'log' } => event.type === 'log');
  assert.deepEqual(
    lines.map(({ line }) => line),
    [{ ts: 1000, msg: 'one' }, 'not JSON'],
  );
  await settle();
  assert.deepEqual(world.types(runId), ['run.start', 'log', 'log', 'run.end']);
});
