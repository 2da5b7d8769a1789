/** The dispatcher over HTTP, on both edges: `svc_describe`, `svc_read`, `svc_write` (specification, "Dispatcher"). */
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { before, describe, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { eventually, onEachEdge } from '../testing/edges.ts';
import type { Answer, Stream, TestGateway } from '../testing/gateway.ts';
import { enter, signIn } from '../testing/origins.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const MAX_RESULT = 64 * 1024;
const TRACE = '0af7651916cd43dd8448eb211c80319c';

/** What the query `value` and the action `give` answer with, as source text. */
const VALUES = {
  null: 'null',
  undefined: 'undefined',
  zero: '0',
  text: '"x"',
  list: '[1, undefined, null]',
  nan: 'NaN',
  bigint: '{ safe: 7n, edge: 9007199254740991n, unsafe: 9007199254740993n }',
  buffer: '{ bytes: Buffer.from("hello"), view: new Uint8Array([1, 2, 3]) }',
  date: '{ at: new Date(0) }',
  unicode: '"\\u{1f600} </script> \\u2028"',
  cycle: '((o) => { o.self = o; return o; })({})',
  function: '{ f() {} }',
  bareFunction: '() => 1',
  symbol: 'Symbol("s")',
  throwingJson: '{ toJSON() { throw new Error("no JSON today"); } }',
  atLimit: `"x".repeat(${MAX_RESULT - 2})`,
  overLimit: `"x".repeat(${MAX_RESULT - 1})`,
  overLimitInBytes: `"\\u00e9".repeat(${MAX_RESULT / 2})`,
  proto: 'JSON.parse(\'{"__proto__":1,"constructor":2}\')',
  envelope: '{ status: 202, body: { ok: true } }',
  bodyOnly: '{ body: [1] }',
  bodyUndefined: '{ body: undefined }',
  statusOnly: '{ status: 202 }',
  statusAndMore: '{ status: 202, rows: 1 }',
  statusText: '{ status: "done" }',
  statusTextAndBody: '{ status: "done", body: 1 }',
  status100: '{ status: 100, body: 1 }',
  status600: '{ status: 600, body: 1 }',
  statusHalf: '{ status: 200.5, body: 1 }',
  status204: '{ status: 204, body: { gone: true } }',
  status304: '{ status: 304, body: 1 }',
  status302: '{ status: 302, body: 1 }',
  status399: '{ status: 399, body: 1 }',
  status400: '{ status: 400, body: { why: "no" } }',
  status500: '{ status: 500, body: "broken" }',
  bodyCycle: '{ body: ((o) => { o.self = o; return o; })({}) }',
  classInstance: 'new (class { constructor() { this.body = 1; } })()',
} as const;
type ValueName = keyof typeof VALUES;

const VALUE_TABLE = `{ ${Object.entries(VALUES)
  .map(([name, source]) => `${name}: () => (${source})`)
  .join(', ')} }`;

const SHOP = appOf('shop', {
  manifest: { name: 'Shop', version: '2.1.0', description: 'Sells things', theme: { colour: 'red' } },
  migrations: ['CREATE TABLE items (id INTEGER PRIMARY KEY, title TEXT NOT NULL)'],
  queries: {
    list: { run: '({ db }) => db.all("SELECT title FROM items ORDER BY id")', description: 'All items' },
    echo: '({ input }) => input',
    args: '({ input, query, ctx, app }) => ({ same: input === query, traceId: ctx.traceId, app })',
    value: `({ input }) => (${VALUE_TABLE})[input.name]()`,
    twin: '() => "query"',
    checked: {
      run: '({ input }) => input',
      input: {
        type: 'object',
        properties: {
          limit: { type: 'integer', minimum: 1 },
          tags: { type: 'array', items: { type: 'string' } },
          'a/b': { type: 'object', properties: { c: { type: 'boolean' } } },
        },
        required: ['limit'],
        additionalProperties: false,
      },
    },
    fails: '() => { throw new Error("out of stock"); }',
    failsDeep:
      '() => { const e = new Error("deep"); e.stack = "Error: deep\\n  at /home/somebody/secret.js:1:1"; throw e; }',
    badSql: '({ db }) => db.all("SELECT * FROM missing")',
    sneakyWrite: `({ db }) =>
      db.run("INSERT INTO items (title) VALUES (?)", "sneaked in") // governance: allow-query-handlers-read-only why`,
    slow: { run: '() => new Promise(() => {})', timeoutMs: 60 },
    spins: { run: '() => { for (;;); }', timeoutMs: 60 },
    constructor: '() => "a tool may be called that"',
  },
  actions: {
    add: {
      run: `async ({ input, body, db }) => {
        const { lastInsertRowid } = await db.run("INSERT INTO items (title) VALUES (?)", input.title);
        return { status: 201, body: { id: lastInsertRowid, same: input === body } };
      }`,
      description: 'Adds an item',
      confirmation: 'none',
      writes: ['items', 'audit'],
      input: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] },
    },
    give: { run: `({ input }) => (${VALUE_TABLE})[input.name]()`, writes: ['items'] },
    twin: '() => "action"',
    fails: { run: '() => { throw new Error("the till is shut"); }', writes: ['items'] },
    failsLate: {
      run: 'async ({ db }) => { await db.run("INSERT INTO items (title) VALUES (?)", "half"); throw new Error("too late"); }',
      writes: ['items'],
    },
    quiet: '() => "writes nothing"',
    mark: { run: '() => null', writes: ['marks'] },
  },
});

