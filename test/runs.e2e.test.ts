/** Handlers of automations that misbehave: each failure is recorded, and nothing else is affected. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { AppSource } from '../testing/apps.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import type { TestGateway } from '../testing/gateway.ts';
import { fire, NOTES, nodesOf, note, push, runOf, runToEnd, untilEvent } from '../testing/runs.ts';

/** Of the gateway whose handlers run into it. */
const TIMEOUT_MS = 1500;
const TIMED_OUT = /^"bad-[0-9]+" timed out after 1\.5 s/;
const NUMBERS = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };

/** A failure: the handler, further members of its manifest, the run's error, and how its only call ended. */
type Failure = {
  run: string;
  members?: Record<string, unknown>;
  message: RegExp;
  path?: string;
  node?: [name: string, code: string];
};

const FAILURES: Record<string, Failure> = {
  'throws an error': { run: 'throw new Error("no such thing");', message: /^no such thing$/ },
  'throws a text': { run: 'throw "just text";', message: /just text/ },
  'rejects with nothing': { run: 'return Promise.reject();', message: /./ },
  'never settles': { run: 'await new Promise(() => {});', message: TIMED_OUT },
  'loops without yielding': { run: 'for (;;);', message: TIMED_OUT },
  'floods the microtask queue': {
    run: 'const again = () => Promise.resolve().then(again); return again();',
    message: /memory|timed out/,
  },
  'ignores that its time is up': { run: 'for (;;) await new Promise((go) => setImmediate(go));', message: TIMED_OUT },
  exits: { run: 'process.exit(0);', message: /process is not defined/ },
  'allocates without end': {
    run: 'const all = []; for (;;) { all.push(new Array(1e5).fill(Math.random())); if (all.length % 50 === 0) await 0; }',
    message: /memory|timed out/,
  },
  'allocates outside of its heap': {
    run: 'const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1));',
    message: /memory|timed out/,
  },
  'throws later': {
    run: 'setTimeout(() => { throw new Error("late"); }, 1); await new Promise(() => {});',
    message: /late|ended|timed out/,
  },
  'returns a cycle': { run: 'const output = {}; output.self = output; return { output };', message: /circular/i },
  'returns a function': { run: 'return { output: { f: () => 1 } };', message: /function/, path: '/output/f' },
  'returns more than 1 MiB': { run: 'return { output: "x".repeat(1 << 20) };', message: /1048576/ },
  'returns an output that its schema does not allow': {
    run: 'return { output: { n: "many" } };',
    members: { outputSchema: NUMBERS },
    message: /integer/,
    path: '/n',
  },
  'returns nothing, although its schema requires an output': {
    run: 'return {};',
    members: { outputSchema: NUMBERS },
    message: /./,
    path: '',
  },
  'returns an output without a required member': {
    run: 'return { output: {} };',
    members: { outputSchema: NUMBERS },
    message: /\bn\b/,
    path: '',
  },
  'calls a tool that it may not': {
    run: note('bad', '"x"'),
    members: { requires: { tools: ['svc_read'] } },
    message: /"svc_write" is not in "requires\.tools"/,
    node: ['svc_write', 'TOOL_REFUSED'],
  },
  'calls an app that it does not name': {
    run: note('good', '"x"'),
    message: /may not use the app "good"/,
    node: ['svc_write', 'TOOL_REFUSED'],
  },
  'calls an unknown app': {
    run: note('nowhere', '"x"'),
    members: { apps: ['nowhere'] },
    message: /nowhere/,
    node: ['svc_write', 'UNKNOWN_APP'],
  },
  'calls an unknown tool': {
    run: 'await ctx.tool("svc_sing", {});',
    message: /no tool "svc_sing"/,
    node: ['svc_sing', 'UNKNOWN_TOOL'],
  },
  'calls an unknown MCP server': {
    run: 'await ctx.tool("git.push", {});',
    message: /"git"/,
    node: ['git.push', 'TOOL_SERVER_FAILED'],
  },
  'calls an action as a query': {
    run: 'await ctx.tool("svc_read", { app: "bad", query: "add" });',
    message: /add/,
    node: ['svc_read', 'WRONG_KIND'],
  },
  'asks an agent without a runner': {
    run: 'await ctx.agent({ prompt: "Hello" });',
    message: /There is no agent on this gateway/,
    node: ['agent', 'NO_RUNNER'],
  },
  'passes a value that is not JSON': {
    run: 'const a = {}; a.a = a; await ctx.tool("svc_read", a);',
    message: /circular|JSON/i,
  },
  'stores too much state': { run: 'await ctx.state.set("k", "x".repeat(300000));', message: /262144|large|KiB/i },
  'has no default function': { run: '', message: /function|export/ },
};

const good: AppSource = { ...NOTES, automations: { fine: '() => ({ summary: "fine" })' } };
const isTimed = ({ message }: Failure) => message.source.includes('timed out');

describe('a handler that until its time is up', () => {
  const gateway = gatewayOfSuite({ config: { actorMemoryMb: 32, automationTimeoutMs: TIMEOUT_MS } });
  failuresOf(gateway, true);

  test('looped until its time was up works the next time', async () => {
    const run = `async ({ input }) => { if (input === 'loop') for (;;); return { output: input }; }`;
    await push(gateway, 'again', { automations: { one: run } });
    for (const input of [1, 'loop', 2, 'loop', 3]) {
      if (input === 'loop') assert.equal((await runToEnd(gateway, 'again/one', input)).state, 'error');
      else await eventually(async () => (await runToEnd(gateway, 'again/one', input)).output === input);
    }
  });
});

