import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Frame, Kind, ToolKind } from '../../protocol/wire/frames.ts';
import { type App, FakeSupervisor, failure } from '../../testing/fake-supervisor.ts';
import { Calls } from './calls.ts';

const SCHEMA = {
  type: 'object',
  properties: {
    title: { type: 'string', minLength: 1 },
    state: { enum: ['open', 'done'] },
    tags: { type: 'array', items: { type: 'string' } },
    'a/b': { type: 'object', properties: { c: { type: 'integer' } } },
  },
  required: ['title'],
  additionalProperties: false,
};

/** Input → path and message of the first issue. */
const INVALID: [input: unknown, path: string, message: string][] = [
  [undefined, '', "input must have required property 'title'"],
  [null, '', "input must have required property 'title'"],
  [[], '', 'input must be object'],
  ['x', '', 'input must be object'],
  [{ title: 5 }, '/title', 'input/title must be string'],
  [{ title: '' }, '/title', 'input/title must NOT have fewer than 1 characters'],
  [{ title: 'x', tags: ['a', 1] }, '/tags/1', 'input/tags/1 must be string'],
  [{ title: 'x', 'a/b': { c: 1.5 } }, '/a~1b/c', 'input/a~1b/c must be integer'],
  [{ title: 'x', state: 'gone' }, '/state', 'input/state must be one of "open", "done"'],
  [{ title: 'x', extra: 1 }, '', "input must not have the property 'extra'"],
];

/** Body of a query that throws → the message that its caller gets. */
const THROWN: [body: string, message: string][] = [
  [`throw new Error('plain')`, 'plain'],
  [`throw new RangeError('typed')`, 'typed'],
  [`throw 'a string'`, 'a string'],
  ['throw undefined', 'The handler threw undefined, which is no Error.'],
  ['throw null', 'The handler threw null, which is no Error.'],
  ['throw { code: 7 }', 'The handler threw {"code":7}, which is no Error.'],
  ['throw new Error()', 'The handler threw Error without a message.'],
  [`throw { get message() { throw 1 }, toJSON() { throw 2 } }`, 'The handler threw a value that cannot be shown.'],
  [`throw Object.assign(new Error('m'), { stack: { toString() { throw 1 } } })`, 'm'],
  [
    'throw new Proxy({}, { getPrototypeOf() { throw 1 }, get() { throw 2 } })',
    'The handler threw a value that cannot be shown.',
  ],
  ['await Promise.reject(new Error("later"))', 'later'],
  ['null.x', "Cannot read properties of null (reading 'x')"],
];

let supervisor: FakeSupervisor;
let app: App;

before(async () => {
  supervisor = await FakeSupervisor.start({ spare: false });
  app = await supervisor.app({
    schemas: { 'queries/checked': SCHEMA, 'actions/checked': SCHEMA },
    files: {
      'queries/checked.js': 'export default async ({ input }) => input;',
      'actions/checked.js': 'export default async ({ body }) => body;',
      'queries/unchecked.js': 'export default async ({ input }) => input;',
      'queries/args.js': `export default async (args) => ({
        names: Object.keys(args), same: args.input === args.query, app: args.app, frozen: Object.isFrozen(args.app),
        ctx: Object.keys(args.ctx), traceId: args.ctx.traceId, left: args.ctx.deadline - Date.now(), aborted: args.ctx.signal.aborted,
        log: Object.keys(args.log) });`,
      'actions/args.js':
        'export default async (args) => ({ names: Object.keys(args), same: args.input === args.body });',
      'queries/notAsync.js': 'export default () => 3;',
      'queries/wait.js': `
        export default ({ ctx, log, db }) => new Promise((resolve, reject) => {
          log.info('waiting');
          ctx.signal.addEventListener('abort', async () => {
            const later = await db.get('select 1').then(() => 'ok', (error) => error.message);
            log.info('aborted', { reason: ctx.signal.reason.message, later });
            resolve('too late');
          });
        });`,
      'queries/meet.js': `
        const waiting = [];
        export default ({ input }) => new Promise((resolve) => {
          waiting.push(resolve);
          if (waiting.length === input.of) for (const done of waiting.splice(0)) done(input.of);
        });`,
      'queries/rejects.js': `export default async () => { Promise.reject(new Error('nobody looks')); return 1; };`,
      'queries/console.js': `export default async ({ log }) => {
        console.log('from %s', 'console', { a: 1 }); console.error('loud'); console.assert(1 === 2, 'never');
        log.warn({ msg: 'fields first', n: 1 }, 'then text'); log.debug('x', new Error('inside'));
        const circle = {}; circle.self = circle; log.info('circle', circle);
        log.info('y'.repeat(100_000)); log.info('own', { level: 'mine', tool: 'mine' });
      };`,
      ...Object.fromEntries(
        THROWN.map(([body], i) => [`queries/throw${i}.js`, `export default async () => { ${body} };`]),
      ),
    },
  });
});

