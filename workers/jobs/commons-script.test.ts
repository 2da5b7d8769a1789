import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { compileFunction } from 'node:vm';
import type { Manifest } from '../../protocol/manifest.ts';
import type { CommonsFinding } from '../../protocol/wire/commons.ts';
import { ScriptModules } from '../commons/script-modules.ts';
import { commonsScript } from './commons-script.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-commons-script-'));
after(() => rmSync(folder, { recursive: true, force: true }));
let apps = 0;

/** Of an app whose one query is `q`. */
function findingOf(files: Record<string, string>, more: Partial<Manifest> = {}): CommonsFinding {
  const code = join(folder, String(++apps));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(code, path)), { recursive: true });
    writeFileSync(join(code, path), text);
  }
  const manifest = { id: 'a', name: 'A', version: '1.0.0', queries: [{ name: 'q' }], actions: [], ...more };
  return commonsScript(code, manifest, Object.keys(files), new Map());
}

/** What the query returns when it runs from its script. */
async function runQuery(files: Record<string, string>): Promise<unknown> {
  const finding = findingOf(files);
  assert.ok('script' in finding, JSON.stringify(finding));
  const modules = new ScriptModules(
    JSON.stringify(finding.script),
    (body, params, filename) =>
      compileFunction(`"use strict";\n${body}`, params, { filename, lineOffset: -1 }) as () => unknown,
  );
  return await modules.handler('queries/q')({});
}

test('a script that is damaged is refused', () => {
  for (const text of ['', 'null', '5', '[]', '"text"', '{"queries":{}}', '{"modules":{}}'])
    assert.throws(() => new ScriptModules(text, () => () => {}), text === '' ? /JSON/ : /is damaged/, text);
});

const PLAIN = 'export default () => 1;';

test('modules run as functions, whatever they import and export', async () => {
  const lib = `export const a = 1, { b, c: [d = 4] } = { b: 2, c: [] };
    export function f() { return g(); }
    export class K { static x = 6; }
    export { a as 'some name', f as default };
    function g() { return 7; }`;
  const cases: [query: string, expected: unknown, more?: Record<string, string>][] = [
    [PLAIN, 1],
    ['export default async function named() { return named.name; }', 'named'],
    ['export default (async () => 2)', 2],
    ['export default () => 3\n;[1].map(String)', 3],
    ['#!/usr/bin/env node\nexport default () => 4', 4],
    ['const f = () => 5; export { f as default };', 5],
    [
      `import json from '../data.json' with { type: 'json' }; export default () => json;`,
      { x: 1 },
      { 'data.json': '{"x":1}' },
    ],
    [
      `import f, { a, b, d, K, 'some name' as s } from '../lib.js'; export default () => [f(), a, b, d, K.x, s];`,
      [7, 1, 2, 4, 6, 1],
    ],
    [
      `import * as all from '../lib.js'; export default () => [Object.keys(all), Object.prototype.toString.call(all), Object.isFrozen(all)];`,
      [['K', 'a', 'b', 'd', 'default', 'f', 'some name'], '[object Module]', true],
    ],
    [`export { f as default } from '../lib.js';`, 7],
    [
      `import { a, K, own } from '../again.js'; export default () => [a, K.x, own];`,
      ['own', 6, 1],
      { 'again.js': `export * from './lib.js'; export const a = 'own'; export { a as own } from './lib.js';` },
    ],
    [
      `import { all } from '../again.js'; export default () => all.a;`,
      1,
      { 'again.js': `export * as all from './lib.js';` },
    ],
    ['export default () => this === undefined', true],
    [
      'export default () => [1 < 2, "<!-- a", `<!-- <!--`, /<!--/.source] // <!-- x',
      [true, '<!-- a', '<!-- <!--', '<!--'],
    ],
    // What stood between two lines without semicolons kept them apart.
    ['let f = String\nimport "../lib.js"\n(1)\nexport default () => typeof f', 'function'],
    ['let f = String\nexport { f as g }\n[1].map(f)\nexport default () => typeof f', 'function'],
    ['let f = 4, g = 2; let h = f\nexport * from "../lib.js"\n/2/g.source\nexport default () => h', 4],
  ];
  for (const [query, expected, more = {}] of cases)
    assert.deepEqual(await runQuery({ 'queries/q.js': query, 'lib.js': lib, ...more }), expected, query);
});

test('each module runs once, after what it imports', async () => {
  const query = `import { log } from '../log.js'; import '../one.js'; import '../two.js'; export default () => log;`;
  const value = await runQuery({
    'queries/q.js': query,
    'log.js': 'export const log = [];',
    'one.js': `import './two.js'; import { log } from './log.js'; log.push('one');`,
    'two.js': `import { log } from './log.js'; log.push('two');`,
  });
  assert.deepEqual(value, ['two', 'one']);
});

