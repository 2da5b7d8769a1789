// An automation's handler in a real thread of a real host: what it gets, what it asks, and every way in which it ends.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { ToolKind } from '../../protocol/wire/frames.ts';
import { type App, FakeSupervisor, failure } from '../../testing/fake-supervisor.ts';

let supervisor: FakeSupervisor;
let app: App;

/** A thread for an automation with this handler. */
function start(
  body: string,
  { validators = '', files = {} }: { validators?: string; files?: Record<string, string> } = {},
) {
  const handler = `export default async ({ ctx, log, input, request, automation }) => { ${body} };`;
  const source = { files: { 'automations/digest/handler.js': handler, ...files }, validators };
  return supervisor.app(source, { automation: 'digest', writerTicket: '', maxResultBytes: 100_000 });
}

before(async () => {
  supervisor = await FakeSupervisor.start();
});
after(() => supervisor.close());

describe('a handler gets', () => {
  test('ctx, log, input and automation, and the time of its run', async () => {
    const args = `
      return { output: {
        args: Object.keys(arguments[0]), ctx: Object.keys(ctx), state: Object.keys(ctx.state), runs: Object.keys(ctx.runs),
        now: ctx.now, input, same: ctx.input === input, automation, frozen: Object.isFrozen(automation),
        aborted: ctx.signal.aborted, log: Object.keys(log) } };`;
    app = await start('', {
      files: {
        'automations/digest/handler.js': `export default async function (args) { const { ctx, log, input, automation } = args; ${args} }`,
      },
    });
    const { status, value } = await app.fire({ runId: 'r', now: 1_234_567_890_123, input: { a: [1] } });
    assert.equal(status, 200);
    assert.deepEqual((value as { output: unknown }).output, {
      args: ['ctx', 'log', 'input', 'request', 'automation'],
      ctx: [
        ...[
          'tool',
          'agent',
          'state',
          'runs',
          'notify',
          'input',
          'fetch',
          'secrets',
          'blobs',
          'signal',
          'caller',
          'user',
          'now',
        ],
      ],
      state: ['get', 'set', 'delete'],
      runs: ['last', 'list'],
      now: 1_234_567_890_123,
      input: { a: [1] },
      same: true,
      automation: { ref: `${app.spec.app}/digest`, id: 'digest', name: 'Test', version: '1.0.0' },
      frozen: true,
      aborted: false,
      log: ['debug', 'info', 'warn', 'error'],
    });
  });

  test('undefined where there is no input, null where it is null, and the same thread for the next fire', async () => {
    app = await start('globalThis.fires = (globalThis.fires ?? 0) + 1; return { summary: fires + ": " + input };');
    assert.deepEqual((await app.fire()).value, { summary: '1: undefined' });
    assert.deepEqual((await app.fire({ input: null })).value, { summary: '2: null' });
  });

  test('a webhook’s handler gets the request, other handlers get none', async () => {
    app = await start('return { output: [request] };');
    const request = { headers: { a: 'b' }, contentType: 'text/plain', rawBody: ' {}' };
    assert.deepEqual((await app.fire({ request })).value, { output: [request] });
    assert.deepEqual((await app.fire()).value, { output: [null] });
  });

  test('files of its app to import, and no built-in module, process, or fetch but that of ctx', async () => {
    app = await start(
      `let builtin; try { await import('node:fs'); } catch (error) { builtin = error.message; }
       const { word } = await import('../../lib/word.js');
       return { output: { word, builtin, globals: [typeof process, typeof require, typeof fetch, typeof ctx.fetch],
         file: await ctx.fetch('file:///etc/passwd').catch((error) => error.message) } };`,
      { files: { 'lib/word.js': `export const word = 'shared';` } },
    );
    const { output } = (await app.fire()).value as { output: Record<string, unknown> };
    assert.equal(output.word, 'shared');
    assert.match(String(output.builtin), /cannot import Node built-ins/);
    assert.deepEqual(output.globals, ['undefined', 'undefined', 'undefined', 'function']);
    assert.match(String(output.file), /takes http and https addresses/);
  });

  test('a log whose lines carry the run, and go to its followers', async () => {
    app = await start(`log.info('hello', { n: 1, runId: 'mine' }); throw new Error('no good');`);
    await failure(app.fire({ runId: 'run-of-the-log' }));
    const line = await app.log(({ msg }) => msg === 'hello');
    assert.deepEqual([line.runId, line._runId, line.tool, line.n], ['run-of-the-log', 'mine', 'digest', 1]);
    const report = await app.log(({ msg }) => msg === 'no good');
    assert.deepEqual([report.runId, report.level], ['run-of-the-log', 'error']);
    assert.deepEqual(app.logCalls, [app.lastCall, app.lastCall]);
  });
});