after(() => supervisor.close());

test('a query gets input, query, db, log, app and ctx', async () => {
  const { value } = await app.query('args', { a: 1 });
  const { left, ...rest } = value as { left: number };
  assert.deepEqual(rest, {
    names: ['input', 'query', 'db', 'log', 'app', 'ctx'],
    same: true,
    app: { id: app.spec.app, name: 'Test', version: '1.0.0', versionId: app.spec.versionId },
    frozen: true,
    ctx: ['traceId', 'deadline', 'fetch', 'secrets'],
    traceId: `trace-${app.lastCall}`,
    aborted: false,
    log: ['debug', 'info', 'warn', 'error'],
  });
  assert.ok(left > 0 && left <= 10_000);
});

test('an action gets body in the place of query', async () => {
  const { value } = await app.action('args');
  assert.deepEqual(value, { names: ['input', 'body', 'db', 'log', 'app', 'ctx'], same: true });
});

for (const [input, path, message] of INVALID) {
  test(`INVALID_INPUT: ${JSON.stringify(input)}`, async () => {
    for (const call of [app.query('checked', input), app.action('checked', input)]) {
      const error = await failure(call);
      assert.deepEqual([error.code, error.path, error.message], ['INVALID_INPUT', path, message]);
      assert.deepEqual([error.issues?.[0]?.path, `input${path} ${error.issues?.[0]?.message}`], [path, message]);
    }
  });
}

test('at most 20 issues are listed', async () => {
  const error = await failure(app.query('checked', { title: 'x', tags: Array(50).fill(1) }));
  assert.equal(error.issues?.length, 20);
  assert.deepEqual(error.issues?.[19], { path: '/tags/19', message: 'must be string', keyword: 'type' });
});

test('a tool without a schema takes any object, and an absent input is {}', async () => {
  assert.deepEqual((await app.query('unchecked', { any: 1 })).value, { any: 1 });
  assert.deepEqual((await app.query('unchecked')).value, {});
  assert.deepEqual((await app.query('unchecked', null)).value, {});
  assert.deepEqual((await app.call(ToolKind.query, 'unchecked', '')).value, {});
  for (const input of [[], 'x', 7, false])
    assert.equal((await failure(app.query('unchecked', input))).code, 'INVALID_INPUT');
});

test('a body that is no JSON object is BAD_REQUEST', async () => {
  for (const body of ['{', '[]', 'null', '"x"']) {
    assert.equal((await failure(app.call(ToolKind.query, 'unchecked', body))).code, 'BAD_REQUEST');
  }
});

test('tools that the version does not have', async () => {
  assert.equal((await failure(app.query('nothing'))).code, 'UNKNOWN_QUERY');
  assert.equal((await failure(app.action('unchecked'))).code, 'UNKNOWN_ACTION');
  assert.equal((await failure(app.query('../actions/checked'))).code, 'UNKNOWN_QUERY');
  assert.equal((await failure(app.query('constructor'))).code, 'UNKNOWN_QUERY');
});

test('a handler need not be async', async () => {
  assert.equal((await app.query('notAsync')).value, 3);
});

for (const [i, [body, message]] of THROWN.entries()) {
  test(`thrown: ${body}`, async () => {
    assert.deepEqual(await failure(app.query(`throw${i}`)), { code: 'HANDLER_ERROR', message });
    const line = await app.log(({ tool }) => tool === `throw${i}`);
    assert.deepEqual([line.level, line.msg, line.traceId], ['error', message, `trace-${app.lastCall}`]);
  });
}

test('calls overlap', async () => {
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => app.query('meet', { of: 20 })));
  assert.deepEqual(new Set(outcomes.map(({ value }) => value)), new Set([20]));
});