/** An app whose calls pile up until it has the secret OPEN: no call could release them, and no time limit should. */
const BUSY = appOf('busy', {
  queries: {
    hold: {
      run: `async ({ ctx }) => {
        for (;;) {
          try {
            await ctx.secrets.get('OPEN');
            return 'held';
          } catch {
            await new Promise((resolve) => setTimeout(resolve, 50));
          }
        }
      }`,
      timeoutMs: LIMITS.toolTimeoutMs,
    },
    quick: '() => 1',
  },
});

/** An app whose answers have the number of its calls. */
const COUNTER = appOf('counter', {
  actions: {
    count: {
      run: '({ input }) => { globalThis.n = (globalThis.n ?? 0) + 1; return { status: input.status ?? 200, body: globalThis.n }; }',
    },
    fails: '() => { globalThis.n = (globalThis.n ?? 0) + 1; throw new Error("failure " + globalThis.n); }',
    checked: { run: '() => 1', input: { type: 'object', required: ['x'] } },
    wait: `({ ctx, log }) => new Promise((done) => { log.info('waiting'); globalThis.release = () => done({ status: 202, body: 'waited' }); })`,
    release: '() => { globalThis.release(); return 1; }',
  },
});

type Row = {
  name: string;
  method?: string;
  tool?: string;
  body?: unknown;
  headers?: Record<string, string>;
  status: number;
  /** The whole answer. */
  json?: unknown;
  /** `error.code`, and `error.path` with it. */
  code?: string;
  path?: string;
  contains?: string[];
  lacks?: string[];
  /** Tables whose change events the call causes, or `reset`, and no others. */
  events?: string[];
};

/** These never leave the gateway. */
const NEVER = ['node:internal', '    at ', '/home/', `${tmpdir()}/`, 'versions/v_', '.sqlite'];

const read = (query: unknown, input?: unknown) => ({ tool: 'svc_read', body: { app: 'shop', query, input } });
const write = (action: unknown, input?: unknown) => ({ tool: 'svc_write', body: { app: 'shop', action, input } });
const value = (name: ValueName) => read('value', { name });
const give = (name: ValueName) => write('give', { name });
const ok = (data: unknown) => ({ status: 200, json: { isError: false, data } });
const envelope = (status: number, body: unknown, http = status) => ({
  status: http,
  json: { isError: false, data: { status, body } },
});
const failed = (status: number, code: string, path?: string) => ({
  status,
  code,
  ...(path === undefined ? {} : { path }),
});