describe('what a handler asks', () => {
  /** Call of a member of `ctx` → what the supervisor is asked. */
  const ASKED: [call: string, verb: string, payload: unknown][] = [
    [
      `ctx.tool('svc_read', { app: 'todos', query: 'list' })`,
      'tool',
      { name: 'svc_read', args: { app: 'todos', query: 'list' } },
    ],
    [`ctx.tool('svc_describe')`, 'tool', { name: 'svc_describe' }],
    [`ctx.agent({ prompt: 'Say hello', json: true, more: 1 })`, 'agent', { prompt: 'Say hello', json: true }],
    ['ctx.agent()', 'agent', {}],
    [`ctx.state.get('k')`, 'state.get', { key: 'k' }],
    [`ctx.state.set('k', { n: 1 })`, 'state.set', { key: 'k', value: { n: 1 } }],
    [`ctx.state.set('k', undefined)`, 'state.set', { key: 'k' }],
    [`ctx.state.delete('k')`, 'state.delete', { key: 'k' }],
    ['ctx.runs.last()', 'runs.last', {}],
    [`ctx.runs.list({ state: 'error', limit: 2 })`, 'runs.list', { filter: { state: 'error', limit: 2 } }],
  ];
  for (const [call, verb, payload] of ASKED) {
    test(`${call} resolves with the answer, and rejects with its code`, async () => {
      app = await start(`
        const first = await ${call};
        const second = await ${call}.catch(({ code, message, path, stack }) => ({ code, message, path, here: /handler\\.js/.test(stack) }));
        const third = await ${call};
        return { output: { first, second, third: String(third) } };`);
      const done = app.fire();
      (await app.asked(0)).answer({ x: 1 });
      (await app.asked(1)).refuse({ code: 'TOOL_REFUSED', message: 'Not allowed.', path: 'requires.tools' });
      (await app.asked(2)).answer(undefined);
      const second = { code: 'TOOL_REFUSED', message: 'Not allowed.', path: 'requires.tools', here: true };
      assert.deepEqual((await done).value, { output: { first: { x: 1 }, second, third: 'undefined' } });
      for (const ask of app.asks) assert.deepEqual([ask.verb, ask.payload, ask.callId], [verb, payload, app.lastCall]);
    });
  }

  test('an error that the handler lets through ends the run with its message', async () => {
    app = await start(`await ctx.agent({ prompt: 'x' });`);
    app.onAsk = (ask) => ask.refuse({ code: 'NO_RUNNER', message: 'No agent runner is configured.' });
    assert.deepEqual(await failure(app.fire()), { code: 'HANDLER_ERROR', message: 'No agent runner is configured.' });
  });

  test('waits its turn when there is too much of it, and is answered in any order', async () => {
    const count = 2 * LIMITS.runNodesAtOnce + 5;
    app = await start(
      `return { output: await Promise.all(Array.from({ length: ${count} }, (_, i) => ctx.state.get(String(i)))) };`,
    );
    const done = app.fire();
    await app.asked(LIMITS.runNodesAtOnce - 1);
    // Whatever else it had sent would have come before the answer to this.
    await app.ping();
    assert.equal(app.asks.length, LIMITS.runNodesAtOnce);
    const keyOf = (payload: unknown): number => Number((payload as { key: string }).key);
    app.onAsk = ({ payload, answer }) => answer(keyOf(payload));
    for (const { payload, answer } of app.asks.toReversed()) answer(keyOf(payload));
    assert.deepEqual((await done).value, { output: Array.from({ length: count }, (_, i) => i) });
  });

  test('is refused in the thread when JSON cannot say it, or it is too large', async () => {
    app = await start(`
      const ask = (value) => ctx.state.set('k', value).catch(({ code, message }) => [code, message]);
      const circle = {}; circle.self = circle;
      return { output: [await ask(() => 1), (await ask(circle))[0], await ask('x'.repeat(${LIMITS.askBytes}))] };`);
    assert.deepEqual((await app.fire()).value, {
      output: [
        ['INVALID_INPUT', 'What ctx.state.set was given cannot be sent as JSON: it contains a function at /value.'],
        'INVALID_INPUT',
        ['INVALID_INPUT', `What ctx.state.set was given is over the limit of ${LIMITS.askBytes} bytes.`],
      ],
    });
    assert.deepEqual(app.asks, []);
  });

  test('is waited for, also when the handler does not', async () => {
    app = await start(`
      ctx.state.get('a').then((value) => ctx.state.set('b', value)).then(() => log.info('all done'));
      return { summary: 'returned' };`);
    const done = app.fire();
    (await app.asked(0)).answer(7);
    (await app.asked(1)).answer();
    assert.deepEqual((await done).value, { summary: 'returned' });
    assert.deepEqual(
      app.logs.map(({ msg }) => msg),
      ['all done'],
    );
  });

  test('is refused once the run has ended, and a late answer reaches no later run', async () => {
    app = await start(`
      globalThis.asks ??= [];
      const late = await Promise.all(asks.map((ask) => ask().catch((error) => error.message)));
      asks.push(() => ctx.state.get('late'));
      if (input) { ctx.state.get('open').catch(() => {}); throw new Error('thrown'); }
      return { output: { late, own: await ctx.state.get('own') } };`);
    await failure(app.fire({ input: 1 }));
    const done = app.fire();
    (await app.asked(0)).answer('of the run before');
    (await app.asked(1)).answer('own');
    assert.deepEqual((await done).value, {
      output: { late: ['The run has ended: its ctx can no longer be used.'], own: 'own' },
    });
    assert.deepEqual(
      app.asks.map(({ payload }) => payload),
      [{ key: 'open' }, { key: 'own' }],
    );
  });

  for (const [reason, message] of [
    ['deadline', 'The call was cancelled: its time is up.'],
    ['cancelled', 'The call was cancelled: it is not wanted any more.'],
  ] as const) {
    test(`is let go when the run ends before its answer: ${reason}`, async () => {
      app = await start(`
        ctx.signal.addEventListener('abort', () => log.info('aborted'));
        const waiting = await ctx.agent({ prompt: 'x' }).catch((error) => error.message);
        log.info('let go', { waiting, later: await ctx.state.get('k').catch((error) => error.message) });
        return {};`);
      const done = app.fire();
      await app.asked(0);
      app.cancel(app.lastCall, reason);
      const line = await app.log(({ msg }) => msg === 'let go');
      assert.deepEqual([line.waiting, line.later, app.logs[0]?.msg], [message, message, 'aborted']);
      assert.ok(await done, 'the run left its place');
      assert.equal(app.asks.length, 1);
    });
  }
});

