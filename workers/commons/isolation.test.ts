/** What app code in the commons can reach: its own realm, and nothing of another app. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ToolKind } from '../../protocol/wire/frames.ts';
import { type App, beginIn, FakeSupervisor, failure } from '../../testing/fake-supervisor.ts';

beginIn('commons');
let supervisor: FakeSupervisor;
before(async () => {
  supervisor = await FakeSupervisor.start();
});
after(() => supervisor.close());

/** What the web's globals give. */
const WEB = `function ofTheWeb() {
  const failed = (run) => { try { return run(); } catch (error) { return error; } };
  const url = new URL('/p?a=1#h', 'http://u@h:1');
  const { searchParams } = url;
  searchParams.append('b', 'c');
  const iterator = searchParams.entries();
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const bytes = new TextEncoder().encode('aä');
  return [url, url.href, searchParams, iterator, iterator.next(), [...searchParams], searchParams.getAll('a'), decoder, bytes, bytes.buffer,
    new TextEncoder(), new TextEncoder().encodeInto('x', bytes), decoder.decode(new Uint8Array([97])), crypto, crypto.randomUUID(),
    crypto.getRandomValues(new Uint8Array(2)), structuredClone({ m: new Map([[{}, new Set([bytes])]]), d: new Date(0), v: new DataView(bytes.buffer) }),
    atob('YQ=='), btoa('a'), failed(() => new URL('x', 'y')), failed(() => decoder.decode(new Uint8Array([255]))),
    failed(() => new TextDecoder('none')), failed(() => { url.href = 'x'; }), failed(() => new URL(Symbol())), URL.canParse('x')];
}`;

/** Walks from what a handler has, and gives the paths of objects whose last prototype is not this realm's. */
const WALK = `
const own = Object.prototype;
const { inspect } = { inspect: Symbol.for('nodejs.util.inspect.custom') };

/** What these functions give and throw when there is hardly any stack left. */
async function atTheEnd(functions) {
  const found = {};
  for (const [name, run] of Object.entries(functions)) {
    const seen = [];
    let left = 40;
    (function down() {
      try { down(); } catch (error) { seen.push([name, error]); }
      if (left-- > 0) try { seen.push([name, run()]); } catch (error) { seen.push([name, error]); }
    })();
    const settled = await Promise.allSettled(seen.map(([, value]) => value));
    for (const [i, { value, reason }] of settled.entries()) Object.assign(found, { [name + i]: value, [name + i + '!']: reason });
    // As below.
    await new Promise((go) => setTimeout(go));
  }
  return found;
}

${WEB}

/** What code of an app is given while its values are written to the console. */
function written(log) {
  const given = [];
  Error.prepareStackTrace = (error, sites) => { given.push(sites); return 'Error: x\\n    at a (b:1:1)'; };
  const hook = function (...all) { given.push(this, all); return 'hook'; };
  const evil = { [inspect]: hook, get [Symbol.toStringTag]() { this.child = new Error(); return ''; }, toString: hook, toJSON: hook };
  const values = [new Error('x'), Object.assign(new Error('y'), { code: 1 }), { e: new Error('z') }, evil, [evil], class { static [inspect](...all) { return hook(...all); } },
    new Proxy({}, { get: (...all) => hook(...all), ownKeys: (...all) => (hook(...all), []), getPrototypeOf: (...all) => (hook(...all), null) })];
  Object.prototype.valueOf = evil;
  Object.prototype.constructor = hook;
  for (const value of values) {
    for (const text of ['%o', '%O', '%s', '%j', '%d', '']) try { console.log(text, value); console.error(value); } catch (error) { given.push(error); }
    try { log.info('a', value); log.info(value); } catch (error) { given.push(error); }
  }
  return given;
}

export default async ({ input, query, db, log, app, ctx }) => {
  const failure = await db.get('SELECT nothing').catch((error) => error);
  const typed = await db.get('SELECT ?', { a: {} }).catch((error) => error);
  const secret = await ctx.secrets.get('NONE').catch((error) => error);
  const noted = await ctx.notify({}).catch((error) => error);
  const rows = await db.all('SELECT 1 AS n, 2 AS s');
  const json = await db.json('SELECT 1 AS n');
  const timer = setTimeout(() => {}, 1);
  clearTimeout(timer);
  const roots = {
    globalThis, input, query, db, log, app, ctx, failure, typed, secret, noted, rows, json, timer,
    one: await db.get('SELECT 1 AS n'), none: await db.get('SELECT 1 WHERE 0'), statement: db.prepare('SELECT 1'),
    pending: db.all('SELECT 1'), caller: ctx.caller, user: ctx.user, thrown: (() => { try { null.x; } catch (e) { return e; } })(),
    immediate: setImmediate(() => {}), parsed: JSON.parse('{"a":[1]}'), syntax: (() => { try { JSON.parse('{'); } catch (e) { return e; } })(),
    deep: (() => { try { (function f() { f(); })(); } catch (e) { return e; } })(), web: input.web && ofTheWeb(),
  };
  if (input.web) roots.end = await atTheEnd({ web: ofTheWeb });
  else if (!input.written) roots.end = await atTheEnd({
    get: () => db.get('SELECT ? AS n', 1), all: () => db.all('SELECT 2'), json: () => db.json('SELECT 3 AS n'), fails: () => db.get('SELECT nothing'),
    fresh: () => db.get('SELECT ' + Math.random()), text: () => json.toString(), log: () => log.info('x'), console: () => console.log('x', { a: 1 }),
    timer: () => { const one = setTimeout(() => {}, 1); one.refresh(); one.hasRef(); clearTimeout(one); return one; }, now: () => Date.now(),
    number: () => Number(setTimeout(() => {}, 1)), micro: () => queueMicrotask(() => {}), secret: () => ctx.secrets.get('NONE'), notify: () => ctx.notify({}),
  });
  if (input.written) roots.written = written(log);
  const foreign = [];
  const seen = new Set();
  const waiting = Object.entries(roots).map(([name, value]) => [name, value]);
  while (waiting.length > 0) {
    const [path, value] = waiting.pop();
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) continue;
    seen.add(value);
    // One turn of the whole walk would stall the thread on a slow machine.
    if (seen.size % 200 === 0) await new Promise((go) => setTimeout(go));
    let last = value;
    for (let next = Object.getPrototypeOf(value); next !== null; next = Object.getPrototypeOf(next)) last = next;
    if (last !== own && last !== value && Object.getPrototypeOf(last) === null && 'hasOwnProperty' in last) foreign.push(path);
    waiting.push([path + '.__proto__', Object.getPrototypeOf(value)]);
    for (const key of Reflect.ownKeys(value)) {
      const { value: member, get, set } = Object.getOwnPropertyDescriptor(value, key);
      for (const one of [member, get, set]) waiting.push([path + '.' + String(key), one]);
    }
    if (last === value && value !== own && typeof value === 'object' && 'hasOwnProperty' in value && Object.hasOwn(value, 'hasOwnProperty')) foreign.push(path);
  }
  // What it finds after it left is seen by nobody; but a thread that ends is.
  if (input.written) for (const {} of foreign) for (;;);
  return { foreign, seen: seen.size };
};`;