const ROWS: Row[] = [
  // The body, then the tool, then the app, then the name, then the input.
  { name: 'no JSON', tool: 'svc_read', body: '{"app":', ...failed(400, 'BAD_REQUEST') },
  {
    name: 'invalid JSON, for a tool that does not exist',
    tool: 'svc_nothing',
    body: '{',
    ...failed(400, 'BAD_REQUEST'),
  },
  { name: 'an array', tool: 'svc_read', body: '[]', ...failed(400, 'BAD_REQUEST') },
  { name: 'null', tool: 'svc_write', body: 'null', ...failed(400, 'BAD_REQUEST') },
  { name: 'a string', tool: 'svc_write', body: '"app"', ...failed(400, 'BAD_REQUEST') },
  { name: 'no UTF-8', tool: 'svc_read', body: Buffer.from('{"app":"\xff"}', 'latin1'), ...failed(400, 'BAD_REQUEST') },
  {
    name: 'an unknown tool',
    tool: 'svc_nothing',
    body: { app: 'nobody' },
    ...failed(404, 'UNKNOWN_TOOL'),
    contains: ['svc_read'],
  },
  { name: 'a tool with the name of a method', tool: 'constructor', body: {}, ...failed(404, 'UNKNOWN_TOOL') },
  { name: 'a tool whose name is escaped', tool: 'svc%5Fread', body: { app: 'shop', query: 'echo' }, ...ok({}) },
  { name: 'no app', tool: 'svc_read', body: { query: 'echo' }, ...failed(400, 'BAD_REQUEST', 'app') },
  {
    name: 'an app that is not a string',
    tool: 'svc_read',
    body: { app: ['shop'], query: 'echo' },
    ...failed(400, 'BAD_REQUEST', 'app'),
  },
  { name: 'no query', tool: 'svc_read', body: { app: 'nobody' }, ...failed(400, 'BAD_REQUEST', 'query') },
  { name: 'a query that is not a string', ...read(5), ...failed(400, 'BAD_REQUEST', 'query') },
  { name: 'no action', tool: 'svc_write', body: { app: 'nobody' }, ...failed(400, 'BAD_REQUEST', 'action') },
  {
    name: 'an unknown app',
    tool: 'svc_read',
    body: { app: 'nobody', query: 'nothing', input: 5 },
    ...failed(404, 'UNKNOWN_APP'),
  },
  {
    name: 'an app with a forbidden name',
    tool: 'svc_write',
    body: { app: '../shop', action: 'add' },
    ...failed(404, 'UNKNOWN_APP'),
  },
  {
    name: 'an app named __proto__',
    tool: 'svc_read',
    body: { app: '__proto__', query: 'x' },
    ...failed(404, 'UNKNOWN_APP'),
  },
  {
    name: 'an app without a version (read)',
    tool: 'svc_read',
    body: { app: 'stored', query: 'x' },
    ...failed(503, 'NO_ACTIVE_VERSION'),
  },
  {
    name: 'an app without a version (write)',
    tool: 'svc_write',
    body: { app: 'stored', action: 'x' },
    ...failed(503, 'NO_ACTIVE_VERSION'),
  },
  { name: 'an unknown query, before its input', ...read('nothing', 5), ...failed(404, 'UNKNOWN_QUERY') },
  { name: 'an unknown action', ...write('nothing', 5), ...failed(404, 'UNKNOWN_ACTION') },
  { name: 'a query named like a file elsewhere', ...read('../actions/add'), ...failed(404, 'UNKNOWN_QUERY') },
  { name: 'a query named toString', ...read('toString'), ...failed(404, 'UNKNOWN_QUERY') },
  { name: 'a query named constructor that the app has', ...read('constructor'), ...ok('a tool may be called that') },
  {
    name: 'an action through svc_read, before its input',
    ...read('add', 5),
    ...failed(400, 'WRONG_KIND'),
    contains: ['svc_write'],
  },
  { name: 'a query through svc_write', ...write('list'), ...failed(400, 'WRONG_KIND'), contains: ['svc_read'] },
  { name: 'the same name in both lists (read)', ...read('twin'), ...ok('query') },
  { name: 'the same name in both lists (write)', ...write('twin'), ...envelope(200, 'action') },
  { name: 'GET', method: 'GET', tool: 'svc_read', ...failed(405, 'METHOD_NOT_ALLOWED') },

  // Input.
  { name: 'input absent', ...read('echo'), ...ok({}) },
  { name: 'input null', ...read('echo', null), ...ok({}) },
  {
    name: 'input is passed on',
    ...read('echo', { a: [1, { b: null }], ü: '\u2028' }),
    ...ok({ a: [1, { b: null }], ü: '\u2028' }),
  },
  {
    name: 'members that look like a prototype',
    tool: 'svc_read',
    body: '{"app":"shop","query":"echo","input":{"__proto__":{"x":1}}}',
    status: 200,
    contains: ['"__proto__":{"x":1}'],
  },
  {
    name: 'the last of equal members counts',
    tool: 'svc_read',
    body: '{"app":"nobody","app":"shop","query":"echo","input":{"a":1},"input":{"a":2}}',
    ...ok({ a: 2 }),
  },
  { name: 'input that is not an object', ...read('echo', [1]), ...failed(400, 'INVALID_INPUT', '') },
  {
    name: 'input is validated as {} when absent',
    ...read('checked'),
    ...failed(400, 'INVALID_INPUT', ''),
    contains: ['limit'],
  },
  {
    name: 'input is validated as {} when null',
    ...write('add', null),
    ...failed(400, 'INVALID_INPUT', ''),
    contains: ['title'],
  },
  { name: 'a wrong value', ...read('checked', { limit: 0 }), ...failed(400, 'INVALID_INPUT', '/limit') },
  {
    name: 'a wrong value, deep',
    ...read('checked', { limit: 1, tags: ['a', 2] }),
    ...failed(400, 'INVALID_INPUT', '/tags/1'),
  },
  {
    name: 'a path that needs escaping',
    ...read('checked', { limit: 1, 'a/b': { c: 1 } }),
    ...failed(400, 'INVALID_INPUT', '/a~1b/c'),
  },
  {
    name: 'an extra member',
    ...read('checked', { limit: 1, more: 1 }),
    ...failed(400, 'INVALID_INPUT', ''),
    contains: ['more'],
  },
  { name: 'input that fits', ...read('checked', { limit: 3 }), ...ok({ limit: 3 }) },
  {
    name: 'an action is not run with wrong input',
    ...write('add', { title: 5 }),
    ...failed(400, 'INVALID_INPUT', '/title'),
  },

  // Results of queries: verbatim.
  { name: 'null', ...value('null'), ...ok(null) },
  { name: 'undefined', ...value('undefined'), ...ok(null) },
  { name: 'zero', ...value('zero'), ...ok(0) },
  { name: 'a list with holes', ...value('list'), ...ok([1, null, null]) },
  { name: 'NaN', ...value('nan'), ...ok(null) },
  { name: 'BigInts', ...value('bigint'), ...ok({ safe: 7, edge: 9007199254740991, unsafe: '9007199254740993' }) },
  { name: 'Buffers', ...value('buffer'), ...ok({ bytes: 'aGVsbG8=', view: 'AQID' }) },
  { name: 'a Date', ...value('date'), ...ok({ at: '1970-01-01T00:00:00.000Z' }) },
  { name: 'text', ...value('unicode'), ...ok('\u{1f600} </script> \u2028') },
  { name: 'a query that returns an envelope', ...value('envelope'), ...ok({ status: 202, body: { ok: true } }) },
  { name: 'odd member names', ...value('proto'), status: 200, contains: ['"data":{"__proto__":1,"constructor":2}'] },
  { name: 'a result at the limit', ...value('atLimit'), status: 200 },
  {
    name: 'a result over the limit',
    ...value('overLimit'),
    ...failed(500, 'HANDLER_ERROR'),
    contains: [String(MAX_RESULT)],
    lacks: ['xxxx'],
  },
  { name: 'a result over the limit in bytes', ...value('overLimitInBytes'), ...failed(500, 'HANDLER_ERROR') },
  { name: 'a cycle', ...value('cycle'), ...failed(500, 'HANDLER_ERROR') },
  { name: 'a function inside', ...value('function'), ...failed(500, 'HANDLER_ERROR', '/f') },
  { name: 'a function', ...value('bareFunction'), ...failed(500, 'HANDLER_ERROR', '') },
  { name: 'a symbol', ...value('symbol'), ...failed(500, 'HANDLER_ERROR', '') },
  { name: 'a toJSON that throws', ...value('throwingJson'), ...failed(500, 'HANDLER_ERROR') },

  // Envelopes of actions.
  { name: 'an envelope', ...give('envelope'), ...envelope(202, { ok: true }), events: ['items'] },
  { name: 'only a body', ...give('bodyOnly'), ...envelope(200, [1]), events: ['items'] },
  { name: 'a body that is undefined', ...give('bodyUndefined'), ...envelope(200, null), events: ['items'] },
  { name: 'only a status', ...give('statusOnly'), ...envelope(202, null), events: ['items'] },
  {
    name: 'a status among other members is not an envelope',
    ...give('statusAndMore'),
    ...envelope(200, { status: 202, rows: 1 }),
    events: ['items'],
  },
  {
    name: 'a status that is text is not an envelope',
    ...give('statusText'),
    ...envelope(200, { status: 'done' }),
    events: ['items'],
  },
  { name: 'nothing', ...give('undefined'), ...envelope(200, null), events: ['items'] },
  { name: 'null', ...give('null'), ...envelope(200, null), events: ['items'] },
  { name: 'a list', ...give('list'), ...envelope(200, [1, null, null]), events: ['items'] },
  { name: 'text', ...give('text'), ...envelope(200, 'x'), events: ['items'] },
  {
    name: 'an object of a class is not an envelope',
    ...give('classInstance'),
    ...envelope(200, { body: 1 }),
    events: ['items'],
  },
  { name: 'status 204 is sent as 200', ...give('status204'), ...envelope(204, { gone: true }, 200), events: ['items'] },
  { name: 'status 304 is sent as 200', ...give('status304'), ...envelope(304, 1, 200), events: ['items'] },
  { name: 'status 302', ...give('status302'), ...envelope(302, 1), events: ['items'] },
  { name: 'status 399, the last good one', ...give('status399'), ...envelope(399, 1), events: ['items'] },
  { name: 'status 400 changes nothing', ...give('status400'), ...envelope(400, { why: 'no' }) },
  { name: 'status 500 of the action', ...give('status500'), ...envelope(500, 'broken') },
  { name: 'status 100', ...give('status100'), ...failed(500, 'HANDLER_ERROR') },
  { name: 'status 600', ...give('status600'), ...failed(500, 'HANDLER_ERROR') },
  { name: 'status 200.5', ...give('statusHalf'), ...failed(500, 'HANDLER_ERROR') },
  { name: 'a status that is text, with a body', ...give('statusTextAndBody'), ...failed(500, 'HANDLER_ERROR') },
  { name: 'a body with a cycle', ...give('bodyCycle'), ...failed(500, 'HANDLER_ERROR') },
  { name: 'a body over the limit', ...give('overLimit'), ...failed(500, 'HANDLER_ERROR') },

  // Writes and their events.
  {
    name: 'an action that writes',
    ...write('add', { title: 'Milk' }),
    ...envelope(201, { id: 1, same: true }),
    events: ['items', 'audit'],
  },
  { name: 'what it wrote', ...read('list'), ...ok([{ title: 'Milk' }]) },
  { name: 'an action that names no tables', ...write('quiet'), ...envelope(200, 'writes nothing') },
  { name: 'an action that throws', ...write('fails'), ...failed(500, 'HANDLER_ERROR'), contains: ['the till is shut'] },
  {
    name: 'an action that throws after a write',
    ...write('failsLate'),
    ...failed(500, 'HANDLER_ERROR'),
    contains: ['too late'],
    events: ['reset'],
  },
  { name: 'a query that writes', ...read('sneakyWrite'), status: 200, contains: ['"changes":1'] },

  // Handlers that fail.
  { name: 'a handler that throws', ...read('fails'), ...failed(500, 'HANDLER_ERROR'), contains: ['out of stock'] },
  {
    name: 'a handler that throws with a stack',
    ...read('failsDeep'),
    ...failed(500, 'HANDLER_ERROR'),
    lacks: ['secret.js'],
  },
  { name: 'wrong SQL', ...read('badSql'), ...failed(500, 'HANDLER_ERROR'), contains: ['no such table'] },
  {
    name: 'a handler that never ends',
    ...read('slow'),
    ...failed(500, 'HANDLER_ERROR'),
    contains: ['timed out after 0.1 s'],
  },
  {
    name: 'a handler that spins',
    ...read('spins'),
    ...failed(500, 'HANDLER_ERROR'),
    contains: ['timed out after 0.1 s'],
  },
  { name: 'the app works after that', ...read('echo', { still: 'here' }), ...ok({ still: 'here' }) },

  // svc_describe.
  {
    name: 'describe: every app',
    tool: 'svc_describe',
    body: {},
    status: 200,
    contains: [
      '"app":"busy"',
      '"app":"stored","error":{"code":"NO_ACTIVE_VERSION"',
      '{"name":"add","description":"Adds an item","confirmation":"none"}',
      '{"name":"list","description":"All items"}',
    ],
    lacks: ['"input"', 'theme'],
  },
  {
    name: 'describe: no body',
    tool: 'svc_describe',
    status: 200,
    contains: ['{"isError":false,"data":{"apps":[{"app":"busy"'],
  },
  {
    name: 'describe: an app',
    tool: 'svc_describe',
    body: { app: 'shop' },
    ...ok({ ...JSON.parse(String(SHOP['app.json'])), app: 'shop' }),
  },
  {
    name: 'describe: an action',
    tool: 'svc_describe',
    body: { app: 'shop', action: 'quiet' },
    ...ok({ app: 'shop', name: 'Shop', version: '2.1.0', action: { name: 'quiet' } }),
  },
  {
    name: 'describe: a query',
    tool: 'svc_describe',
    body: { app: 'shop', query: 'list' },
    ...ok({ app: 'shop', name: 'Shop', version: '2.1.0', query: { name: 'list', description: 'All items' } }),
  },
  {
    name: 'describe: both',
    tool: 'svc_describe',
    body: { app: 'shop', query: 'list', action: 'add' },
    ...failed(400, 'INVALID_INPUT', ''),
  },
  { name: 'describe: an unknown app', tool: 'svc_describe', body: { app: 'nobody' }, ...failed(404, 'UNKNOWN_APP') },
  {
    name: 'describe: an app without a version',
    tool: 'svc_describe',
    body: { app: 'stored' },
    ...failed(503, 'NO_ACTIVE_VERSION'),
  },
  {
    name: 'describe: an unknown query',
    tool: 'svc_describe',
    body: { app: 'shop', query: 'add' },
    ...failed(404, 'UNKNOWN_QUERY'),
  },
  {
    name: 'describe: an unknown action',
    tool: 'svc_describe',
    body: { app: 'shop', action: 'list' },
    ...failed(404, 'UNKNOWN_ACTION'),
  },
  {
    name: 'describe: an app that is not a string',
    tool: 'svc_describe',
    body: { app: 5 },
    ...failed(400, 'BAD_REQUEST', 'app'),
  },
  {
    name: 'describe: a query without an app',
    tool: 'svc_describe',
    body: { query: 'list' },
    ...failed(400, 'BAD_REQUEST', 'app'),
  },
  {
    name: 'describe: a query that is null',
    tool: 'svc_describe',
    body: { app: 'shop', query: null },
    ...failed(400, 'BAD_REQUEST', 'query'),
  },
];