describe('what a handler returns', () => {
  for (const [returned, value] of [
    ['undefined', {}],
    ['null', {}],
    ['5', {}],
    ['[1]', {}],
    ['new Date()', {}],
    ['{ other: 1 }', {}],
    [`{ summary: 'two sent', output: { n: 2 }, more: 1 }`, { summary: 'two sent', output: { n: 2 } }],
    ['{ summary: 5 }', {}],
    [`{ response: { status: 204 }, output: 1 }`, { output: 1, response: { status: 204 } }],
    ['{ summary: null, output: 1 }', { output: 1 }],
    ['{ summary: new Map() }', {}],
    ['{ output: null }', { output: null }],
    ['{ output: new Date(0) }', { output: '1970-01-01T00:00:00.000Z' }],
  ] as const) {
    test(returned, async () => {
      app = await start(`return ${returned};`);
      assert.deepEqual((await app.fire()).value, value);
    });
  }

  for (const [returned, message] of [
    ['{ output: Symbol() }', /it contains a symbol at \/output/],
    ['{ output: () => 1 }', /cannot be sent as JSON: it contains a function at \/output/],
    ['{ get output() { throw new Error("in a getter") } }', /in a getter/],
    [`{ output: 'x'.repeat(100_001) }`, /over the limit of 100000 bytes/],
    [`{ output: Array(1000).fill('x'.repeat(200)) }`, /over the limit of 100000 bytes/],
  ] as const) {
    test(`${returned} is HANDLER_ERROR`, async () => {
      app = await start(`return ${returned};`);
      const error = await failure(app.fire());
      assert.equal(error.code, 'HANDLER_ERROR');
      assert.match(error.message, message);
    });
  }

  test('is held against the schema of the output, as it will be stored', async () => {
    const validators = `exports.automations = { digest: Object.assign(function validate(value) {
      if (typeof value === 'object' && value !== null && typeof value.at === 'string') return true;
      validate.errors = [{ instancePath: '/at', keyword: 'type', message: 'must be string', params: {} }];
      return false;
    }) };`;
    app = await start(
      'return input === 1 ? { output: { at: new Date(0) } } : input === 2 ? { output: { at: 5 } } : {};',
      { validators },
    );
    assert.deepEqual((await app.fire({ input: 1 })).value, { output: { at: '1970-01-01T00:00:00.000Z' } });
    for (const input of [2, 3]) {
      const { code, message, path } = await failure(app.fire({ input }));
      assert.deepEqual([code, message, path], ['HANDLER_ERROR', 'output/at must be string', '/at']);
    }
  });
});

