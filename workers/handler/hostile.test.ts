/**
 * An app that changes the built-ins it shares with our code in its thread, and looks through everything that it gets or catches for a
 * socket, a port or anything else of ours. Handlers are trusted code; what a slip or a bad package does to prototypes is not.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { FakeSupervisor } from '../../testing/fake-supervisor.ts';

/** Puts traps wherever it can, keeps what falls into them, and walks from there. Its `found` names what it must not reach. */
const HOSTILE = `
const caught = new Set();
const traps = [];
const keep = (value) => {
  if ((typeof value === 'object' && value !== null) || typeof value === 'function') caught.add(value);
};
const own = Reflect.ownKeys, describe = Object.getOwnPropertyDescriptor, protoOf = Object.getPrototypeOf;
const define = Object.defineProperty, run = Reflect.apply, add = Set.prototype.add;

/** A function that keeps its receiver and arguments and does what the other did. */
const trap = (original) => function (...args) { keep(this); for (const arg of args) keep(arg); return run(original, this, args); };

function patch(owner, name) {
  for (const key of own(owner)) {
    const found = describe(owner, key);
    if (typeof found.value !== 'function' || key === 'constructor') continue;
    // Its own means.
    if (owner === Reflect || owner === Object || (owner === Set.prototype && key === 'add')) continue;
    try { owner[key] = trap(found.value); if (describe(owner, key).value !== found.value) traps.push(name + '.' + String(key)); } catch {}
    try { define(owner, key, { ...found, value: trap(found.value) }); traps.push(name + '.' + String(key)); } catch {}
  }
}

const NAMES = ['then', 'get', 'set', 'path', 'signal', 'socket', 'dispatcher', 'connect', 'lookup', 'host', 'port', 'hostname', 'fd',
  'handle', 'onread', 'value', 'writable', 'enumerable', 'servername', 'session', 'agent', 'toJSON', 'code', 'cause', '0', '1'];

export function attack() {
  for (const name of NAMES) {
    try {
      define(Object.prototype, name, { configurable: true, get() { keep(this); return undefined; },
        set(value) { keep(this); keep(value); define(this, name, { value, writable: true, configurable: true, enumerable: true }); } });
      traps.push('Object.prototype.' + name);
    } catch {}
    try { define(Array.prototype, name, { configurable: true, set(value) { keep(this); keep(value); } }); traps.push('Array.prototype.' + name); } catch {}
  }
  const hidden = { ArrayIterator: [][Symbol.iterator](), MapIterator: new Map().keys(), SetIterator: new Set().keys(),
    Generator: (function* () {})(), AsyncGenerator: (async function* () {})(), async: async () => {}, TypedArray: new Uint8Array(1) };
  for (const [name, value] of Object.entries(hidden))
    for (let proto = protoOf(value); proto !== null && proto !== Object.prototype; proto = protoOf(proto)) patch(proto, name);
  for (const name of own(globalThis)) {
    const value = globalThis[name];
    if (typeof value !== 'function' || value === Date || value === RegExp) continue;
    patch(value, String(name));
    if (value.prototype && value !== Object) patch(value.prototype, name + '.prototype');
    if (value === Error || value.prototype instanceof Error) continue;
    try { globalThis[name] = new Proxy(value, { apply(f, self, args) { keep(self); args.forEach(keep); return run(f, self, args); },
      construct(f, args, target) { args.forEach(keep); const made = Reflect.construct(f, args, target); keep(made); return made; } });
      if (globalThis[name] !== value) traps.push('globalThis.' + String(name)); } catch {}
  }
  for (const value of [JSON, Math, Atomics, Reflect, crypto, performance]) patch(value, 'namespace');
  for (const key of ['toString', 'valueOf', 'hasOwnProperty']) {
    try { Object.prototype[key] = trap(Object.prototype[key]); } catch {}
  }
  Error.prepareStackTrace = (error, sites) => { for (const site of sites) { keep(site.getThis()); keep(site.getFunction()); } return ''; };
  define(Error.prototype, 'code', { configurable: true, set(value) { keep(this); define(this, 'code', { value, configurable: true, writable: true }); } });
}

/** What is ours or Node's: named so, or able to reach the machine. */
const OURS = /^(Socket|TLSSocket|TLSWrap|Pipe|TCP|Server|MessagePort|Worker|Agent|Client|Pool|Dispatcher|Link|DbClient|Reader|HandlerCall|Calls|Asks|FireRunner|Tools|Modules|AppLog|HttpClient|Egress|BlockList|FrameDecoder|FrameBatch|Database|Statement|EventEmitter|Duplex|Readable|Writable|process)$/;

function nameOf(value) {
  try { const { constructor } = value; return typeof constructor === 'function' ? String(constructor.name) : ''; } catch { return ''; }
}

export function look(roots) {
  const seen = new Set();
  const found = new Set();
  const waiting = [[globalThis, 'globalThis'], ...[...caught].map((value) => [value, 'caught']), ...Object.entries(roots).map(([at, value]) => [value, at])];
  while (waiting.length > 0 && seen.size < 200000) {
    const [value, at] = waiting.pop();
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) continue;
    run(add, seen, [value]);
    const name = nameOf(value);
    if (OURS.test(name) && at.length < 400) found.add(name + ' at ' + at);
    let keys = [];
    try { keys = own(value); } catch {}
    for (const key of keys) {
      const member = describe(value, key);
      if (!member) continue;
      const path = at + '.' + String(key);
      if ('value' in member) waiting.push([member.value, path]);
      else {
        waiting.push([member.get, path + '(get)'], [member.set, path + '(set)']);
        try { waiting.push([value[key], path]); } catch {}
      }
    }
    try { waiting.push([protoOf(value), at + '.__proto__']); } catch {}
    if (value instanceof Map) for (const [key, member] of value) waiting.push([key, at + '<key>'], [member, at + '<value>']);
    if (value instanceof Set && value !== caught && value !== seen) for (const member of value) waiting.push([member, at + '<member>']);
  }
  return { found: [...found].sort(), traps: [...new Set(traps)].sort(), seen: seen.size };
}
`;

