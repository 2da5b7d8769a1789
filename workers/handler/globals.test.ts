import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { type App, FakeSupervisor, failure } from '../../testing/fake-supervisor.ts';

/** What is not there: each expression must be `undefined`. */
const ABSENT = [
  'typeof process',
  'typeof require',
  'typeof module',
  'typeof fetch',
  'typeof WebSocket',
  'typeof EventSource',
  'typeof Worker',
  'typeof BroadcastChannel',
  'typeof MessageChannel',
  'typeof MessagePort',
  'typeof gc',
  'typeof navigator',
  'typeof localStorage',
  'typeof PerformanceObserver',
  'typeof globalThis.process',
  'typeof globalThis.constructor.process',
  'typeof import.meta.url',
  'typeof import.meta.resolve',
];

const PRESENT = [
  'Buffer',
  'URL',
  'URLSearchParams',
  'TextEncoder',
  'TextDecoder',
  'AbortController',
  'AbortSignal.any',
  'Headers',
  'Request',
  'Response',
  'Blob',
  'FormData',
  'crypto.randomUUID',
  'crypto.subtle.digest',
  'structuredClone',
  'queueMicrotask',
  'setTimeout',
  'setImmediate',
  'performance.now',
  'Intl.DateTimeFormat',
  'WebAssembly.compile',
  'atob',
  'ReadableStream',
  'CompressionStream',
];

/** Ways to what the surface hides; none may succeed. Each is the body of an async function. */
const ESCAPES: Record<string, string> = {
  eval: `return (0, eval)('1 + 1')`,
  'direct eval': `return eval('1 + 1')`,
  Function: `return new Function('return 1')()`,
  'Function through this': `return this.constructor.constructor('return 1')()`,
  'Function through an object': `return ({}).constructor.constructor('return 1')()`,
  'Function through globalThis': `return globalThis.constructor.constructor('return 1')()`,
  AsyncFunction: `return (async () => {}).constructor('return 1')()`,
  GeneratorFunction: `return (function* () {}).constructor('yield 1')().next()`,
  AsyncGeneratorFunction: `return (async function* () {}).constructor('yield 1')().next()`,
  'a class of Function': `return new (class extends Function {})('return 1')()`,
  'Function as a target': `return Reflect.construct(Function, ['return 1'], Object)()`,
  'Function of AsyncFunction': `return Object.getPrototypeOf((async () => {}).constructor)('return 1')()`,
  'Function of a method of Array': `return [].at.constructor('return 1')()`,
  'Function of a bound function': `return (() => {}).bind().constructor('return 1')()`,
  'Function of a timer': `return setTimeout(() => {}, 0).constructor.constructor('return 1')()`,
  'Function of what shows a logged value': `
    let show;
    console.log({ [Symbol.for('nodejs.util.inspect.custom')]: (_depth, _options, inspect) => { show = inspect; } });
    return show.constructor('return 1')()`,
  'Function of a call site': `
    Error.prepareStackTrace = (error, sites) => sites;
    const [site] = new Error().stack;
    Error.prepareStackTrace = undefined;
    return site.getLineNumber.constructor('return 1')()`,
  'import node:fs': `return import('node:fs')`,
  'import node:fs by what is text the second time': `
    let asked = 0;
    return import({ toString: () => (asked++ === 0 ? 'node:fs' : './echo.js') })`,
  'import fs': `return import('fs')`,
  'import node:process': `return import('node:process')`,
  'import better-sqlite3': `return import('better-sqlite3')`,
  'import a file URL': `return import('file:///etc/passwd')`,
  'import a data URL': `return import('data:text/javascript,export default 1')`,
  'import an absolute path': `return import('/etc/hostname')`,
  'import out of the app': `return import('../../../../../etc/hostname.js')`,
  'process.binding': `return process.binding('fs')`,
  'timer with text': `return setTimeout('process', 0)`,
  'wasm with wasi': `const { WASI } = await import('node:wasi'); return new WASI()`,
};