function checkRow(row: Row, answer: Answer): void {
  assert.equal(answer.status, row.status, answer.text.slice(0, 500));
  assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
  if ('json' in row) assert.deepEqual(answer.json, row.json);
  if (row.code !== undefined) {
    const { isError, error } = answer.json;
    assert.deepEqual([isError, error.code, error.path], [true, row.code, row.path]);
    assert.ok(error.message, 'a message says what happened');
  }
  for (const text of row.contains ?? [])
    assert.ok(answer.text.includes(text), `${text} is not in ${answer.text.slice(0, 2000)}`);
  for (const text of [...NEVER, ...(row.lacks ?? [])])
    assert.ok(!answer.text.includes(text), `${text} is in ${answer.text.slice(0, 500)}`);
  if (row.method !== 'GET') {
    assert.match(
      String(answer.headers['server-timing']),
      /^queue;dur=\d+\.\d+, handler;dur=\d+\.\d+(?:, cache;desc=(?:hit|miss|bypass))?$/,
    );
  }
}

/** The tables of the events since the last time, or `reset`: `mark` is called, and its event comes after all of them. */
async function eventsSince(gateway: TestGateway, stream: Stream): Promise<string[]> {
  // A query is run again when its thread was replaced; after its answer, `mark` finds the app ready. Its input is new
  // each time, so that a kept result does not answer it.
  await gateway.read('shop', 'echo', { at: performance.now() });
  await gateway.write('shop', 'mark');
  const tables: string[] = [];
  for (;;) {
    const { event, data } = await stream.next();
    const { table = event } = JSON.parse(data) as { table?: string };
    if (table === 'marks') return tables;
    tables.push(table);
  }
}

