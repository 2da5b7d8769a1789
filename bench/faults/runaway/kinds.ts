/** The ways in which an app can misbehave, as data: what its handler does, and what must come of it. */
import type { RetireReason } from '../../../protocol/frames.ts';
import { DEFAULTS } from '../../../protocol/limits.ts';

/** Time that a tool is given that does not end by itself, in milliseconds. */
export const TIMEOUT_MS = 1_000;

/**
 * Who notices besides the app itself. `nobody`: no call of any other app fails. `host`: the process that holds the other
 * apps ends, so that their reads run again and their actions may answer that the outcome is unknown. `writer`: the process
 * that writes ends, so that everybody's writes wait, or answer that.
 */
export type Reach = 'nobody' | 'host' | 'writer';

export type Kind = {
  name: string;
  /** What its tool `bad` runs, an expression; `endpoint` in it stands for the address of a server that the campaign runs. */
  handler: string;
  /** Code before the handler, at the top of the same module. */
  top?: string;
  /** It writes. Otherwise `bad` is a query. */
  action?: true;
  /** What the caller hears: `ok` and text that the result holds, or text that the message of `HANDLER_ERROR` holds. */
  answer: { ok: RegExp } | { error: RegExp };
  /**
   * Why its thread ends, as `/svc/_system` names it; one of several where it is a race that decides. Absent when the thread may
   * as well go on.
   */
  ends?: readonly RetireReason[];
  /** What a line of the app's log says of it, where that is not what the caller hears. */
  log?: RegExp;
  reach?: Reach;
};

