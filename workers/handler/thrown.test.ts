/** What handlers throw, through a real host: what the caller gets, and what the app's log says of it. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { encode } from '@jridgewell/sourcemap-codec';
import { type App, type AppSource, FakeSupervisor, failure } from '../../testing/fake-supervisor.ts';

/** Statements of a query that throw → the message of the answer, and the stack in the log; null where there is none. */
const THROWN: [body: string, message: string | RegExp, stack: RegExp | null][] = [
  [
    'throw new TypeError("no such thing");',
    'no such thing',
    /^TypeError: no such thing\n {4}at default \(queries\/q\d*\.js:1:\d+\)$/,
  ],
  [
    'const inner = () => { null.x; }; inner();',
    /of null/,
    /^TypeError: [^\n]+\n {4}at inner \(queries\/q\d*\.js:1:\d+\)\n {4}at default \(queries\/q\d*\.js:1:\d+\)$/,
  ],
  ['await Promise.reject(new RangeError("later"));', 'later', /^RangeError: later\n {4}at default \(queries/],
  ['class Own extends Error { get name() { return "Mine"; } } throw new Own("m");', 'm', /^Mine: m\n/],
  ['throw new AggregateError([new Error("a"), 1], "all");', 'all', /^AggregateError: all\n/],
  ['throw Object.assign(new Error("x"), { code: "QUARANTINED", status: 200 });', 'x', /^Error: x\n/],
  ['const e = new Error("a"); e.cause = e; throw e;', 'a', /^Error: a\n/],
  ['throw new Error("a\\n    at b (c:1:1)\\nd");', 'a\n    at b (c:1:1)\nd', /^Error: a\n/],
  ['throw new Error("x".repeat(1e5));', /^x{2000}/, null],
  ['const e = new Error("x"); e.stack = { toString() { return "own"; } }; throw e;', 'x', /^own$/],
  ['const e = new Error("x"); Object.defineProperty(e, "stack", { get() { throw 1; } }); throw e;', 'x', null],
  ['const e = new Error("x"); e.message = { toString() { throw 1; } }; throw e;', /cannot be shown/, null],
  [
    'Error.stackTraceLimit = 0; try { null.x; } finally { Error.stackTraceLimit = 10; }',
    /of null/,
    /^TypeError: [^\n]+$/,
  ],
  ['throw null;', 'The handler threw null, which is no Error.', null],
  ['throw "text";', 'text', null],
  ['throw Symbol("s");', 'The handler threw Symbol(s), which is no Error.', null],
  ['throw 10n;', 'The handler threw 10, which is no Error.', null],
  ['throw { get message() { throw new Error("inner"); } };', /cannot be shown/, null],
  ['const a = {}; a.a = a; throw a;', /cannot be shown/, null],
  [
    'throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; }, ownKeys() { throw 3; } });',
    /cannot be shown/,
    null,
  ],
  ['const { proxy, revoke } = Proxy.revocable(new Error("r"), {}); revoke(); throw proxy;', /cannot be shown/, null],
  ['throw Object.create(null);', 'The handler threw {}, which is no Error.', null],
  ['JSON.parse("{");', /JSON/, /^SyntaxError: [^\n]+\n {4}at JSON\.parse \(<anonymous>\)\n {4}at default/],
  ['return { toJSON() { throw new Error("j"); } };', /j/, /^SvcError: The result cannot be sent as JSON: j\.$/],
  ['return { then(a, b) { b(new Error("then")); } };', 'then', /^Error: then\n/],
];

let supervisor: FakeSupervisor;
before(async () => {
  supervisor = await FakeSupervisor.start({ spare: false });
});
after(() => supervisor.close());

const handler = (body: string): string => `export default async ({ db, ctx }) => { ${body} };`;
const query = (body: string): AppSource => ({ files: { 'queries/q.js': handler(body) } });

/** Of a query, which leaves its app where it began. */
async function thrownBy(app: App, name = 'q'): Promise<{ message: string; stack: string | undefined; cause: unknown }> {
  const began = app.inCommons;
  const { message } = await failure(app.query(name));
  const line = await app.log(({ tool }) => tool === name);
  const { stack, cause } = (line.err ?? {}) as { stack?: string; cause?: unknown };
  assert.equal(app.inCommons, began, `it left: ${app.left}`);
  return { message, stack, cause };
}

test('what is thrown', async () => {
  const files = THROWN.map(([body], n) => [`queries/q${n}.js`, handler(body)] as const);
  const app = await supervisor.app({ files: Object.fromEntries(files) });
  for (const [n, [body, expected, expectedStack]] of THROWN.entries()) {
    const { message, stack } = await thrownBy(app, `q${n}`);
    if (typeof expected === 'string') assert.equal(message, expected, body);
    else assert.match(message, expected, body);
    if (expectedStack === null) assert.equal(stack, undefined, body);
    else assert.match(String(stack), expectedStack, body);
  }
});

test('no secret is left in a message, a stack or a cause', async () => {
  const app = supervisor.startApp(
    query('const key = await ctx.secrets.get("KEY"); throw new Error("of " + key, { cause: key + "!" });'),
  );
  await app.ready;
  app.secrets({ KEY: 'sk_live_51' });
  const { message, stack, cause } = await thrownBy(app);
  assert.deepEqual([message, cause], ['of [secret KEY]', '[secret KEY]!']);
  assert.match(String(stack), /^Error: of \[secret KEY\]\n {4}at default/);
});

test('places in packages and in TypeScript are those of their sources', async () => {
  const map = { sources: ['../../node_modules/@a/b/lib/one.js'], mappings: encode([[[0, 0, 41, 7]]]) };
  const app = await supervisor.app({
    files: {
      'queries/q.js': 'import { fail } from "@a/b";\nexport default () => fail();',
      '_packages/@a/b.js': 'export function fail() { throw new Error("of a package"); }',
      '_packages/@a/b.js.map': JSON.stringify(map),
    },
  });
  const { stack } = await thrownBy(app);
  assert.match(
    String(stack),
    /^Error: of a package\n {4}at fail \(node_modules\/@a\/b\/lib\/one\.js:42:8\)\n {4}at default \(queries\/q\.js:2:22\)$/,
  );
});

test('a rejection that nobody handles is told of, whatever the app made of its promise', async () => {
  const neighbour = await supervisor.app(query('return 1;'));
  for (const hide of [
    '',
    'Object.setPrototypeOf(lost, null);',
    'Object.setPrototypeOf(lost, new Proxy(Promise.prototype, { getPrototypeOf() { for (;;); } }));',
    'const p = new Proxy({}, { getPrototypeOf() { return p; } }); Object.setPrototypeOf(lost, p);',
  ]) {
    const app = await supervisor.app(query(`const lost = Promise.reject(new Error('lost')); ${hide} return 2;`));
    const began = app.inCommons;
    assert.equal((await app.query('q')).value, 2);
    await app.log(({ msg }) => msg === 'Unhandled promise rejection: lost');
    assert.deepEqual([(await app.query('q')).value, app.inCommons], [2, began], hide);
    assert.deepEqual([(await neighbour.query('q')).value, neighbour.inCommons], [1, began]);
  }
});

test('files are read, in a thread', async () => {
  const content = 'what it holds';
  const sha256 = createHash('sha256').update(content).digest('hex');
  const app = await supervisor.app(
    query(
      `const at = "${sha256}"; return [(await ctx.blobs.stat(at)).size, String(await ctx.blobs.get(at)), await ctx.blobs.get("0".repeat(64))];`,
    ),
  );
  const began = app.inCommons;
  const folder = String(app.spec.blobs.own);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, sha256), content);
  assert.deepEqual((await app.query('q')).value, [content.length, content, null]);
  if (began) assert.deepEqual([app.inCommons, app.left], [false, 'globals']);
});