/** An app with a database, so that its statements need no writer. */
async function withTable(files: Record<string, string>): Promise<App> {
  const make = `export default async ({ db }) => { await db.exec("CREATE TABLE t (b); INSERT INTO t VALUES (x'01'), (x'02')"); };`;
  const app = await supervisor.app({ files: { 'actions/make.js': make } });
  await app.action('make');
  return await supervisor.app({ files }, { dataFile: app.spec.dataFile });
}

const walker = () => withTable({ 'queries/walk.js': WALK });

for (const [name, input] of [
  ['all that a handler has', { a: [1] }],
  ['what the globals of the web give', { web: true }],
] as const)
  test(`a walk through ${name} finds objects of its realm only`, async () => {
    const app = await walker();
    const { foreign, seen } = (await app.query('walk', input)).value as { foreign: string[]; seen: number };
    assert.equal(app.inCommons, true, `it left: ${app.left}`);
    assert.deepEqual(foreign, []);
    assert.ok(seen > 500, `${seen} objects`);
  });

test('an app that replaces the methods of its language is handed objects of its realm only', async () => {
  const query = `const { getPrototypeOf, getOwnPropertyDescriptor, defineProperty } = Object;
    const { ownKeys, apply } = Reflect;
    const foreign = [];
    const push = foreign.push.bind(foreign);
    const look = (of, key, value) => {
      if (Object(value) !== value || value instanceof Object || getPrototypeOf(value) === null) return;
      push(of + '.' + String(key));
    };
    ${WEB}
    export default () => {
      for (const Class of [Array, getPrototypeOf(Uint8Array), ArrayBuffer, DataView, Map, Set, Date, String, RegExp, Number, Error, Function])
        for (const key of ownKeys(Class.prototype)) {
          const found = getOwnPropertyDescriptor(Class.prototype, key);
          if (key === 'constructor' || typeof found.value !== 'function' || !found.configurable) continue;
          const { value: own } = found;
          const replaced = function (...given) {
            look(Class.name, key, this);
            for (let i = 0; i < given.length; i++) look(Class.name, key, given[i]);
            return apply(own, this, given);
          };
          defineProperty(Class.prototype, key, { ...found, value: replaced });
        }
      ofTheWeb();
      return [...new Set(foreign)];
    };`;
  const app = await supervisor.app({ files: { 'queries/q.js': query } });
  assert.deepEqual((await app.query('q')).value, []);
  assert.equal(app.inCommons, true, `it left: ${app.left}`);
});