test('lines and columns stay as they are', async () => {
  const text = `import { f } from '../lib.js'; /* ${'é'.repeat(9)} */ export default
async () => {
  await null; f(new Error('here')) };`;
  const at = async (files: Record<string, string>): Promise<string> => {
    const error = await runQuery(files).catch((error: Error) => error);
    return String((error as Error).stack);
  };
  const lib = 'export const f = (error) => { throw error; };';
  assert.match(
    await at({ 'queries/q.js': text.replace('default\n', 'default '), 'lib.js': lib }),
    /at default \(queries\/q\.js:2:17\)/,
  );
  const thrown = 'export const f = () => { throw new Error(); };';
  assert.match(
    await at({ 'queries/q.js': 'import { f } from "../lib.js"; export default () => f();', 'lib.js': thrown }),
    /at f \(lib\.js:1:32\)\s+at default \(queries\/q\.js:1:53\)/,
  );
});

test('what cannot be in the commons, and why', () => {
  const state = (text: string) => ({ 'queries/q.js': text });
  const cases: [files: Record<string, string>, kept: string, detail: RegExp][] = [
    [state('let n = 0; export default () => ++n;'), 'state', /queries\/q\.js changes "n"/],
    [state('export let n; export default () => { n = 1; };'), 'state', /"n"/],
    [state('const seen = new Set(); export default ({ input }) => { seen.add(input); };'), 'state', /"seen"/],
    [state('const cache = {}; export default ({ input }) => { cache[input.k] ??= 1; };'), 'state', /"cache"/],
    [state('const cache = { list: [] }; export default () => { cache?.list.push(1); };'), 'state', /"cache"/],
    [state('const cache = {}; export default () => { delete cache.x; };'), 'state', /"cache"/],
    [
      {
        'queries/q.js': 'import { m } from "../m.js"; export default () => m.set(1, 2);',
        'm.js': 'export const m = new Map();',
      },
      'state',
      /"m"/,
    ],
    [state('export default () => performance.now();'), 'globals', /uses performance/],
    [state('const b = Buffer.from("a"); export default () => b;'), 'globals', /uses Buffer/],
    [state('export default () => import("../x.js");'), 'modules', /import\(\)/],
    [state('export default () => import.meta.url;'), 'modules', /import\.meta/],
    [state('let b = 1; const t = 1 <!-- /*\n ;import("x")// */ b\n; export default () => t;'), 'modules', /"<!--"/],
    [state('await null; export default () => 1;'), 'modules', /await/],
    [state('for await (const x of []) ; export default () => 1;'), 'modules', /await/],
    [state('export default () => {'), 'modules', /does not parse/],
    [state('export const f = 1;'), 'modules', /no default export/],
    [state('import fs from "node:fs"; export default () => fs;'), 'modules', /imports what it may not/],
    [state('import x from "../gone.js"; export default () => x;'), 'modules', /gone\.js does not exist/],
    [
      { ...state('import { y } from "../x.js"; export default () => y;'), 'x.js': 'export const x = 1;' },
      'modules',
      /"y", which x\.js does not export/,
    ],
    [
      {
        ...state('import { "*" as x } from "../x.js"; export default () => x;'),
        'x.js': 'const x = 1; export { x as "*" };',
      },
      'modules',
      /an export with the name "\*"/,
    ],
    [
      {
        ...state('import { x } from "../x.js"; export default () => x;'),
        'x.js': 'import "./queries/q.js"; export const x = 1;',
      },
      'modules',
      /imports itself/,
    ],
  ];
  for (const [files, kept, detail] of cases) {
    const finding = findingOf(files);
    assert.ok('kept' in finding, JSON.stringify(files));
    assert.equal(finding.kept, kept, finding.detail);
    assert.match(finding.detail, detail);
  }
  const asked = findingOf({ 'queries/q.js': PLAIN }, { thread: 'own' });
  assert.equal('kept' in asked && asked.kept, 'thread');
  const uncached = findingOf({ 'queries/q.js': PLAIN }, { cache: false });
  assert.equal('kept' in uncached && uncached.kept, 'state');
});

test('variables of functions are no state, nor what libraries keep', () => {
  const texts = [
    'export default () => { let n = 0; const s = new Set(); s.add(++n); return n; };',
    'const names = ["a", "b"]; export default () => [...names].sort();',
    'const LIMIT = 5; let text = "a"; text += "b"; export default () => text + LIMIT;',
    'import { memo } from "memo"; export default () => memo();',
  ];
  const library = 'let n; export function memo() { n ??= 1; return typeof URL; }';
  for (const text of texts)
    assert.ok('script' in findingOf({ 'queries/q.js': text, '_packages/memo.js': library }), text);
  for (const text of [
    'let n; export function memo() { n = 1; } export { n };',
    'export let n; export const memo = () => n++;',
  ]) {
    const finding = findingOf({ 'queries/q.js': texts[3] as string, '_packages/memo.js': text });
    assert.equal('kept' in finding && finding.kept, 'state', text);
  }
});
