/** What app code in the commons can reach: its own realm, and nothing of another app. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type App, beginIn, FakeSupervisor } from '../../testing/fake-supervisor.ts';

beginIn('commons');
let supervisor: FakeSupervisor;
before(async () => {
  supervisor = await FakeSupervisor.start();
});
after(() => supervisor.close());

/** Walks from what a handler has, and gives the paths of objects whose last prototype is not this realm's. */
const WALK = `
const own = Object.prototype;
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
    deep: (() => { try { (function f() { f(); })(); } catch (e) { return e; } })(),
  };
  const foreign = [];
  const seen = new Set();
  const waiting = Object.entries(roots).map(([name, value]) => [name, value]);
  while (waiting.length > 0) {
    const [path, value] = waiting.pop();
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) continue;
    seen.add(value);
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
  return { foreign, seen: seen.size };
};`;

test('a walk through all that a handler has finds objects of its realm only', async () => {
  const app = await supervisor.app({
    files: {
      'queries/walk.js': WALK,
      'actions/make.js': 'export default async ({ db }) => { await db.exec("CREATE TABLE IF NOT EXISTS t (n)"); };',
    },
  });
  await app.action('make');
  const again = await supervisor.app({ files: { 'queries/walk.js': WALK } }, { dataFile: app.spec.dataFile });
  const { foreign, seen } = (await again.query('walk', { a: [1] })).value as { foreign: string[]; seen: number };
  assert.equal(again.inCommons, true, `it left: ${again.left}`);
  assert.deepEqual(foreign, []);
  assert.ok(seen > 500, `${seen} objects`);
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

const there = async (app: App): Promise<boolean> => (await app.query('ok')).value === 1 && app.inCommons;
const OK = { 'queries/ok.js': 'export default () => 1;' };

test('what is not given moves the app, and its query runs again in a thread', async () => {
  const cases: Record<string, [body: string, expected: unknown]> = {
    url: ['return new globalThis["URL"]("http://a/b").pathname;', '/b'],
    caught: ['try { return globalThis["URL"].name; } catch { return "caught"; }', 'URL'],
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

test('an app that takes much memory in one turn, or throws from a timer, moves', async () => {
  const greedy = await supervisor.app({
    files: {
      ...OK,
      'queries/q.js': 'export default () => { return new Array(4e6).fill(0.5).length; };',
    },
  });
  assert.deepEqual((await greedy.query('q')).value, 4e6);
  while (greedy.inCommons) await greedy.query('ok');
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