test('neither does it when its values, which run code of its own, are written to the console', async () => {
  const neighbour = await supervisor.app({
    files: { 'queries/n.js': 'export default () => (globalThis.n = (globalThis.n ?? 0) + 1);' },
  });
  assert.equal((await neighbour.query('n')).value, 1);
  const app = await walker();
  await app.query('walk', { written: true });
  assert.deepEqual([app.left, (await neighbour.query('n')).value], ['globals', 2]);
});

test('what an app puts on its globals is not there for another', async () => {
  const put =
    'export default () => { globalThis.mark = [1]; Error.prototype.mark = 2; Object.assign(Date, { mark: 3 }); return 1; };';
  const look =
    'export default () => [typeof globalThis.mark, typeof new Error().mark, typeof Date.mark, typeof ({}).mark];';
  const one = await supervisor.app({ files: { 'queries/put.js': put, 'queries/look.js': look } });
  await one.query('put');
  assert.deepEqual((await one.query('look')).value, ['object', 'number', 'number', 'undefined']);
  const other = await supervisor.app({ files: { 'queries/look.js': look } });
  assert.deepEqual((await other.query('look')).value, ['undefined', 'undefined', 'undefined', 'undefined']);
  assert.deepEqual([one.inCommons, other.inCommons], [true, true]);
});

test('timers are as in a thread', async () => {
  const query = `export default ({ ctx, input }) => new Promise((go) => {
    if (input.own) void ctx.signal;
    for (const wrong of [Symbol('s'), {}, null, undefined, 'x', new Proxy({}, {}), { valueOf() { throw new Error('asked'); } }]) clearTimeout(wrong);
    const seen = [];
    for (const ms of [Symbol('s'), 5n, { valueOf() { throw new Error('its own'); } }]) try { setTimeout(() => {}, ms); } catch (error) { seen.push(error.message); }
    const all = { timeout: setTimeout(note, 1, 'timeout'), immediate: setImmediate(note, 'immediate'), interval: setInterval(note, 1, 'interval') };
    function note(name) {
      seen.push([name, this === all[name], this.constructor.name, new Error().stack.split('\\n')[1].trim()]);
      if (name === 'interval') clearInterval(String(Number(all.interval)));
      if (seen.length === 6) go(seen.sort());
    }
  });`;
  const app = await supervisor.app({ files: { 'queries/q.js': query } });
  const { value } = await app.query('q', {});
  assert.equal(app.inCommons, true, `it left: ${app.left}`);
  assert.deepEqual(value, (await app.query('q', { own: true })).value);
  assert.equal(app.inCommons, false);
});

const there = async (app: App): Promise<boolean> => (await app.query('ok')).value === 1 && app.inCommons;
const OK = { 'queries/ok.js': 'export default () => 1;' };

test('plain data and errors are written to the console as in a thread', async () => {
  const query = `
    const nested = { a: { b: { c: { d: 1 } } }, list: Array.from({ length: 120 }, (_, n) => n), text: 'it\\'s', u: undefined, big: 2n };
    export default ({ ctx, input }) => {
      if (input.own) void ctx.signal;
      console.log('a %s b %d c %j d %o e %O %%', 'text', 4.5, { x: [1] }, [{ y: 1 }], nested, { more: -0 }, 7n, Symbol('s'));
      console.log({ a: 1 }, 'then', [1, 'two', null], Object.assign(Object.create(null), { n: 1 }), { __proto__: null, 'a-b': NaN });
      try { null.x; } catch (error) { console.error(error, 'caught %s', 1); console.error('failed', error); }
      console.error(Object.assign(new RangeError('no'), { code: 'E_NO' }), { a: 1 });
      console.log(); console.log('%s'); console.log(nested);
    };`;
  const app = await supervisor.app({ files: { 'queries/q.js': query } });
  await app.query('q', {});
  assert.equal(app.inCommons, true, `it left: ${app.left}`);
  // Without the frames of our code.
  const written = () => app.logs.map(({ msg }) => msg.replace(/\n {4}at [^\n]*?(?:file|node):[^\s)]+\)?/g, ''));
  const there = written();
  app.logs.length = 0;
  await app.query('q', { own: true });
  assert.deepEqual([there.length, app.inCommons], [8, false]);
  assert.deepEqual(there, written());
});

