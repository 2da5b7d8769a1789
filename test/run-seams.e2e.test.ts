/** An embedding host replaces the gateway's parts that run automations (specification, "Extension points"). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ConversationRunner, HostFire } from '../supervisor/extension-points.ts';
import { buildGateway, type GatewayOptions } from '../supervisor/gateway.ts';
import { eventually } from '../testing/edges.ts';
import { TestGateway } from '../testing/gateway.ts';
import { ended, eventsOf, fire, NOTES, nodesOf, only, post, push, runOf, runsOf, runToEnd } from '../testing/runs.ts';

/** Of automations, where it matters; no other timer has it. */
const TIMEOUT_MS = 123_000;

/** A gateway inside this process, behind a server of the host's. */
async function hostWith(t: TestContext, options: Omit<GatewayOptions, 'dataDir'>): Promise<TestGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-host-'));
  const dataDir = join(folder, 'data');
  const built = buildGateway({ dataDir, auth: false, log: 'silent', edge: 'node', ...options });
  const server = createServer((request, response) => {
    if (!built.handle(request, response)) response.writeHead(404).end();
  });
  t.after(async () => {
    await built.stop(0);
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  await built.start();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const gateway = new TestGateway(dataDir, []);
  gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  built.setListening({ edge: 'node', url: gateway.url });
  return gateway;
}

test('fireAutomationFactory: the output is checked against the schema of the automation', async (t) => {
  const gateway = await hostWith(t, {
    fireAutomationFactory:
      () =>
      async ({ input }) => ({ summary: 'counted', output: input }),
  });
  const outputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
  await push(gateway, 'app', { ...NOTES, automations: { count: { outputSchema, run: '() => ({})' } } });
  const good = await runToEnd(gateway, 'app/count', { n: 1 });
  assert.deepEqual([good.state, good.summary, good.output], ['ok', 'counted', { n: 1 }]);
  for (const [input, path, message] of [
    [{ n: 'many' }, '/n', 'output/n must be integer'],
    [{}, '', "output must have required property 'n'"],
    [undefined, '', 'output must be object'],
  ] as const) {
    const { state, error } = await runToEnd(gateway, 'app/count', input);
    assert.deepEqual([state, error?.code, error?.path, error?.message], ['error', 'HANDLER_ERROR', path, message]);
  }
});

test('fireAutomationFactory runs every fire instead of our threads, with the same ctx and the same records', async (t) => {
  const made: (string | null)[] = [];
  const fires: HostFire[] = [];
  // The gateway runs in this process: the ends of the time of its fires come when the test says so.
  const ends: (() => void)[] = [];
  const { setTimeout: later } = globalThis;
  t.mock.method(globalThis, 'setTimeout', (end: (...given: unknown[]) => void, ms?: number, ...given: unknown[]) => {
    if (ms !== TIMEOUT_MS) return later(end, ms, ...given);
    ends.push(end);
    return later(() => {}, 0);
  });
  const aborted: string[] = [];
  const gateway = await hostWith(t, {
    automationTimeoutMs: TIMEOUT_MS,
    fireAutomationFactory: ({ baseUrl }) => {
      made.push(baseUrl);
      return async (given) => {
        fires.push(given);
        const { ctx, input, log, signal, automationRef, runId } = given;
        signal.addEventListener('abort', () => aborted.push(runId));
        if (automationRef === 'app/alarm') return { summary: (input as { error: { message: string } }).error.message };
        if (input === 'throw') throw new Error('the host is tired');
        if (input === 'hang') await new Promise(() => {});
        if (input === 'refused') await ctx.tool('svc_read', { app: 'other', query: 'list' });
        log.info('on the host', { n: 1 });
        await ctx.state.set('last', runId);
        await ctx.tool('svc_write', { app: 'app', action: 'add', input: { text: String(input) } });
        const list = await ctx.tool('svc_read', { app: 'app', query: 'list' });
        return {
          summary: 'done',
          output: { list, last: await ctx.state.get('last'), runs: (await ctx.runs.list()).length },
        };
      };
    },
  });
  const triggers = [{ kind: 'webhook', pending: true }];
  const hook = only(
    await push(gateway, 'app', {
      ...NOTES,
      automations: {
        one: { triggers, onFailure: 'alarm', run: '() => { throw new Error("not here"); }' },
        alarm: '() => ({})',
      },
    }),
  );
  assert.deepEqual(made, []);
  const changes = await gateway.stream('/svc/app/_changes');
  const { runId } = (await post(gateway, hook, 'hello')).json;
  const { state, summary, output } = await runOf(gateway, runId);
  assert.deepEqual([state, summary, output], ['ok', 'done', { list: ['hello'], last: runId, runs: 0 }]);
  assert.deepEqual([fires[0]?.runId, fires[0]?.automationRef, fires[0]?.input], [runId, 'app/one', 'hello']);
  assert.equal(JSON.parse((await changes.next()).data).source, 'automation');
  changes.close();
  assert.deepEqual(
    (await nodesOf(gateway, runId)).map(({ name, ok }) => [name, ok]),
    [
      ['svc_write', true],
      ['svc_read', true],
    ],
  );
  assert.ok((await gateway.call('GET', '/svc/_logs?app=app')).text.includes('on the host'), 'the log is lost');

  for (const [input, message] of [
    ['throw', /^the host is tired$/],
    ['hang', /timed out after 123 s/],
    ['refused', /may not use the app "other"/],
  ] as const) {
    const runId = await fire(gateway, 'app/one', input);
    if (input === 'hang') {
      await eventually(() => fires.some((given) => given.runId === runId));
      ends.at(-1)?.();
    }
    const failed = await ended(gateway, runId);
    assert.match(failed.error?.message ?? '', message);
    await eventually(async () =>
      (await runsOf(gateway, 'app/alarm', '&state=ok')).some(
        ({ parentRunId, summary: told }) => parentRunId === failed.runId && told === failed.error?.message,
      ),
    );
  }
  const cancelled = await fire(gateway, 'app/one', 'hang');
  await eventually(() => fires.some((given) => given.runId === cancelled));
  assert.equal((await gateway.call('POST', `/svc/_runs/${cancelled}/cancel`)).json.state, 'aborted');
  assert.ok(aborted.includes(cancelled), 'the host was not told');
  assert.deepEqual(made, [gateway.url]);
  assert.ok(!JSON.stringify(await gateway.system()).includes('app/one'), 'a thread was started all the same');
});

test('conversationRunner answers ctx.agent: its text, its JSON, its usage and its failures', async (t) => {
  const turns: Parameters<ConversationRunner>[0][] = [];
  const gateway = await hostWith(t, {
    conversationRunner: async function* (turn) {
      turns.push(turn);
      yield { type: 'assistant.start' };
      for (const delta of ['{"an', 'swer":42}']) yield { type: 'assistant.delta', delta };
      yield { type: 'usage', model: 'host/large', inputTokens: 7, outputTokens: 3, costUsd: 0.5 };
      if (turn.message === 'fail') yield { type: 'error', code: 'X', message: 'overloaded' };
      if (turn.message === 'throw') throw new Error('broken');
      if (turn.message === 'hang') await once(turn.signal, 'abort');
      yield { type: 'end' };
    },
  });
  await push(gateway, 'app', {
    automations: {
      asks: {
        requires: { model: 'host/small' },
        run: 'async ({ ctx, input }) => ({ output: { text: await ctx.agent({ prompt: input }), value: await ctx.agent({ prompt: input, json: true }) } })',
      },
    },
  });
  const runId = await fire(gateway, 'app/asks', 'Which?');
  const events = await eventsOf(gateway, runId);
  const run = await ended(gateway, runId);
  assert.deepEqual([run.state, run.output], ['ok', { text: '{"answer":42}', value: { answer: 42 } }]);
  assert.deepEqual([run.usage.inputTokens, run.usage.outputTokens, run.usage.costUsd], [14, 6, 1]);
  assert.deepEqual(
    turns.map(({ app, model, run: asking }) => [app, model, asking?.runId]),
    Array(2).fill(['app', 'host/small', runId]),
  );
  const nodes = await nodesOf(gateway, runId);
  assert.deepEqual(
    nodes.map(({ kind, name, ok, usage }) => [kind, name, ok, usage.inputTokens]),
    Array(2).fill(['agent', 'host/small', true, 7]),
  );
  const types = events.map(({ type }) => type);
  assert.deepEqual([types[0], types.at(-1)], ['run.start', 'run.end']);
  for (const [input, message] of [
    ['fail', /^The agent failed: overloaded\.$/],
    ['throw', /^The agent failed: broken\.$/],
  ] as const) {
    const failed = await runToEnd(gateway, 'app/asks', input);
    assert.deepEqual([failed.state, failed.usage.inputTokens], ['error', 7]);
    assert.match(failed.error?.message ?? '', message);
    assert.equal((await nodesOf(gateway, failed.runId))[0]?.error?.code, 'AGENT_FAILED');
  }
  const hanging = await fire(gateway, 'app/asks', 'hang');
  await eventually(() => turns.at(-1)?.message === 'hang');
  assert.equal((await gateway.call('POST', `/svc/_runs/${hanging}/cancel`)).json.state, 'aborted');
  assert.equal(turns.at(-1)?.signal.aborted, true);
});