const TIMED_OUT = { error: /"bad" timed out after 1 s/ };
const TIMES_OUT = { answer: TIMED_OUT, ends: ['deadline'] } as const;
/** Where V8 may take the whole host down before it is noticed. */
const OUT_OF_MEMORY_OR_HOST = {
  error: /it ran out of memory|timed out after 1 s|The app's thread ended while "bad" ran \(it crashed\)/,
};
const MEMORY_IN_LOG = /its thread ended \((memory|deadline|crash): |ran on after its time was up/;
/** Who is out of memory before the deadline is run once more, as every query is. */
const RUNS_OUT = {
  answer: { error: /it ran out of memory|timed out after 1 s/ },
  ends: ['memory', 'deadline'],
  log: MEMORY_IN_LOG,
} as const;
const ENDLESS_ROWS = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)';
const LOST = { error: /The app's thread ended while "bad" ran \(it crashed\)|had ended \(crash: / };

/** `(module (func (export "spin") (loop (br 0))))` */
const WASM_LOOP = '0,97,115,109,1,0,0,0,1,4,1,96,0,0,3,2,1,0,7,8,1,4,115,112,105,110,0,0,10,9,1,7,0,3,64,12,0,11,11';

const TABLE: Record<string, Omit<Kind, 'name'>> = {
  // Never gives the thread back.
  loop: { handler: '() => { for (;;); }', ...TIMES_OUT },
  microtasks: { handler: 'async () => { for (;;) await null; }', ...TIMES_OUT },
  regexp: { handler: '() => /^(a+)+$/.test("a".repeat(60) + "b")', ...TIMES_OUT },
  'atomics-wait': { handler: '() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)', ...TIMES_OUT },
  'wasm-loop': {
    handler: `() => new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([${WASM_LOOP}]))).exports.spin()`,
    ...TIMES_OUT,
  },
  'json-loop': { handler: '() => ({ toJSON() { for (;;); } })', ...TIMES_OUT },
  'getter-loop': { handler: '() => ({ get then() { for (;;); } })', ...TIMES_OUT },

  // Gives the thread back, but never ends.
  'never-settles': { handler: '() => new Promise(() => {})', ...TIMES_OUT },
  'ignores-cancel': { handler: 'async () => { for (;;) await new Promise((go) => setTimeout(go, 1)); }', ...TIMES_OUT },
  'ignores-cancel-busy': {
    handler: 'async () => { for (;;) await new Promise((go) => setImmediate(go)); }',
    ...TIMES_OUT,
  },
  'fetch-no-answer': {
    handler: 'async ({ ctx }) => (await ctx.fetch(endpoint + "/silent")).status',
    answer: TIMED_OUT,
  },
  'fetch-drips': { handler: 'async ({ ctx }) => (await ctx.fetch(endpoint + "/drip")).text()', answer: TIMED_OUT },
  thenable: { handler: '() => ({ then() {} })', ...TIMES_OUT },
  timers: {
    handler: 'async () => { for (let n = 0; n < 5_000; n++) setInterval(() => n, 10); return "set"; }',
    answer: { ok: /set/ },
  },

  // Takes memory.
  'array-2gb': {
    handler: 'async () => { const all = []; for (;;) all.push(new Array(1e5).fill(Math.random())); }',
    ...RUNS_OUT,
  },
  'array-2gb-at-once': {
    handler: '() => new Array(2 ** 27).fill(Math.random()).length',
    answer: { error: /it ran out of memory|it crashed|timed out after 1 s|Invalid array length/ },
    ends: ['memory', 'crash', 'deadline'],
    log: MEMORY_IN_LOG,
    reach: 'host',
  },
  promises: {
    handler: 'async () => { const all = []; for (;;) all.push(new Promise(() => {}).then(() => all)); }',
    ...RUNS_OUT,
  },
  map: {
    handler: '() => { const all = new Map(); for (let n = 0; ; n++) all.set(n, n); }',
    answer: OUT_OF_MEMORY_OR_HOST,
    ends: ['memory', 'crash', 'deadline'],
    log: MEMORY_IN_LOG,
    reach: 'host',
  },
  buffers: { handler: 'async () => { const all = []; for (;;) all.push(Buffer.alloc(4 << 20, 1)); }', ...RUNS_OUT },
  'buffers-slowly': {
    handler:
      'async () => { const all = []; for (;;) { all.push(new Uint8Array(1 << 20).fill(1)); await new Promise((go) => setTimeout(go, 1)); } }',
    ...RUNS_OUT,
  },
  'shared-buffers': {
    handler:
      'async () => { const all = []; for (;;) all.push(new Uint8Array(new SharedArrayBuffer(4 << 20)).fill(1)); }',
    ...RUNS_OUT,
  },
  'wasm-memory': {
    handler: `async () => {
      const all = [];
      for (;;) all.push(new Uint8Array(new WebAssembly.Memory({ initial: 64 }).buffer).fill(1));
    }`,
    ...RUNS_OUT,
  },
  'buffer-2gb': {
    handler: '() => Buffer.alloc(2 ** 31, 1).length',
    answer: { error: /it ran out of memory|timed out|allocation failed|it crashed/i },
    ends: ['memory', 'crash', 'deadline'],
    log: MEMORY_IN_LOG,
    reach: 'host',
  },

  // Ends, or tries to end, more than itself.
  'process-exit': { handler: '() => process.exit(0)', answer: { error: /process is not defined/ } },
  'process-kill': {
    handler: '() => globalThis.process.kill(globalThis.process.ppid, "SIGKILL")',
    answer: { error: /undefined/ },
  },
  'process-abort': {
    handler:
      '() => (function () { return this; }).call(undefined)?.process.abort() ?? globalThis.global.process.abort()',
    answer: { error: /undefined/ },
  },
  'built-in': {
    handler: 'async () => (await import("node:child_process")).execSync("kill -9 -1")',
    answer: { error: /cannot import Node built-ins/ },
  },
  unhandled: {
    handler: 'async () => { Promise.reject(new Error("lost")); return "answered"; }',
    answer: { ok: /answered/ },
    log: /Unhandled promise rejection: lost/,
  },
  'throws-in-timer': {
    handler: 'async () => { setTimeout(() => { throw new Error("late"); }, 1); await new Promise(() => {}); }',
    answer: LOST,
    ends: ['crash'],
    log: /An error that nothing caught ended the app: late/,
  },
  'throws-outside': {
    handler: 'async () => { queueMicrotask(() => { throw new Error("aside"); }); await new Promise(() => {}); }',
    answer: LOST,
    ends: ['crash'],
    log: /An error that nothing caught ended the app: aside/,
  },
  'throws-proxy': {
    handler: '() => { throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; } }); }',
    answer: { error: /threw a value that cannot be shown/ },
  },
  recursion: { handler: 'function bad() { return bad() + 1; }', answer: { error: /Maximum call stack size exceeded/ } },
  pollution: {
    handler: `() => {
      const evil = () => { throw new Error("polluted"); };
      Object.prototype.then = evil;
      Object.prototype.app = "alpha";
      for (const type of [Array, Map, Set, Promise, Buffer, Uint8Array, Function, String, EventTarget])
        for (const name of Object.getOwnPropertyNames(type.prototype))
          if (name !== "constructor") try { type.prototype[name] = evil; } catch {}
      JSON.stringify = evil;
      globalThis.setTimeout = evil;
      return "polluted";
    }`,
    // What it may break is its own; the built-ins are closed to it.
    answer: { error: /not extensible|polluted|timed out after 1 s|it crashed/ },
  },

  // Answers what cannot be sent.
  'result-100mib': {
    handler: '() => "x".repeat(100 * 1024 * 1024)',
    answer: { error: /The result is over the limit of 8388608 bytes/ },
  },
  'result-100mib-rows': {
    handler: '() => Array.from({ length: 400_000 }, (_, n) => "x".repeat(256) + n)',
    answer: { error: /The result is over the limit of 8388608 bytes|it ran out of memory|timed out after 1 s/ },
  },
  'result-buffer': {
    handler: '() => Buffer.alloc(100 * 1024 * 1024)',
    answer: { error: /The result is over the limit of 8388608 bytes/ },
  },
  'result-cycle': {
    handler: '() => { const own = {}; own.own = own; return own; }',
    answer: { error: /cannot be sent as JSON: .*circular/ },
    log: /circular/,
  },
  'result-bigint': { handler: '() => 2n ** 64n', answer: { ok: /18446744073709551616/ } },
  'result-function': {
    handler: '() => () => 1',
    answer: { error: /cannot be sent as JSON: it (?:is|contains) a function/ },
  },
  'result-symbol': { handler: '() => Symbol("s")', answer: { error: /cannot be sent as JSON: it is a symbol/ } },
  'result-getter': {
    handler: '() => ({ get it() { throw new Error("not to be had"); } })',
    answer: { error: /cannot be sent as JSON: not to be had/ },
  },
  'result-deep': {
    handler: '() => { let deep = []; for (let n = 0; n < 1e5; n++) deep = [deep]; return deep; }',
    answer: { error: /cannot be sent as JSON: Maximum call stack/ },
  },

  // Does not load.
  'load-throws': {
    top: 'throw new Error("not today");',
    handler: '() => 1',
    answer: { error: /queries\/bad\.js failed to load: not today/ },
    log: /not today/,
  },
  'load-loops': { top: 'for (;;);', handler: '() => 1', ...TIMES_OUT },
  'load-never-settles': { top: 'await new Promise(() => {});', handler: '() => 1', ...TIMES_OUT },
  'load-syntax': { top: 'const = 1;', handler: '() => 1', answer: { error: /queries\/bad\.js:1/ } },

  // Floods.
  'log-flood': {
    handler: '({ log }) => { for (;;) log.info("x".repeat(1000)); }',
    ...TIMES_OUT,
    log: /log lines were dropped|its thread ended/i,
  },
  'log-huge': {
    handler: '({ log }) => { for (let n = 0; n < 20; n++) log.info("x".repeat(1e6)); return "said"; }',
    answer: { ok: /said/ },
    log: /"truncated":true/,
  },
  'writes-flood': {
    action: true,
    handler: 'async ({ db }) => { for (;;) db.run("INSERT INTO t VALUES (1)").catch(() => {}); }',
    answer: { error: /timed out after 1 s|it ran out of memory/ },
    ends: ['memory', 'deadline'],
    log: MEMORY_IN_LOG,
  },
  'fetch-flood': {
    handler: 'async ({ ctx }) => Promise.all(Array.from({ length: 500 }, () => ctx.fetch(endpoint + "/silent")))',
    answer: TIMED_OUT,
  },

  // Asks too much of its database.
  'sql-many-rows': {
    handler: `({ db }) => db.all('${ENDLESS_ROWS} SELECT x FROM n LIMIT 1000000')`,
    answer: { error: /The result is over the limit of 100000 rows|timed out after 1 s|it ran out of memory/ },
  },
  'sql-large-rows': {
    handler: `({ db }) => db.all('${ENDLESS_ROWS} SELECT hex(zeroblob(1000000)) FROM n LIMIT 1000')`,
    answer: { error: /The result is over the limit of 67108864 bytes|it ran out of memory|timed out after 1 s/ },
    log: /The result is over the limit of 67108864 bytes|timed out after 1 s|its thread ended \(memory: /,
  },
  'transaction-held': {
    action: true,
    handler:
      'async ({ db }) => db.transaction(async (tx) => { await tx.run("INSERT INTO t VALUES (1)"); await new Promise(() => {}); })',
    answer: TIMED_OUT,
  },
  'transaction-loop': {
    action: true,
    handler: 'async ({ db }) => db.transaction(async (tx) => { await tx.run("INSERT INTO t VALUES (1)"); for (;;); })',
    ...TIMES_OUT,
  },
  'sql-endless-read': {
    handler: `({ db }) => db.get('${ENDLESS_ROWS} SELECT count(*) FROM n')`,
    ...TIMES_OUT,
    reach: 'host',
  },
  'sql-endless-write': {
    action: true,
    handler: `async ({ db }) => db.run('INSERT INTO t ${ENDLESS_ROWS} SELECT count(*) FROM n')`,
    answer: TIMED_OUT,
    ends: ['unresponsive'],
    log: /a statement kept the writer busy/,
    reach: 'writer',
  },
};

export const KINDS: readonly Kind[] = Object.entries(TABLE).map(([name, kind]) => ({ name, ...kind }));
/** Time that the tool of this kind is given, in milliseconds: one that ends by itself has time to on a busy machine. */
export function timeoutOf({ answer }: Kind): number {
  return 'error' in answer && answer.error.source.includes('timed out') ? TIMEOUT_MS : DEFAULTS.queryTimeoutMs;
}