test('what is not given moves the app, and its query runs again in a thread', async () => {
  const cases: Record<string, [body: string, expected: unknown]> = {
    buffer: ['return globalThis["Buffer"].from("a").length;', 1],
    caught: ['try { return globalThis["Buffer"].name; } catch { return "caught"; }', 'Buffer'],
    subtle: ['return typeof crypto.subtle;', 'object'],
    signal: ['return ctx.signal.aborted;', false],
    blobs: ['return await ctx.blobs.stat("0".repeat(64));', null],
    write: ['await db.exec("CREATE TABLE t (n)"); return 2;', 2],
  };
  for (const [name, [body, expected]] of Object.entries(cases)) {
    const app = await supervisor.app({
      files: { ...OK, 'queries/q.js': `export default async ({ db, ctx }) => { ${body} };` },
    });
    assert.equal(await there(app), true, name);
    assert.deepEqual((await app.query('q')).value, expected, name);
    assert.deepEqual([app.inCommons, app.left], [false, 'globals'], name);
  }
});

test('so do bytes in rows, while they are read', async () => {
  for (const read of ['db.all("SELECT b FROM t")', 'db.json("SELECT b FROM t")', 'db.get("SELECT b FROM t")']) {
    const app = await withTable({ ...OK, 'queries/q.js': `export default async ({ db }) => await ${read} !== null;` });
    assert.equal(await there(app), true, read);
    assert.equal((await app.query('q')).value, true, read);
    assert.deepEqual([app.inCommons, app.left], [false, 'globals'], read);
  }
});

test('an input that nests too deeply for its schema is refused as in a thread', async () => {
  const app = await supervisor.app({
    files: OK,
    schemas: { 'queries/ok': { type: 'object', properties: { a: { $ref: '#' } } } },
  });
  const input = `${'{"a":'.repeat(40_000)}{}${'}'.repeat(40_000)}`;
  const { code, issues } = await failure(app.call(ToolKind.query, 'ok', `{"input":${input}}`));
  assert.deepEqual([code, issues?.[0]?.keyword], ['INVALID_INPUT', 'depth']);
});

test('an app that takes much memory in one turn, or throws from a timer, moves', async () => {
  const greedy = await supervisor.app({
    files: {
      ...OK,
      // Kept, and more than what others left behind: a collection in the middle of the turn would hide it.
      'queries/q.js':
        'const kept = []; export default () => { const all = kept; all.push(new Uint8Array(64 << 20)); return all[0].length; };',
    },
  });
  assert.deepEqual((await greedy.query('q')).value, 64 << 20);
  for (let n = 0; n < 100 && greedy.inCommons; n++) await greedy.query('ok');
  assert.equal(greedy.left, 'memory');
  const late = await supervisor.app({
    files: {
      ...OK,
      'queries/q.js':
        'export default async () => { setTimeout(() => { throw new Error("late"); }); await new Promise(() => {}); };',
    },
  });
  void late.query('q').catch(() => {});
  assert.match((await late.exited).detail, /late/);
  assert.equal(late.left, 'failed');
});

test('so does one whose short turns keep the others waiting, or whose buffers grow from call to call', async () => {
  const storm = await supervisor.app({
    files: {
      ...OK,
      'queries/q.js': `export default () => {
        for (let n = 0; n < 1000; n++) setImmediate(() => { for (const until = Date.now() + 20; Date.now() < until;); });
      };`,
    },
  });
  await storm.query('q');
  for (let n = 0; n < 100 && storm.inCommons; n++) await storm.query('ok');
  assert.equal(storm.left, 'processor');
  const grows = await supervisor.app({
    files: {
      ...OK,
      'queries/q.js': 'const kept = []; export default () => { const all = kept; all.push(new Uint8Array(8 << 20)); };',
    },
  });
  assert.equal(await there(grows), true);
  for (let n = 0; n < 20 && grows.inCommons; n++) await grows.query('q');
  assert.equal(grows.left, 'memory');
});

test('one that loops is named, and the thread is given up; the next one runs the others', async () => {
  const quiet = await supervisor.app({ files: OK });
  const loops = await supervisor.app({
    files: { ...OK, 'queries/q.js': 'export default async () => { await null; for (;;); };' },
  });
  assert.equal(await there(quiet), true);
  const ended = supervisor.commonsEnded();
  void loops.query('q').catch(() => {});
  const [, actorId, end] = await ended;
  assert.deepEqual([actorId, end], [loops.spec.actorId, 'stalled']);
  assert.deepEqual([await there(quiet), loops.left], [true, 'failed']);
});
