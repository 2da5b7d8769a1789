/** The web's globals in handlers, beside those of this process. In the commons they are made for each realm: what is seen is the same. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ToolKind } from '../../protocol/wire/frames.ts';
import { FakeSupervisor } from '../../testing/fake-supervisor.ts';

/** Expressions, by what they show. What they throw is compared too. */
const EXPRESSIONS: Record<string, string[]> = {
  URL: [
    `new URL('../x?y=1&y=2#z', 'https://u:p@exämple.com:8080/a/b/c')`,
    `(() => { const { href, origin, protocol, username, password, host, hostname, port, pathname, search, hash } = new URL('http://u:p@h:81/p?q#f'); return [href, origin, protocol, username, password, host, hostname, port, pathname, search, hash]; })()`,
    `(() => { const u = new URL('http://h/'); Object.assign(u, { protocol: 'https', username: 'ü', password: 'p', host: 'x:99', hostname: 'y', port: 8, pathname: 'a b', search: 'q=ä', hash: 'h' }); return u.href; })()`,
    `(() => { const u = new URL('http://h/?a=1'); const s = u.searchParams; s.append('b', 'c d'); const one = u.href; u.search = '?x=y'; const two = [...s]; u.href = 'http://i/?k'; s.delete('k'); return [one, two, s === u.searchParams, u.href, s.size]; })()`,
    `(() => { const u = new URL('http://h/?a=1#f'); u.searchParams.set('a', '&=+ %'); u.searchParams.sort(); return [String(u), JSON.stringify({ u }), u.search]; })()`,
    `(() => { const u = new URL('http://h/?b=1&a=2'); const out = []; for (const [k] of u.searchParams) { out.push(k); u.searchParams.delete(k); } return [out, u.href]; })()`,
    `(() => { const found = []; for (const key in new URL('http://h/')) found.push(key); return found.sort(); })()`,
    `[URL.canParse('x'), URL.canParse('x', 'http://h'), URL.canParse({ toString: () => 'http://o' })]`,
    `typeof URL.parse === 'function' ? [URL.parse('x'), URL.parse('x', 'http://h')] : 'none'`,
    `[new URL('http://h') instanceof URL, URL.name, Object.prototype.toString.call(new URL('http://h')), new URL('http://h').constructor === URL]`,
    `new (class extends URL { get extra() { return this.host; } })('http://h:1').extra`,
    `new URL('nothing')`,
    `new URL('x', 'y')`,
    `(() => { try { new URL('x', 'y'); } catch (error) { return [error instanceof TypeError, error.code, error.input, error.base]; } })()`,
    `(() => { try { new URL('http://h').href = 'x'; } catch (error) { return [error.code, error.input]; } })()`,
    `new URL(Symbol('s'))`,
    `new URL({ toString() { throw new RangeError('mine'); } })`,
    `Array.from('http https ftp ws file data'.split(' '), (s) => new URL(s + '://h:80/%7Efoo/../bar?x#y').href + new URL(s + ':a').origin)`,
  ],
  URLSearchParams: [
    `new URLSearchParams('?a=1&b=%C3%A4&c=+x&d').toString()`,
    `[...new URLSearchParams([['a', 1], new Set(['b', 2])])]`,
    `[...new URLSearchParams({ a: 1, b: null, c: undefined, d: 'x y' })]`,
    `[...new URLSearchParams(new URLSearchParams('a=1&a=2'))]`,
    `[...new URLSearchParams(new Map([['k', 'v']]))]`,
    `[new URLSearchParams().size, new URLSearchParams(null).toString(), new URLSearchParams(5).toString()]`,
    `(() => { const p = new URLSearchParams('a=1&b=2&a=3'); return [p.get('a'), p.get('z'), p.getAll('a'), p.has('a', '3'), p.has('a', '4'), [...p.keys()], [...p.values()], [...p.entries()]]; })()`,
    `(() => { const p = new URLSearchParams('c=1&a=2&b=3&a=1'); p.sort(); p.set('a', 9); p.set('n', 1); p.delete('b'); p.delete('c', '2'); p.append('\\ud800', 'x'); return String(p); })()`,
    `(() => { const seen = []; new URLSearchParams('a=1&b=2').forEach(function (v, k, p) { seen.push(v, k, p.size, this.t); }, { t: 5 }); return seen; })()`,
    `(() => { const i = new URLSearchParams('a=1').entries(); return [Object.prototype.toString.call(i), i.next(), i.next(), i[Symbol.iterator]() === i]; })()`,
    `[URLSearchParams.prototype[Symbol.iterator] === URLSearchParams.prototype.entries, String(new URLSearchParams([])), Object.keys(new URLSearchParams('a=1'))]`,
  ],
  TextEncoder: [
    `[...new TextEncoder().encode('aä€😀\\ud800')]`,
    `[new TextEncoder().encode() instanceof Uint8Array, new TextEncoder().encode().length, new TextEncoder().encoding]`,
    `(() => { const to = new Uint8Array(5); return [new TextEncoder().encodeInto('a€€', to), [...to]]; })()`,
    `(() => { const all = new Uint8Array(8); return [new TextEncoder().encodeInto('xyz', all.subarray(2, 4)), [...all]]; })()`,
    `new TextEncoder().encode(Symbol('s'))`,
  ],
  TextDecoder: [
    `new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 97, 0xc3, 0xa4, 0xff]))`,
    `new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array([0xef, 0xbb, 0xbf, 97])).length`,
    `new TextDecoder('utf-16le').decode(new Uint16Array([97, 228]))`,
    `new TextDecoder('latin1').decode(new Uint8Array([228, 128]))`,
    `(() => { const d = new TextDecoder(); return [d.decode(new Uint8Array([0xe2, 0x82]), { stream: true }), d.decode(new Uint8Array([0xac])), d.decode(), d.encoding, d.fatal, d.ignoreBOM]; })()`,
    `[new TextDecoder().decode(new DataView(new Uint8Array([97, 98, 99]).buffer, 1, 1)), new TextDecoder().decode(new Uint8Array([97]).buffer)]`,
    `new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([0xff]))`,
    `(() => { try { new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([0xff])); } catch (error) { return [error instanceof TypeError, error.code]; } })()`,
    `new TextDecoder('nothing')`,
    `(() => { try { new TextDecoder('nothing'); } catch (error) { return [error instanceof RangeError, error.code]; } })()`,
  ],
  structuredClone: [
    `(() => { const a = { n: 1, b: 2n, u: undefined, d: new Date(5), list: [1, , 3], deep: { x: 'y' } }; a.self = a; const c = structuredClone(a); return [c !== a, c.self === c, c.n, typeof c.b, 'u' in c, c.d.getTime(), c.d !== a.d, c.list.length, 1 in c.list, c.deep.x, c.deep !== a.deep]; })()`,
    `(() => { const m = new Map([[{ k: 1 }, new Set([1, [2]])]]); const c = structuredClone(m); return [c instanceof Map, [...c].map(([k, v]) => [k, [...v]])]; })()`,
    `(() => { const b = new Uint8Array([1, 2, 3, 4]); const c = structuredClone({ a: b.subarray(1, 3), all: b.buffer, f: new Float64Array([0.5]), v: new DataView(b.buffer, 2) }); return [[...c.a], c.a.buffer === c.all, c.v.buffer === c.all, c.v.getInt8(0), c.f[0], c.a instanceof Uint8Array]; })()`,
    `[structuredClone(1), structuredClone('s'), structuredClone(null), structuredClone(undefined), structuredClone(true)]`,
    `(() => { const o = Object.create(null); o.__proto__ = { x: 1 }; const c = structuredClone(o); return [Object.getPrototypeOf(c) === Object.prototype, Object.keys(c)]; })()`,
    `structuredClone({ get a() { return [this.b]; }, b: 4, [Symbol('s')]: 5 })`,
    `structuredClone({ get a() { throw new RangeError('mine'); } })`,
  ],
  crypto: [
    `[/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()), crypto.randomUUID() === crypto.randomUUID()]`,
    `(() => { const a = new Uint32Array(64); const same = crypto.getRandomValues(a) === a; return [same, new Set(a).size > 32]; })()`,
    `(() => { const a = new Uint8Array(200); crypto.getRandomValues(a.subarray(50, 100)); return [a.slice(0, 50).every((n) => n === 0), a.slice(100).every((n) => n === 0), a.slice(50, 100).some((n) => n !== 0)]; })()`,
    `[crypto instanceof Crypto, Object.prototype.toString.call(crypto)]`,
  ],
  base64: [
    `[btoa('aÿ'), atob('YQ=='), atob(' Y Q '), btoa(''), btoa(5), atob('YWI'), btoa(null)]`,
    `btoa(Symbol('s'))`,
  ],
  members: [
    ...['URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'Crypto'].map(
      (name) =>
        `(() => { const own = (o) => Reflect.ownKeys(o).filter((k) => typeof k === 'string' || k === Symbol.iterator || k === Symbol.toStringTag).map(String).sort(); return [own(${name}).filter((k) => k !== 'length'), own(${name}.prototype), Object.keys(${name}.prototype).sort(), ${name}.prototype[Symbol.toStringTag]]; })()`,
    ),
    `[typeof Symbol.dispose, typeof Symbol.asyncDispose]`,
  ],
};

