/** `ctx.caller`: who calls a handler, for each way to call (specification, "Who calls"). */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, test } from 'node:test';
import type { MintedWebhook } from '../protocol/automations/automation.ts';
import { appOf } from '../testing/apps.ts';
import { say } from '../testing/chat.ts';
import { onEachEdge } from '../testing/edges.ts';
import { root, type TestGateway } from '../testing/gateway.ts';
import { enter, signIn } from '../testing/origins.ts';
import { ended, only, post, push, runsOf, runToEnd } from '../testing/runs.ts';

const WHO = '({ ctx }) => ctx.caller';
const SOURCE = {
  queries: {
    who: WHO,
    frozen: '({ ctx }) => Object.isFrozen(ctx.caller) && ctx.caller === ctx.caller && !("caller" in { ...ctx })',
  },
  actions: { who: '({ ctx }) => ({ body: ctx.caller })' },
  automations: {
    fired: `async ({ ctx }) => ({ output: [
      ctx.caller, Object.isFrozen(ctx.caller),
      await ctx.tool('svc_read', { app: 'calls', query: 'who' }),
      (await ctx.tool('svc_write', { app: 'calls', action: 'who' })).body,
    ] })`,
    hooked: {
      run: '({ ctx }) => ({ output: ctx.caller })',
      triggers: [{ kind: 'webhook', auth: 'bearer', pending: true }],
    },
  },
};
const stub = { kind: 'acp', command: [process.execPath, join(root, 'testing/stub-agent.mjs')] };

/** The caller that the query and the action of an app report. */
async function callersOf(call: (tool: string, body: object) => ReturnType<TestGateway['call']>): Promise<unknown[]> {
  const read = await call('svc_read', { app: 'calls', query: 'who' });
  const write = await call('svc_write', { app: 'calls', action: 'who' });
  return [read.json.data, write.json.data.body];
}

const twice = (caller: unknown) => [caller, caller];

onEachEdge({ config: { runners: { robot: stub } } }, (gateway, _edge, store) => {
  let hook: MintedWebhook;
  before(async () => {
    hook = only(await push(gateway, 'calls', SOURCE));
  });

  test('the administrator, a browser of the app, of the console, and of another app that may call it', async () => {
    const admin = await callersOf((tool, body) => gateway.call('POST', `/svc/_tool/${tool}`, { body }));
    assert.deepEqual(admin, twice({ kind: 'admin' }));
    assert.equal((await gateway.read('calls', 'frozen')).json.data, true);
    const friend = appOf('friend', { manifest: { uses: ['calls'] }, files: { 'index.html': '<title>A page</title>' } });
    assert.equal((await gateway.upload('friend', friend)).status, 201);
    const console = await signIn(gateway);
    const pages = [await enter(gateway, console, { app: 'calls' }), await enter(gateway, console, { app: 'friend' })];
    for (const origin of [console, ...pages]) {
      const session = await callersOf((tool, body) => origin.call('POST', `/svc/_tool/${tool}`, { body }));
      assert.deepEqual(session, twice({ kind: 'session' }), origin.host);
    }
  });

  test('a token for a program by its name, over HTTP and MCP', async () => {
    const made = await gateway.call('POST', '/svc/_tokens', { body: { name: 'Zäpier 3', tools: 'write' } });
    const { token } = made.json as { token: string };
    const called = await callersOf((tool, body) => gateway.call('POST', `/svc/_tool/${tool}`, { body, token }));
    assert.deepEqual(called, twice({ kind: 'token', name: 'Zäpier 3' }));
    for (const [path, name, args] of [
      ['/svc/calls/_mcp', 'query.who', {}],
      ['/svc/_mcp', 'svc_read', { app: 'calls', query: 'who' }],
    ] as const) {
      const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } };
      const headers = {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-protocol-version': '2025-06-18',
      };
      const answer = await gateway.call('POST', path, { body, token, headers });
      const [content] = answer.json.result.content;
      assert.deepEqual(JSON.parse(content.text), { kind: 'token', name: 'Zäpier 3' }, path);
    }
  });

  test('an automation by its ref, in its own handler and in the tools that it calls, regardless of what fired it', async () => {
    const automation = { kind: 'automation', name: 'calls/fired' };
    const { output } = await runToEnd(gateway, 'calls/fired');
    assert.deepEqual(output, [automation, true, automation, automation]);
    assert.equal((await post(gateway, hook, {})).status, 200);
    const [{ runId } = assert.fail()] = await runsOf(gateway, 'calls/hooked');
    assert.deepEqual((await ended(gateway, runId)).output, { kind: 'automation', name: 'calls/hooked' });
  });

  test('an agent by the name of its runner', async () => {
    const events = await say(gateway, 'calls', 'w1', 'call query.who {}\nsay {result}');
    const final = events.find(({ type }) => type === 'final');
    assert.match(String(final?.text), /"kind":"agent","name":"robot"/);
  });

  const gitTest = store === 'git' ? test : () => {};

  gitTest('a draft is called by the same', async () => {
    await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1', apps: ['calls'] } });
    const draft = await callersOf((tool, body) => gateway.call('POST', `/svc/_draft/s1/_tool/${tool}`, { body }));
    assert.deepEqual(draft, twice({ kind: 'admin' }));
  });
});