/** An app whose automations are these failures, `bad-<n>` in their order, beside one without fault. */
function failuresOf(gateway: TestGateway, timed: boolean): void {
  const failures = Object.entries(FAILURES).filter(([, failure]) => isTimed(failure) === timed);
  const automations = failures.map(([, { run, members = {} }], n) => [
    `bad-${n}`,
    { ...members, run: run === '' ? "JSON.parse('7')" : `async ({ ctx, log, input }) => { ${run} }` },
  ]);
  before(async () => {
    await push(gateway, 'good', good);
    await push(gateway, 'bad', {
      ...NOTES,
      automations: { ...Object.fromEntries(automations), sibling: '() => ({ summary: "fine" })' },
    });
  });

  for (const [n, [name, { message, path, node }]] of failures.entries()) {
    test(`${name} fails its own run and nothing else`, async () => {
      const record = await runToEnd(gateway, `bad/bad-${n}`);
      const { state, error, startedAt, endedAt } = record;
      assert.equal(state, 'error');
      assert.ok(startedAt !== null && endedAt !== null && endedAt >= startedAt, 'its times are not right');
      assert.match(error?.message ?? '', message);
      if (path !== undefined) assert.equal(error?.path, path);
      assert.doesNotMatch(JSON.stringify(record), /\/tmp\/|\/work\/|node:|at .*:\d+:\d+/);
      const nodes = await nodesOf(gateway, record.runId);
      if (node)
        assert.deepEqual(
          nodes.map((one) => [one.name, one.ok, one.error?.code]),
          [[node[0], false, node[1]]],
        );
      const neighbours = [await gateway.read('bad', 'list'), await gateway.read('good', 'list')];
      assert.deepEqual(
        neighbours.map(({ json }) => json.data),
        [[], []],
      );
      // They have the same short time, which may also be too short for them on a busy machine.
      for (const ref of ['bad/sibling', 'good/fine'])
        await eventually(async () => (await runToEnd(gateway, ref)).summary === 'fine');
    });
  }
}

describe('a handler that', () => {
  const gateway = gatewayOfSuite({ config: { actorMemoryMb: 32 } });
  failuresOf(gateway, false);

  test('fails once works the next time', async () => {
    const run = `async ({ ctx, input }) => { if (input === 'throw') throw new Error('no'); return { output: input }; }`;
    await push(gateway, 'again', { automations: { one: run } });
    for (const input of ['throw', 1, 'throw', 2]) {
      const { state, output } = await runToEnd(gateway, 'again/one', input);
      assert.deepEqual([state, output], typeof input === 'number' ? ['ok', input] : ['error', null]);
    }
  });

  test('ends its thread repeatedly is the only one quarantined, until its app is restarted', async () => {
    const run = `async ({ input }) => { if (input === 'die') { setTimeout(() => { throw new Error('boom'); }); await new Promise(() => {}); } }`;
    await push(gateway, 'dies', { ...NOTES, automations: { one: run, two: '() => ({})' } });
    for (let n = 0; ; n++) {
      const { error } = await runToEnd(gateway, 'dies/one', 'die');
      if (error?.code === 'QUARANTINED') break;
      assert.equal(error?.code, 'HANDLER_ERROR');
      assert.ok(n < 100, 'it was never quarantined');
    }
    assert.deepEqual(
      [(await gateway.read('dies', 'list')).status, (await runToEnd(gateway, 'dies/two')).state],
      [200, 'ok'],
    );
    assert.equal((await runToEnd(gateway, 'dies/one')).error?.code, 'QUARANTINED');
    assert.equal((await gateway.call('POST', '/svc/_apps/dies/restart')).status, 200);
    assert.equal((await runToEnd(gateway, 'dies/one')).state, 'ok');
  });

  test('logs shows its lines in the run; returned values that are not objects count as none', async () => {
    const run = `async ({ log, input }) => { log.warn('careful', { n: 1 }); return input; }`;
    await push(gateway, 'says', { automations: { one: run } });
    // Followed from before the fire: lines of the log are told once, as they come.
    const stream = await gateway.stream('/svc/_runs/_events');
    for (const input of ['text', 7, [1], null, {}]) {
      const runId = await fire(gateway, 'says/one', input);
      const logged = await untilEvent(stream, (event) => event.type === 'log' && event.runId === runId);
      assert.equal((logged as { line: { msg: string } }).line.msg, 'careful');
      await untilEvent(stream, (event) => event.type === 'run.end' && event.run.runId === runId);
      const insights = (await gateway.call('GET', '/svc/_insights?days=1')).json;
      assert.ok(insights.totals.runs > 0 && insights.recent.some((run: { runId: string }) => run.runId === runId));
      assert.equal((await gateway.call('GET', '/svc/_insights?days=0')).json.error.path, 'days');
      const { state, summary, output } = await runOf(gateway, runId);
      assert.deepEqual({ state, summary, output }, { state: 'ok', summary: null, output: null });
      const lines = (await gateway.call('GET', '/svc/_logs?app=says')).json as { msg: string; runId: string }[];
      assert.ok(
        lines.some((line) => line.msg === 'careful' && line.runId === runId),
        'the log does not name the run',
      );
    }
  });

  test('catches the errors of its tools continues, and its run is ok', async () => {
    const run = `async ({ ctx }) => {
      try { await ctx.tool('svc_read', { app: 'good', query: 'list' }); } catch ({ code, message, path }) { return { output: { code, path, message } }; }
    }`;
    await push(gateway, 'catches', { automations: { one: run } });
    const { state, output } = await runToEnd(gateway, 'catches/one');
    assert.deepEqual(
      [state, (output as { code: string }).code, (output as { path: string }).path],
      ['ok', 'TOOL_REFUSED', 'app'],
    );
  });
});