/** What Node refuses in its own words, with an object of its thread: the app runs again in a thread. */
const REFUSED = [
  `new URL()`,
  `URL.createObjectURL(new (class Blob {})())`,
  `new URLSearchParams([[1]])`,
  `new URLSearchParams('a').append('x')`,
  `new TextEncoder().encodeInto('a', [])`,
  `new TextDecoder().decode('text')`,
  `structuredClone(() => {})`,
  `structuredClone(new Error('e')).message`,
  `structuredClone(/x/g).source`,
  `structuredClone(new Proxy({}, {}))`,
  `structuredClone(new Uint8Array(2).buffer, { transfer: [] }).byteLength`,
  `crypto.getRandomValues(new Float64Array(1))`,
  `crypto.getRandomValues(new Uint8Array(65_537))`,
  `typeof crypto.subtle`,
  `atob('*')`,
  `btoa('€')`,
];

/** `thrown` of an expression, or its value. In a handler, globals are closed; here they are not, which no expression shows. */
const OUTCOME = `const outcome = (run) => {
  try { const value = run(); return value === undefined ? 'undefined' : JSON.stringify(value); }
  catch (error) { return error.name + ': ' + error.message + (error.code === undefined ? '' : ' ' + error.code); }
};`;

const handler = (expression: string): string => `${OUTCOME}\nexport default () => outcome(() => ${expression});\n`;

