import assert from 'node:assert/strict';
import { builtinModules } from 'node:module';
import { describe, test } from 'node:test';
import { inspect } from './check-handlers.ts';
import { DETERMINISM_RULES } from './rules.ts';

const HANDLER = 'export default async () => {};\n';
const REACH = { query: false, action: false, automation: true };

/** `<rule> <what is marked, to the end of its line>` of each finding in an automation. */
function lint(text: string): string[] {
  const whole = `${HANDLER}${text}`;
  return inspect('automations/digest/handler.js', whole, 'automation', () => {})
    .findings.filter(({ applies }) => applies === undefined || applies(REACH))
    .sort((a, b) => a.at - b.at)
    .map(({ rule, at }) => `${rule} ${whole.slice(at).split('\n', 1)[0]}`);
}

/** Each text with the rule that it breaks, and where the finding begins; without, at its beginning. */
const FOUND: Record<string, (string | [text: string, from: string])[]> = {
  'date-now': [
    'Date.now();',
    "Date['now']();",
    'Date[`now`]();',
    'Date?.now?.();',
    'globalThis.Date.now();',
    "global['Date'].now();",
    ['(0, Date.now)();', 'Date'],
    ['const { now } = Date;', 'now }'],
    ['const { now: n = null } = Date;', 'now:'],
    ["const { 'now': n } = Date;", "'now'"],
    ['const { Date: { now } } = globalThis;', 'now }'],
    ['let now; ({ now } = Date);', 'now }'],
    ['const stamp = ({ now } = Date) => now();', 'now }'],
    ['const Clock = Date;\nClock.now();', 'Clock.now'],
    ['const g = globalThis; g.Date.now();', 'g.Date'],
    ['const { Date: Clock } = globalThis;\nClock.now();', 'Clock.now'],
    ['const stamp = (clock = Date) => clock.now();', 'clock.now'],
    ['const at = { at: Date.now };', 'Date'],
    ['if (true) { let Date = 1; } Date.now();', 'Date.now'],
    ['const f = (a = Date.now()) => { var Date; };', 'Date.now'],
  ],
  'new-date': [
    'new Date();',
    'new Date;',
    'Date();',
    'Date(0);',
    'new globalThis.Date();',
    ['const Clock = Date; new Clock();', 'new Clock'],
  ],
  'performance-now': [
    'performance.now();',
    'performance.timeOrigin;',
    'performance.nodeTiming;',
    ['const { now } = performance;', 'now }'],
  ],
  'math-random': ['Math.random();', ['const { random } = Math;', 'random }'], ['[].sort(Math.random);', 'Math']],
  'random-id': [
    'crypto.randomUUID();',
    'globalThis.crypto.randomUUID();',
    'crypto.getRandomValues(new Uint8Array(1));',
    "crypto.subtle.generateKey('Ed25519', true, []);",
    ['const { randomUUID } = crypto;', 'randomUUID }'],
  ],
  'raw-fetch': [
    "fetch('https://example.com');",
    'globalThis.fetch;',
    ['export const load = { fetch };', 'fetch }'],
    ['const { fetch: load } = globalThis;', 'fetch:'],
    ["new WebSocket('wss://example.com');", 'WebSocket'],
    ["new EventSource('https://example.com');", 'EventSource'],
    ['new XMLHttpRequest();', 'XML'],
    ['for (const fetch of []) {}\nfetch();', 'fetch();'],
    ['try {} catch (fetch) {} fetch();', 'fetch();'],
    ['const load = function fetch() {}; fetch();', 'fetch();'],
  ],
  'node-builtin': [
    "import 'node:fs';",
    "import fs from 'fs';",
    "import { readFile } from 'fs/promises';",
    "import { randomUUID } from 'crypto';",
    "export { readFile } from 'node:fs';",
    "export * from 'node:fs';",
    ["await import('node:fs');", 'import('],
    ['await import(`fs`);', 'import('],
    "require('lodash');",
    "import 'node:something-new';",
  ],
  process: [
    'process.env.HOME;',
    'globalThis.process;',
    ['const { env } = process;', 'process;'],
    ['const { process: p } = globalThis;', 'process:'],
  ],
};