describe('a fire that does not end well', () => {
  test('throws: the message is the error, and the thread serves the next one', async () => {
    app = await start(`if (input) throw new Error('because'); return { summary: 'fine' };`);
    assert.deepEqual(await failure(app.fire({ input: 1 })), { code: 'HANDLER_ERROR', message: 'because' });
    assert.deepEqual((await app.fire()).value, { summary: 'fine' });
  });

  test('has a handler that is missing, does not parse, or exports no function', async () => {
    for (const [files, message] of [
      [{}, /^automations\/digest\/handler\.js does not exist/],
      [{ 'automations/digest/handler.js': 'export default {' }, /^automations\/digest\/handler\.js.* does not parse/],
      [{ 'automations/digest/handler.js': 'export const x = 1;' }, /must export default an async function/],
    ] as const) {
      app = await supervisor.app({ files, validators: '' }, { automation: 'digest' });
      assert.match((await failure(app.fire())).message, message);
    }
  });

  test('is no fire of this automation: neither another one nor a tool of the app', async () => {
    app = await start('return {};', { files: { 'queries/one.js': 'export default () => 1;' } });
    for (const call of [app.query('one'), app.call(ToolKind.fire, 'other', '{}')]) {
      assert.match((await failure(call)).message, /runs the automation "digest" and nothing else/);
    }
    const tools = await supervisor.app({ files: { 'queries/one.js': 'export default () => 1;' } });
    assert.match((await failure(tools.call(ToolKind.fire, 'one', '{}'))).message, /not its automations/);
  });

  test('hangs: it is cancelled by its deadline, and does not hold up the end of its thread', async () => {
    app = await start(`log.info('running'); await new Promise(() => {});`);
    app.fire().catch(() => {});
    await app.log(({ msg }) => msg === 'running');
    app.cancel(app.lastCall, 'deadline');
    app.stop();
    assert.deepEqual(await app.exited, { reason: 'stopped', detail: '' });
  });
});

describe('a fire that takes its thread with it', () => {
  let own: FakeSupervisor;
  beforeEach(async () => {
    own = supervisor;
    supervisor = await FakeSupervisor.start({ spare: false });
  });
  afterEach(async () => {
    await supervisor.close();
    supervisor = own;
  });

  test('loops without end: the thread is ended by force, its host and the others on it live on', async () => {
    const other = await start(`return { summary: 'alive' };`);
    app = await start(`log.info('running'); await new Promise((go) => setTimeout(go, 10)); for (;;);`);
    app.fire().catch(() => {});
    await app.log(({ msg }) => msg === 'running');
    app.stop(true);
    assert.equal((await app.exited).reason, 'stopped');
    assert.deepEqual((await other.fire()).value, { summary: 'alive' });
  });

  test('crashes outside its promise: the thread says why', async () => {
    app = await start(`setTimeout(() => { throw new Error('in a timer'); }, 0); await new Promise(() => {});`);
    app.fire().catch(() => {});
    assert.deepEqual(await app.exited, { reason: 'crash', detail: 'in a timer' });
  });

  test('needs too much memory', async () => {
    app = await start('const kept = []; for (;;) kept.push(new Array(10_000).fill(1.5));');
    app.fire().catch(() => {});
    assert.equal((await app.exited).reason, 'memory');
  });
});