const CALL = `
import { attack, look } from '../hostile.js';
const errors = [];
const failing = async (work) => { try { return await work(); } catch (error) { errors.push(error); } };
export default async (args) => {
  const { db, ctx, log, input } = args;
  // Once before anything was used, and once when all has been loaded.
  attack();
  const made = {};
  for (let round = 0; round < 2; round++) {
    made.run = db.run('CREATE TABLE IF NOT EXISTS t (a)');
    await made.run;
    made.statement = db.prepare('SELECT 1');
    made.rows = await made.statement.all();
    await db.batch([['INSERT INTO t VALUES (?)', 1], ['INSERT INTO t VALUES (:a)', { a: 2 }]]);
    await db.transaction(async (tx) => { made.tx = tx; await tx.run('INSERT INTO t VALUES (3)'); });
    await failing(() => db.run('no sql'));
    await failing(() => db.get('no sql'));
    await failing(() => made.tx.run('SELECT 1'));
    log.info('a line', { made: 1 }, new Error('logged'));
    console.log('another', { made: 2 });
    made.signal = ctx.signal;
    made.request = new Request(input.url, { method: 'POST', body: new FormData() });
    made.fetching = ctx.fetch(input.url);
    made.response = await made.fetching;
    await made.response.clone().text();
    const reader = made.response.body.getReader();
    made.chunk = await reader.read();
    made.posted = await ctx.fetch(input.url, { method: 'POST', body: new Blob(['x']), headers: new Headers({ a: 'b' }) });
    made.text = await made.posted.text();
    await failing(() => ctx.fetch('http://169.254.169.254/'));
    await failing(() => ctx.fetch('http://127.0.0.1:' + input.closed + '/'));
    await failing(() => ctx.fetch(input.url + 'break'));
    await failing(() => ctx.fetch('nonsense'));
    await failing(async () => { for await (const part of (await ctx.fetch(input.url)).body) made.part = part; });
    attack();
  }
  return look({ args, made, errors });
};`;

const FIRE = `
import { attack, look } from '../../hostile.js';
export default async (args) => {
  const { ctx, log } = args;
  attack();
  const asked = [ctx.tool('svc_read', { app: 'a', query: 'b' }), ctx.agent({ prompt: 'x' }), ctx.state.get('a'), ctx.state.set('a', { b: 1 }),
    ctx.state.delete('a'), ctx.runs.last(), ctx.runs.list({})];
  const results = await Promise.allSettled(asked);
  log.info('said');
  const { found, traps, seen } = look({ args, asked, results });
  return { output: { found, traps, seen } };
};`;

let supervisor: FakeSupervisor;
before(async () => {
  supervisor = await FakeSupervisor.start({ spare: false });
});
after(() => supervisor.close());

type Looked = { found: string[]; traps: string[]; seen: number };

/** `traps` are the functions that it could put its own in the place of: those that `globals.ts` leaves open. */
function assertNothing({ found, traps, seen }: Looked): void {
  assert.deepEqual(found, []);
  assert.ok(seen > 1000, `${seen} objects`);
  const open = traps.filter(
    (name) => !/^(Math|Error|\w*Error|DOMException|Date|namespace|Intl)\b|^RegExp\.prototype/.test(name),
  );
  assert.deepEqual(open, []);
}

test('a handler that changed all it could finds none of our objects', async (t) => {
  const server = createServer((request, response) => {
    if (request.url === '/break') request.socket.destroy();
    else response.end('a body');
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const app = await supervisor.app({ files: { 'hostile.js': HOSTILE, 'actions/look.js': CALL } });
  const { value } = await app.action('look', { url, closed: 1 });
  server.closeAllConnections();
  assertNothing(value as Looked);
});

test('neither does an automation', async () => {
  const files = { 'hostile.js': HOSTILE, 'automations/digest/handler.js': FIRE };
  const app = await supervisor.app({ files }, { automation: 'digest', writerTicket: '' });
  app.onAsk = ({ verb, answer, refuse }) =>
    verb === 'state.set' ? refuse({ code: 'BAD_REQUEST', message: 'no' }) : answer({ verb });
  const { value } = await app.fire();
  assertNothing((value as { output: Looked }).output);
});