/** What a name that is declared, or a member of something else, is not. */
const PASSES = [
  'new Date(0); new Date(ctx.now); new Date(...[]); Date.parse(""); Date.UTC(2026);',
  'Math.max(1, 2); crypto.subtle.digest("SHA-256", new Uint8Array()); performance.mark;',
  'setTimeout(() => {}, 1); setInterval; setImmediate; queueMicrotask; structuredClone({});',
  'ctx.fetch("https://example.com"); ctx.now; ctx.process; input.fetch; this.fetch;',
  'const run = async ({ ctx: { fetch, now } }) => { await fetch("https://example.com"); now; };',
  'const run = (Date, Math) => [Date.now(), new Date(), Math.random()];',
  'function run(fetch) { return () => fetch(); }',
  'const run = () => { inner(); function inner() { fetch(); } var fetch = () => {}; };',
  'const run = () => { fetch(); if (true) { var fetch = () => {}; } };',
  'const run = () => { process(); function process() {} };',
  "import { fetch, now as Date } from '../../lib/http.js'; fetch(); Date.now();",
  "import process from '../../lib/process.js'; process.env;",
  "import * as crypto from '../../lib/crypto.js'; crypto.randomUUID();",
  'class Date { static now() {} } Date.now(); new Date();',
  'const make = class fetch { static self = fetch; };',
  'const make = function process() { return process; };',
  'try {} catch (process) { process.message; }',
  'for (const process of []) process.id;',
  'for (const process in {}) { process; }',
  'for (let fetch = 0; fetch < 1; fetch++);',
  'switch (1) { case 1: let process = 1; process; }',
  'class A { static { var process = 1; process; } }',
  'const { now, Date: D } = ctx; now(); D.now();',
  'const [Date] = [1]; Date.now;',
  'const { a: { fetch = 1 }, ...process } = ctx; fetch; process;',
  'let ctx2 = { fetch: 1, process: 2, Date: 3, require: 4 }; ctx2.fetch; ctx2.Date.now; ctx2.require();',
  'class A { fetch() {} process = 1; static Date = 2; get require() { return this.fetch(); } }',
  'fetch: for (;;) break fetch;',
  '"fetch() Date.now()"; /process/; `Math.random()`; // process',
  'const require = (name) => name; require("fs");',
  'const name = "fs"; await import(name); await import("../../lib/fs.js");',
  'const x = x.y; const [a] = a; x.now; a();',
];

describe('rules of automations', () => {
  test('every rule has its cases', () => assert.deepEqual(Object.keys(FOUND).sort(), [...DETERMINISM_RULES].sort()));

  for (const [rule, cases] of Object.entries(FOUND)) {
    for (const entry of cases) {
      const [text, from] = typeof entry === 'string' ? [entry, entry] : entry;
      test(`${rule}: ${text}`, () => {
        const found = lint(text);
        assert.equal(found.length, 1, found.join('\n'));
        const marked = text.slice(text.lastIndexOf(from)).split('\n', 1)[0];
        assert.equal(found[0], `${rule} ${marked}`);
      });
      test(`${rule} waived: ${text}`, () => {
        const lines = text.split('\n').map((line) => `// governance: allow-${rule} a test\n${line}`);
        assert.deepEqual(lint(lines.join('\n')), []);
      });
    }
  }

  for (const text of PASSES) test(`passes: ${text}`, () => assert.deepEqual(lint(text), []));

  test('every module of Node is known, with and without its prefix', () => {
    for (const name of builtinModules) {
      assert.equal(lint(`import '${name}';`).length, 1, name);
      assert.equal(lint(`import 'node:${name}';`).length, 1, name);
    }
  });
});