/** What the commons do not have, or refuse by a move. */
const IN_THREADS = /import|inspect\.custom|setTimeout\('/;

const CLIENT = `export default async () => {
  const isLoaded = () => Object.getOwnPropertySymbols(globalThis).some((one) => String(one).includes('undici'));
  const before = isLoaded();
  const request = new Request('http://a/', { method: 'POST', body: new FormData(), headers: new Headers({ b: 'c' }) });
  const closed = [FormData, Headers, Request, Response].every((one) => Object.isFrozen(one) && Object.isFrozen(one.prototype));
  return [before, isLoaded(), closed, request.headers.get('b'), request instanceof Request, new Response('d').status];
};`;

let supervisor: FakeSupervisor;
/** `app` stays where it begins; `own` always has a thread. */
let app: App;
let own: App;
let began = false;

const handler = (body: string): string => `export default async ({ db, log, app, ctx, input }) => { ${body} };`;
const absent = (names: string[]): string =>
  handler(`return { ${names.map((name) => `[${JSON.stringify(name)}]: ${name}`).join(', ')} }`);
const escapes = (inThreads: boolean): Record<string, string> =>
  Object.fromEntries(
    Object.values(ESCAPES).flatMap((body, i) =>
      IN_THREADS.test(body) === inThreads
        ? [[`queries/escape${i}.js`, `export default async function () { ${body} }`]]
        : [],
    ),
  );

before(async () => {
  supervisor = await FakeSupervisor.start({ spare: false });
  own = await supervisor.app({
    files: {
      ...escapes(true),
      'queries/absent.js': absent(ABSENT.filter((name) => IN_THREADS.test(name))),
      'queries/present.js': handler(
        `return { ${PRESENT.map((name) => `[${JSON.stringify(name)}]: typeof ${name}`).join(', ')} }`,
      ),
      'queries/memory.js': handler(`
        const used = [];
        for (let round = 0; round < 500; round++) {
          for (const make of [Buffer.allocUnsafe, Buffer.allocUnsafeSlow])
            for (const size of [100, 5000, 100_000]) used.push(make(size));
          const dirty = used.filter((bytes) => bytes.some((byte) => byte !== 0)).length;
          if (dirty > 0) return dirty;
          for (const bytes of used) bytes.fill(7);
          used.length = 0;
        }
        return 0;`),
      'queries/fetch.js': handler(`
        const response = await ctx.fetch(input.url, { method: 'POST', body: 'x' });
        return { status: response.status, text: await response.text() };`),
    },
  });
  app = await supervisor.app({
    files: {
      ...escapes(false),
      'queries/absent.js': absent(ABSENT.filter((name) => !IN_THREADS.test(name))),
      'queries/functions.js': handler(`
        const kinds = [() => {}, async () => {}, function* () {}, async function* () {}];
        const thrown = [];
        try { new Function('return 1'); } catch (error) { thrown.push(error.name); }
        return [...kinds.map((one) => one.constructor.name), kinds.every((one) => one instanceof Function), ...thrown];`),
      'queries/callsites.js': handler(`
        const seen = [];
        Error.prepareStackTrace = (error, sites) => {
          for (const site of sites) seen.push(site.getThis(), site.getFunction());
          return '';
        };
        try { await db.get('not sql'); } catch (error) { void error.stack; }
        void new Error('here').stack;
        Error.prepareStackTrace = undefined;
        return seen.filter((value) => value !== undefined).length;`),
      'queries/patch.js': handler(`
        const attempts = [
          () => { JSON.stringify = () => '"patched"'; },
          () => { JSON.parse = () => ({}); },
          () => { Date.now = () => 0; },
          () => { globalThis.Request = class {}; },
          () => { Function.prototype.toJSON = () => 'patched'; },
        ];
        for (const attempt of attempts) try { attempt(); } catch {}
        return { a: 1 };`),
      'queries/echo.js': handler('return input'),
    },
  });
  began = app.inCommons;
});

after(() => supervisor.close());

test('globals that reach the machine are missing', async () => {
  const found = { ...((await app.query('absent')).value as object), ...((await own.query('absent')).value as object) };
  assert.deepEqual(found, Object.fromEntries(ABSENT.map((name) => [name, 'undefined'])));
});

test('new memory is empty', async () => {
  assert.equal((await own.query('memory')).value, 0);
});

test('the language and the web data types are there', async () => {
  const { value } = await own.query('present');
  for (const [name, type] of Object.entries(value as object)) assert.notEqual(type, 'undefined', name);
});

for (const [i, [name, body]] of Object.entries(ESCAPES).entries()) {
  test(`no way out: ${name}`, async () => {
    const { code } = await failure((IN_THREADS.test(body) ? own : app).query(`escape${i}`));
    assert.equal(code, 'HANDLER_ERROR');
    assert.equal(app.inCommons, began, `it left: ${app.left}`);
  });
}

test('functions are still of their classes, which make none', async () => {
  const { value } = await app.query('functions');
  assert.deepEqual(value, [
    'Function',
    'AsyncFunction',
    'GeneratorFunction',
    'AsyncGeneratorFunction',
    true,
    'EvalError',
  ]);
});

test('call sites give neither receivers nor functions', async () => {
  assert.equal((await app.query('callsites')).value, 0);
});

test('a handler that patches built-ins does not break later calls', async () => {
  await app.query('patch');
  assert.deepEqual((await app.query('echo', { b: [1] })).value, { b: [1] });
});

test("Node's HTTP client is loaded with the first use of a class of it, which is closed then", async () => {
  const { value } = await (await supervisor.app({ files: { 'queries/client.js': CLIENT } })).query('client');
  assert.deepEqual(value, [false, true, true, 'c', true, 200]);
});

test('ctx.fetch reaches only http addresses', async (t) => {
  const server = createServer((request, response) => response.writeHead(201).end(`got ${request.method}`)).listen(
    0,
    '127.0.0.1',
  );
  t.after(() => server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  assert.deepEqual((await own.query('fetch', { url })).value, { status: 201, text: 'got POST' });
  for (const refused of ['file:///etc/hostname', 'data:text/plain,x', 'blob:nodedata:x']) {
    await assert.rejects(own.query('fetch', { url: refused }), /takes http and https addresses/);
  }
});
