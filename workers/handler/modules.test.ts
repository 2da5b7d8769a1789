import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { type App, FakeSupervisor, failure } from '../../testing/fake-supervisor.ts';

const PLAIN = 'export default async () => 1;';

/** A handler that does not load → what its caller is told. */
const BROKEN: Record<string, [source: string, message: string]> = {
  builtin: [
    `import fs from 'node:fs';\n${PLAIN}`,
    'queries/builtin.js imports "node:fs": handlers cannot import Node built-ins; use db, log and ctx.fetch.',
  ],
  bareBuiltin: [
    `import { join } from 'path';\n${PLAIN}`,
    'queries/bareBuiltin.js imports "path": handlers cannot import Node built-ins; use db, log and ctx.fetch.',
  ],
  bare: [
    `import _ from 'lodash';\n${PLAIN}`,
    'queries/bare.js imports it: _packages/lodash.js does not exist; svc push, svc dev and svc publish <dir> bundle packages.',
  ],
  absolute: [
    `import x from '/etc/hostname.js';\n${PLAIN}`,
    'queries/absolute.js imports "/etc/hostname.js": handlers import files of their own app, by a relative path such as "../lib/dates.js", and packages.',
  ],
  url: [
    `import x from 'file:///etc/hostname.js';\n${PLAIN}`,
    'queries/url.js imports "file:///etc/hostname.js": handlers import files of their own app, by a relative path such as "../lib/dates.js", and packages.',
  ],
  outside: [
    `import x from '../../data.js';\n${PLAIN}`,
    'queries/outside.js imports "../../data.js": it leads out of the app.',
  ],
  ending: [
    `import x from '../lib/dates';\n${PLAIN}`,
    'queries/ending.js imports "../lib/dates": handlers import .js, .mjs, .ts, .json files, with the ending written out.',
  ],
  missing: [`import x from '../lib/gone.js';\n${PLAIN}`, 'queries/missing.js imports it: lib/gone.js does not exist.'],
  link: [
    `import x from '../lib/link.js';\n${PLAIN}`,
    'queries/link.js imports it: lib/link.js is, or is behind, a symbolic link, which is not allowed.',
  ],
  syntax: [
    'export default async () => {\n  let x = ;\n};',
    `queries/syntax.js:2:11 does not parse: Unexpected token ';'`,
  ],
  syntaxAfterImport: [
    `import { a } from '../lib/a.js';\nexport const b = 1;\nexport default async function run() {\n  return a +;\n}`,
    `queries/syntaxAfterImport.js:4:13 does not parse: Unexpected token ';'`,
  ],
  nested: [`import '../lib/broken.js';\n${PLAIN}`, `lib/broken.js:1:9 does not parse: Unexpected token ';'`],
  noExport: ['export const list = async () => 1;', 'queries/noExport.js must export default an async function.'],
  notFunction: ['export default { list: 1 };', 'queries/notFunction.js must export default an async function.'],
  noSuchName: [
    `import { nothing } from '../lib/a.js';\n${PLAIN}`,
    `queries/noSuchName.js failed to load: The requested module '../lib/a.js' does not provide an export named 'nothing'`,
  ],
  throws: [`throw new Error('not today');\n${PLAIN}`, 'queries/throws.js failed to load: not today'],
  json: [`import x from '../lib/bad.json';\n${PLAIN}`, 'lib/bad.json is not valid JSON: '],
  commonjs: ['module.exports = async () => 1;', 'queries/commonjs.js failed to load: module is not defined'],
};

/** What was prepared of the TypeScript among the files. */
const ERASED = {
  'queries/typed.ts': `import { c } from '../lib/c.ts';
      export default async ({ input    }) => { if (c(input.to)) throw new Error('typed'); };`,
  'lib/c.ts': 'export const c = (to        ) => to > 1;',
  'queries/faulty.ts': `import '../lib/enum.ts';\n${PLAIN}`,
  'lib/enum.ts/fault': ':2:3: It has an enum.',
};

let supervisor: FakeSupervisor;
let app: App;

