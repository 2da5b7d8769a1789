import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type App, FakeSupervisor, failure } from '../../testing/fake-supervisor.ts';

/** Body of a query → the value that its caller gets. */
const QUERIES: [body: string, value: unknown][] = [
  ['return { a: 1, b: [true, null, "x"] }', { a: 1, b: [true, null, 'x'] }],
  ['return { status: 404, body: "verbatim" }', { status: 404, body: 'verbatim' }],
  ['return', null],
  ['return null', null],
  ['return 0', 0],
  ['return ""', ''],
  ['return { a: undefined, b: [undefined] }', { b: [null] }],
  ['return 5n', 5],
  ['return { big: 9007199254740993n, small: -3n }', { big: '9007199254740993', small: -3 }],
  ['return Buffer.from("hi")', 'aGk='],
  ['return { bytes: new Uint8Array([1, 2, 3]).subarray(1) }', { bytes: 'AgM=' }],
  ['return new Date(0)', '1970-01-01T00:00:00.000Z'],
  ['return [NaN, Infinity]', [null, null]],
  ['return new (class Point { x = 1 })()', { x: 1 }],
  [
    'return { n: new Number(1), at: new Date(0), of: Object.create(null) }',
    { n: 1, at: '1970-01-01T00:00:00.000Z', of: {} },
  ],
  ['return { toJSON() { return "own" } }', 'own'],
  ['return "grüße \\u2028 \\ud83d\\ude00"', 'grüße \u2028 😀'],
  // What an app stringifies itself follows the language's rules, not those for results.
  [
    'return JSON.stringify({ f() {}, b: Buffer.from("a"), u: new Uint8Array(1) })',
    '{"b":{"type":"Buffer","data":[97]},"u":{"0":0}}',
  ],
];

/** Body of an action → the status and the body that its caller gets. */
const ACTIONS: [body: string, status: number, value: unknown][] = [
  ['return { id: 1 }', 200, { id: 1 }],
  ['return { body: { id: 1 } }', 200, { id: 1 }],
  ['return { status: 201, body: { id: 1 } }', 201, { id: 1 }],
  ['return { status: 409, body: "taken", other: 1 }', 409, 'taken'],
  ['return { status: 204 }', 204, null],
  ['return { body: undefined }', 200, null],
  ['return { status: undefined, body: 1 }', 200, 1],
  ['return { status: "open" }', 200, { status: 'open' }],
  ['return { status: 1, id: 2 }', 200, { status: 1, id: 2 }],
  ['return [{ body: 1 }]', 200, [{ body: 1 }]],
  ['return new (class { body = 1 })()', 200, { body: 1 }],
  ['return', 200, null],
];

/** Body of an action → a part of the message that its caller gets, and the path. */
const REFUSED: [body: string, message: RegExp, path?: string][] = [
  ['return { status: 199, body: 1 }', /status must be an integer from 200 to 599/],
  ['return { status: 600 }', /status must be an integer/],
  ['return { status: 200.5, body: 1 }', /status must be an integer/],
  ['return { status: "200", body: 1 }', /status must be an integer/],
  ['return { status: null, body: 1 }', /status must be an integer/],
  ['return () => 1', /cannot be sent as JSON: it is a function\./, ''],
  ['return { a: [{ f() {} }] }', /it contains a function at \/a\/0\/f\./, '/a/0/f'],
  ['return { body: [() => 1] }', /it contains a function at \/0\./, '/0'],
  ['return Symbol("x")', /it is a symbol/, ''],
  ['return { "a/b": { "c~": [1, Symbol("x")] } }', /it contains a symbol at/, '/a~1b/c~0/1'],
  ['return { m: new Map([[1, 2]]) }', /it contains a Map at \/m\./, '/m'],
  ['return [new Set([1])]', /it contains a Set at \/0\./, '/0'],
  ['return { rows: Promise.resolve([]) }', /it contains a Promise at \/rows/, '/rows'],
  ['return { failed: new RangeError("x") }', /it contains an Error at \/failed/, '/failed'],
  ['return { r: /x/ }', /it contains a RegExp/, '/r'],
  ['return { n: new Float64Array(2) }', /it contains a Float64Array/, '/n'],
  ['return { b: new ArrayBuffer(2) }', /it contains an ArrayBuffer/, '/b'],
  ['return { keys: new Map().keys() }', /it contains a Map Iterator/, '/keys'],
  ['const a = {}; a.self = a; return a', /circular structure/],
  ['return { get a() { throw new Error("no") } }', /cannot be sent as JSON: no\./],
  ['return "x".repeat(1024 * 1024)', /over the limit of 1048576 bytes \(maxResultBytes\)/],
  // A heap of 64 MiB cannot hold a copy of it, and V8 ends the process when a single allocation does not fit.
  ['return "x".repeat(200 * 1024 * 1024)', /over the limit of 1048576 bytes/],
  ['return { rows: ["x".repeat(200 * 1024 * 1024)] }', /over the limit of 1048576 bytes/],
  ['return new Uint8Array(48 * 1024 * 1024)', /over the limit of 1048576 bytes/],
  [`return db.json("select printf('%.*c', 1048576, 'x') t")`, /over the limit of 1048576 bytes/],
  [`return { a: await db.json("select printf('%.*c', 1048576, 'x') t") }`, /over the limit of 1048576 bytes/],
  ['return "ä".repeat(600 * 1024)', /over the limit of 1048576 bytes/],
];

let supervisor: FakeSupervisor;
let app: App;

before(async () => {
  supervisor = await FakeSupervisor.start({ spare: false });
  const handlers = (folder: string, rows: [string, ...unknown[]][]): Record<string, string> =>
    Object.fromEntries(rows.map(([body], i) => [`${folder}${i}.js`, `export default async ({ db }) => { ${body} }`]));
  app = await supervisor.app({
    files: {
      ...handlers('queries/ok', QUERIES),
      ...handlers('actions/ok', ACTIONS),
      ...handlers('actions/refused', REFUSED),
    },
  });
});

after(() => supervisor.close());

for (const [i, [body, value]] of QUERIES.entries()) {
  test(`query: ${body}`, async () => {
    const outcome = await app.query(`ok${i}`);
    assert.deepEqual([outcome.status, outcome.value], [200, value]);
  });
}

for (const [i, [body, status, value]] of ACTIONS.entries()) {
  test(`action: ${body}`, async () => {
    const outcome = await app.action(`ok${i}`);
    assert.deepEqual([outcome.status, outcome.value], [status, value]);
  });
}

for (const [i, [body, message, path]] of REFUSED.entries()) {
  test(`refused: ${body}`, async () => {
    const error = await failure(app.action(`refused${i}`));
    assert.deepEqual([error.code, error.path], ['HANDLER_ERROR', path]);
    assert.match(error.message, message);
    assert.match((await app.log((line) => line.tool === `refused${i}`)).msg, message);
  });
}