function here(expression: string): unknown {
  return new Function(`${OUTCOME} return outcome(() => ${expression});`)();
}

let supervisor: FakeSupervisor;
before(async () => {
  supervisor = await FakeSupervisor.start({ spare: false });
});
after(() => supervisor.close());

for (const [name, expressions] of Object.entries(EXPRESSIONS)) {
  test(`${name} is as in this process`, async () => {
    const files = Object.fromEntries(expressions.map((expression, n) => [`queries/q${n}.js`, handler(expression)]));
    const app = await supervisor.app({ files });
    const began = app.inCommons;
    for (const [n, expression] of expressions.entries())
      assert.equal((await app.query(`q${n}`)).value, here(expression), expression);
    assert.equal(app.inCommons, began, `it left: ${app.left}`);
  });
}

test('they are closed', async () => {
  const query = `export default () => [URL, TextDecoder, crypto, structuredClone, atob].every((one) => Object.isFrozen(one)
    && (one.prototype === undefined || Object.isFrozen(one.prototype)))`;
  assert.equal((await (await supervisor.app({ files: { 'queries/q.js': query } })).query('q')).value, true);
});

test('what they refuse is refused in Node’s words', async () => {
  for (const expression of REFUSED) {
    const app = await supervisor.app({ files: { 'queries/q.js': handler(expression) } });
    const began = app.inCommons;
    assert.equal((await app.query('q')).value, here(expression), expression);
    if (began) assert.deepEqual([app.inCommons, app.left], [false, 'globals'], expression);
  }
});

test('random values keep a result from being kept, and the others do not', async () => {
  const cases: [expression: string, keeps: boolean][] = [
    [`new URL('http://h').searchParams.size + new TextEncoder().encode('a').length + atob('YQ==')`, true],
    [`structuredClone({ a: 1 })`, true],
    [`crypto.randomUUID()`, false],
    [`crypto.getRandomValues(new Uint8Array(4))[0]`, false],
  ];
  for (const [expression, keeps] of cases) {
    const app = await supervisor.app({ files: { 'queries/q.js': `export default () => ${expression};` } });
    await app.call(ToolKind.tracked, 'q', '{}');
    assert.equal(app.reads?.[3], keeps, expression);
  }
});