before(async () => {
  supervisor = await FakeSupervisor.start({ spare: false });
  app = await supervisor.app({
    files: {
      ...Object.fromEntries(Object.entries(BROKEN).map(([name, [source]]) => [`queries/${name}.js`, source])),
      'lib/a.js': 'export const a = 1; export const loaded = (globalThis.loads = (globalThis.loads ?? 0) + 1);',
      'lib/broken.js': 'let x = ;',
      'lib/bad.json': '{',
      'lib/data.json': '{ "answer": 42 }',
      'lib/deep/c.mjs': `import { b } from '../circle.js'; export const c = () => b;`,
      'lib/circle.js': `import { c } from './deep/c.mjs'; export const b = 'round'; export const viaC = () => c();`,
      'queries/good.js': `
        import { a } from '../lib/a.js';
        import data from '../lib/data.json' with { type: 'json' };
        import { viaC } from '../lib/circle.js';
        const start = await Promise.resolve(1);
        export default async () => [a, data.answer, viaC(), start];`,
      ...Object.fromEntries(
        ['queries/typed.ts', 'queries/faulty.ts', 'lib/c.ts', 'lib/enum.ts', 'lib/unseen.ts'].map((path) => [
          path,
          '!',
        ]),
      ),
      'queries/dynamic.js': `export default async ({ input }) => Object.keys(await import(input.path));`,
      'queries/counter.js': `
        import { loaded } from '../lib/a.js';
        let calls = 0;
        export default async () => [loaded, ++calls, globalThis.loads];`,
      'queries/stack.js': `
        export default async () => { throw new TypeError('with a stack'); };`,
    },
  });
  symlinkSync('/etc/hostname', join(app.spec.codeDir, 'lib/link.js'));
  for (const [path, text] of Object.entries(ERASED)) {
    const file = join(app.spec.preparedDir, 'erased', path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
});

after(() => supervisor.close());

test('a handler imports files of its app: modules, JSON, circles, top-level await', async () => {
  assert.deepEqual((await app.query('good')).value, [1, 42, 'round', 1]);
});

for (const [name, [, message]] of Object.entries(BROKEN)) {
  test(`a handler that does not load: ${name}`, async () => {
    for (const _ of ['first call', 'from the cache']) {
      const error = await failure(app.query(name));
      assert.equal(error.code, 'HANDLER_ERROR');
      assert.ok(error.message.startsWith(message), error.message);
    }
  });
}

test('a module is loaded once, whoever imports it, and keeps its state between calls', async () => {
  assert.deepEqual((await app.query('counter')).value, [1, 1, 1]);
  assert.deepEqual((await app.query('counter')).value, [1, 2, 1]);
});

test('a dynamic import follows the same rules', async () => {
  assert.deepEqual((await app.query('dynamic', { path: '../lib/a.js' })).value, ['a', 'loaded']);
  assert.match((await failure(app.query('dynamic', { path: 'node:fs' }))).message, /cannot import Node built-ins/);
  assert.match((await failure(app.query('dynamic', { path: '../../x.js' }))).message, /leads out of the app/);
});

test('the log has the stack, in paths of the app; the caller has the message alone', async () => {
  const error = await failure(app.query('stack'));
  assert.deepEqual(error, { code: 'HANDLER_ERROR', message: 'with a stack' });
  const line = await app.log(({ tool }) => tool === 'stack');
  assert.equal(
    (line.err as { stack: string }).stack,
    'TypeError: with a stack\n    at default (queries/stack.js:2:44)',
  );
});

test('TypeScript runs without its types, at the lines and columns of its source', async () => {
  assert.equal((await app.query('typed', { to: 1 })).value, null);
  assert.equal((await failure(app.query('typed', { to: 2 }))).message, 'typed');
  const line = await app.log(({ tool }) => tool === 'typed');
  assert.match((line.err as { stack: string }).stack, /^Error: typed\n {4}at default \(queries\/typed\.ts:2:71\)$/);
});

test('TypeScript that could not be erased says why; so does a file that no import names', async () => {
  const { message } = await failure(app.query('faulty'));
  assert.equal(message, 'lib/enum.ts:2:3: It has an enum.');
  assert.equal(
    (await failure(app.query('dynamic', { path: '../lib/unseen.ts' }))).message,
    'queries/dynamic.js imports it: the types of lib/unseen.ts are not erased: no import names it in plain text.',
  );
});