onEachEdge({ config: { maxResultBytes: MAX_RESULT, mailboxLimit: 8 } }, (gateway) => {
  let changes: Stream;

  before(async () => {
    assert.equal((await gateway.upload('shop', SHOP)).status, 201);
    assert.equal((await gateway.upload('busy', BUSY)).status, 201);
    assert.equal((await gateway.upload('counter', COUNTER)).status, 201);
    assert.equal((await gateway.upload('stored', appOf('stored'), '?activate=0')).status, 201);
    changes = await gateway.stream('/svc/shop/_changes');
  });

  for (const row of ROWS) {
    test(row.name, async () => {
      const { method = 'POST', tool = '', body, headers = {} } = row;
      const answer = await gateway.call(method, `/svc/_tool/${tool}`, {
        ...(body === undefined ? {} : { body }),
        headers,
      });
      checkRow(row, answer);
      if (method === 'POST' && tool !== 'svc_describe')
        assert.deepEqual(await eventsSince(gateway, changes), row.events ?? []);
    });
  }

  test('at most 20 issues are listed, each with path, message and keyword', async () => {
    const { json } = await gateway.read('shop', 'checked', { limit: 1, tags: Array(30).fill(1) });
    assert.equal(json.error.path, '/tags/0');
    assert.equal(json.error.issues.length, 20);
    assert.deepEqual(json.error.issues[19], { path: '/tags/19', message: 'must be string', keyword: 'type' });
  });

  test('a handler sees its app and the trace of the call', async () => {
    const { versionId } = (await gateway.call('GET', '/svc/_apps/shop/versions')).json[0];
    const traceparent = `00-${TRACE}-b7ad6b7169203331-01`;
    const { data } = (await gateway.read('shop', 'args', {}, { headers: { traceparent } })).json;
    assert.deepEqual(data, {
      same: true,
      traceId: TRACE,
      app: { id: 'shop', name: 'Shop', version: '2.1.0', versionId },
    });
  });

  for (const traceparent of [
    '',
    'nonsense',
    `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
    `ff-${TRACE}-b7ad6b7169203331-01`,
  ]) {
    test(`an invalid traceparent is replaced: "${traceparent}"`, async () => {
      const call = async () => (await gateway.read('shop', 'args', {}, { headers: { traceparent } })).json.data.traceId;
      const [one, other] = [await call(), await call()];
      assert.match(one, /^(?!0{32})[0-9a-f]{32}$/);
      assert.notEqual(one, other);
      assert.notEqual(one, TRACE);
    });
  }

  test('a full mailbox is OVERLOADED, with the time to try again', async () => {
    await gateway.read('busy', 'quick');
    const refused: Answer[] = [];
    let allRefused: (() => void) | undefined;
    const five = new Promise<void>((resolve) => (allRefused = resolve));
    const calls = Array.from({ length: 64 + 8 + 5 }, async (_, n) => {
      const answer = await gateway.read('busy', 'hold', { n });
      if (answer.status === 503 && refused.push(answer) === 5) allRefused?.();
      return answer;
    });
    await inTime(five, 'the refusal of five calls', LONG_MS);
    await gateway.call('PUT', '/svc/_apps/busy/secrets/OPEN', { body: { value: 'now it is open' } });
    const answers = await Promise.all(calls);
    assert.deepEqual(
      refused.map(({ json, headers }) => [json.error.code, headers['retry-after']]),
      Array(5).fill(['OVERLOADED', '1']),
    );
    for (const { status, json } of answers) if (status !== 503) assert.deepEqual([status, json.data], [200, 'held']);
    assert.equal((await gateway.read('busy', 'quick')).status, 200);
  });

  test('a call whose client has disconnected is dropped, and the app keeps working', async () => {
    await assert.rejects(
      fetch(`${gateway.url}/svc/_tool/svc_read`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.token}` },
        body: JSON.stringify({ app: 'shop', query: 'slow' }),
        signal: AbortSignal.timeout(20),
      }),
    );
    assert.equal((await gateway.read('shop', 'echo')).status, 200);
  });

  describe('Idempotency-Key', () => {
    const keyed = (action: string, input: unknown, key: string, app = 'counter') =>
      gateway.write(app, action, input, { headers: { 'idempotency-key': key } });

    test('the same call again is answered with the recorded result', async () => {
      const first = await keyed('count', { status: 201 }, 'a');
      const again = await keyed('count', { status: 201 }, 'a');
      assert.equal(first.status, 201);
      assert.equal(first.headers['idempotency-replayed'], undefined);
      assert.deepEqual([again.status, again.text], [first.status, first.text]);
      assert.equal(again.headers['idempotency-replayed'], 'true');
      assert.ok(again.headers['server-timing']);
      const other = await keyed('count', { status: 201 }, 'b');
      assert.equal(other.json.data.body, first.json.data.body + 1);
    });

    test('an absent input is the same as null and {}', async () => {
      const first = await keyed('count', {}, 'c');
      for (const input of [undefined, null]) assert.equal((await keyed('count', input, 'c')).text, first.text);
    });

    test('another input under the same key is a mismatch', async () => {
      await keyed('count', { status: 200 }, 'd');
      const answer = await keyed('count', { status: 201 }, 'd');
      assert.deepEqual([answer.status, answer.json.error.code], [422, 'IDEMPOTENCY_MISMATCH']);
    });

    test('another app and another action have separate keys', async () => {
      await keyed('count', {}, 'e');
      assert.equal((await keyed('quiet', {}, 'e', 'shop')).json.data.body, 'writes nothing');
      assert.equal((await keyed('fails', {}, 'e')).status, 500);
    });

    test('each caller has separate keys: administrator, tokens, and the person at a page', async () => {
      const made = async (name: string): Promise<string> =>
        (await gateway.call('POST', '/svc/_tokens', { body: { name, apps: ['counter'], tools: 'write' } })).json.token;
      const headers = { 'idempotency-key': 'callers' };
      const body = { app: 'counter', action: 'count', input: {} };
      const of = (token: string) => () => gateway.call('POST', '/svc/_tool/svc_write', { token, headers, body });
      const atPage = async (): Promise<Answer> => {
        const page = await enter(gateway, await signIn(gateway), { app: 'counter' });
        return page.call('POST', '/svc/_tool/svc_write', { headers, body });
      };
      const results: number[] = [];
      for (const call of [() => keyed('count', {}, 'callers'), of(await made('a')), of(await made('b')), atPage]) {
        const first = await call();
        const again = await call();
        assert.deepEqual([first.status, first.headers['idempotency-replayed']], [200, undefined], first.text);
        assert.deepEqual([again.text, again.headers['idempotency-replayed']], [first.text, 'true']);
        results.push(first.json.data.body);
      }
      assert.deepEqual(
        results,
        [0, 1, 2, 3].map((n) => Number(results[0]) + n),
        'each of them wrote',
      );
    });

    test('failures of the handler are replayed too', async () => {
      const first = await keyed('fails', {}, 'f');
      assert.equal(first.status, 500);
      assert.equal((await keyed('fails', {}, 'f')).text, first.text);
    });

    test('a call that never ran leaves its key free', async () => {
      assert.equal((await keyed('checked', {}, 'g')).json.error.code, 'INVALID_INPUT');
      assert.equal((await keyed('checked', { x: 1 }, 'g')).status, 200);
    });

    test('while the first call runs, the second is a conflict; afterwards it is answered', async () => {
      const logs = await gateway.stream('/svc/_logs?app=counter&follow=1');
      const first = keyed('wait', {}, 'h');
      while (JSON.parse((await logs.next()).data).msg !== 'waiting');
      logs.close();
      const second = await keyed('wait', {}, 'h');
      assert.deepEqual([second.status, second.json.error.code], [409, 'CONFLICT']);
      await gateway.write('counter', 'release');
      assert.equal((await first).status, 202);
      assert.equal((await keyed('wait', {}, 'h')).text, (await first).text);
    });

    test('twenty at once run once', async () => {
      const answers = await Promise.all(Array.from({ length: 20 }, () => keyed('count', { n: 1 }, 'i')));
      const bodies = new Set(answers.filter(({ status }) => status === 200).map(({ text }) => text));
      assert.equal(bodies.size, 1);
      for (const { status } of answers) assert.ok(status === 200 || status === 409);
    });

    for (const [what, key] of [
      ['empty', ''],
      ['256 bytes long', 'k'.repeat(256)],
    ] as const) {
      test(`a key that is ${what} is refused`, async () => {
        const answer = await keyed('count', {}, key);
        assert.deepEqual([answer.status, answer.json.error.code], [400, 'BAD_REQUEST']);
      });
    }

    test('a key of 255 bytes is taken', async () =>
      assert.equal((await keyed('count', {}, 'k'.repeat(255))).status, 200));

    test('a caller that disconnected gets the answer when it asks again', async () => {
      const headers = { authorization: `Bearer ${gateway.token}`, 'idempotency-key': 'j' };
      const body = JSON.stringify({ app: 'counter', action: 'wait' });
      const logs = await gateway.stream('/svc/_logs?app=counter&follow=1');
      const leave = new AbortController();
      const first = fetch(`${gateway.url}/svc/_tool/svc_write`, {
        method: 'POST',
        headers,
        body,
        signal: leave.signal,
      });
      while (JSON.parse((await logs.next()).data).msg !== 'waiting');
      logs.close();
      leave.abort();
      await assert.rejects(first);
      await gateway.write('counter', 'release');
      await eventually(async () => (await keyed('wait', undefined, 'j')).status === 202);
    });

    test('recorded results survive a restart and a kill of the daemon', async () => {
      const first = await keyed('count', { status: 203 }, 'z');
      await gateway.kill();
      await gateway.start();
      const again = await keyed('count', { status: 203 }, 'z');
      assert.deepEqual([again.status, again.text, again.headers['idempotency-replayed']], [203, first.text, 'true']);
      assert.equal((await keyed('count', { status: 204 }, 'z')).status, 422);
    });
  });
});