test('a call whose time is up has its signal aborted, can use db no more, and leaves its place when it ends', async () => {
  const ended = app.query('wait').then(
    () => 'answered',
    () => 'failed',
  );
  const id = app.lastCall;
  await app.log(({ msg, traceId }) => msg === 'waiting' && traceId === `trace-${id}`);
  app.cancel(id, 'deadline');
  const line = await app.log(({ msg }) => msg === 'aborted');
  assert.equal(line.reason, 'The call was cancelled: its time is up.');
  assert.equal(line.later, 'The call was cancelled: its time is up.');
  // Nobody waits for it, but the supervisor counts it as running until then.
  assert.ok(await ended, 'the call left its place');
});

test('a call whose client has gone has its signal aborted, and may still write', async () => {
  const ended = app.query('wait');
  const id = app.lastCall;
  await app.log(({ msg, traceId }) => msg === 'waiting' && traceId === `trace-${id}`);
  app.cancel(id, 'client-gone');
  const line = await app.log(({ msg, traceId }) => msg === 'aborted' && traceId === `trace-${id}`);
  assert.equal(line.reason, 'The call was cancelled: its caller has gone away.');
  assert.equal(line.later, 'ok');
  await ended;
});

test('a call that expired before it could start is not run', async () => {
  const error = await failure(app.call(ToolKind.query, 'wait', '{}', 0));
  assert.match(error.message, /timed out before it could start/);
});

test('an unhandled rejection is logged and ends nothing', async () => {
  assert.equal((await app.query('rejects')).value, 1);
  const line = await app.log(({ msg }) => msg.includes('nobody looks'));
  assert.deepEqual([line.level, line.msg], ['error', 'Unhandled promise rejection: nobody looks']);
  assert.match((line.err as { stack: string }).stack, /queries\/rejects\.js:1:\d+/);
});

test('log and console become lines with their origin, and never fail', async () => {
  await app.query('console');
  const traceId = `trace-${app.lastCall}`;
  const line = (text: string) => app.log(({ msg }) => msg.startsWith(text));
  assert.deepEqual((await line('from console { a: 1 }')).tool, null);
  assert.equal((await line('loud')).level, 'error');
  assert.equal((await line('Assertion failed never')).level, 'error');
  const fields = await line('fields first then text');
  assert.deepEqual([fields.level, fields.tool, fields.traceId, fields.n], ['warn', 'console', traceId, 1]);
  assert.equal(fields.app, app.spec.app);
  assert.equal(fields.versionId, app.spec.versionId);
  assert.match(String(fields.ts), /^\d{4}-\d\d-\d\dT/);
  assert.equal(((await line('x inside')).err as { name: string }).name, 'Error');
  assert.equal((await line('circle')).fields, 'not serializable');
  const long = await line('yyy');
  assert.deepEqual([long.truncated, JSON.stringify(long).length < 64 * 1024], [true, true]);
  const own = await line('own');
  assert.deepEqual([own.level, own._level, own.tool, own._tool], ['info', 'mine', 'console', 'mine']);
});

test('a heartbeat is answered with the heap and the calls', async () => {
  const stats = await app.ping();
  assert.ok(stats.heapUsed > 1_000_000);
  assert.equal(stats.counters?.running, 0);
});

for (const [what, kind] of [
  ['its result is too large to be copied without secrets', null],
  ['what it read cannot be sent', Kind.reads],
  ['its spans cannot be sent', Kind.spans],
  ['its result cannot be sent', Kind.result],
] as const) {
  test(`a call fails at once where ${what}`, async () => {
    const body = Buffer.from('1');
    const redactor = {
      json: () => {
        if (kind === null) throw new RangeError('no room');
        return body;
      },
    };
    let tried = false;
    const failed = new Promise<Frame>((resolve) => {
      const send = (frame: Frame): void => {
        if (frame[0] === Kind.error) resolve(frame);
        if (frame[0] !== kind || tried) return;
        tried = true;
        throw new RangeError('no room');
      };
      const failures = {
        toBody: (error: Error) => ({ code: 'HANDLER_ERROR', message: error.message }),
        fields: () => ({}),
      };
      const runner = { run: async () => ({ status: 200, body }) };
      const given = [runner, failures, { report: () => {} }, redactor, send] as unknown as ConstructorParameters<
        typeof Calls
      >;
      const calls = new Calls(...given);
      const traceparent = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`;
      calls.dispatch([Kind.dispatch, 7, 60_000, ToolKind.tracked, 'tool', Buffer.alloc(0), traceparent, 0]);
    });
    const [, id, error] = await failed;
    assert.deepEqual([id, error], [7, { code: 'HANDLER_ERROR', message: 'no room' }]);
  });
}
