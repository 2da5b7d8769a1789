/** Modules of a page as they run in its document: written by the jobs process, linked by the bridge. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
// @ts-expect-error: a script for browsers
import { linkModules } from '../../../console/bridge/modules.js';
import { PageFiles } from './page-files.ts';
import { PageModules } from './scripts.ts';

/** Runs `app.js` of these files; what they push to `log` is the result. */
async function run(files: Record<string, string>, imports?: object): Promise<unknown[]> {
  const pageFiles = new PageFiles('site', ['index.html', ...Object.keys(files)], (path) =>
    Buffer.from(files[path] ?? ''),
  );
  const modules = new PageModules(pageFiles);
  if (imports !== undefined) modules.map(JSON.stringify({ imports }));
  const key = modules.file('app.js');
  assert.deepEqual(pageFiles.faults, []);
  const log: unknown[] = [];
  let start = (_key: string | null): unknown => undefined;
  const svcModules = (definitions: object) => {
    start = linkModules(definitions);
  };
  new Function('svcModules', 'log', modules.definitions())(svcModules, log);
  await start(key);
  return log;
}

test('imports and exports of every form', async () => {
  const log = await run({
    'app.js': `#!/usr/bin/env node
      import first, { named, renamed as other, "a b" as odd } from './lib.js'
      import * as all from './lib.js'
      import { inner, deep as alsoDeep } from './star.js'
      import data from './data.json' with { type: 'json' }
      log.push(first(), named, other, odd, Object.keys(all).sort().join(), inner, alsoDeep, data.n)
      const shorthand = { named, first }
      log.push(shorthand.named, typeof shorthand.first, \`\${named}\`, named ? 1 : 2)
      const f = (named) => named
      log.push(f('own'))
      export {}`,
    'lib.js': `export default function () { return this === undefined }
      export const named = 'named', [, { renamed, ...rest }] = [0, { renamed: 'renamed' }];
      export { odd as 'a b' }; let odd = 'odd';
      export class Thing {}
      export async function* many() {}`,
    'star.js':
      "export * from './inner.js'; export * as deep from './inner.js'; export { default as alone } from './inner.js';",
    'inner.js': "export const inner = 'inner'; export default ('de', 'fault');",
    'data.json': '{ "n": 7 }',
  });
  const names = 'Thing,a b,default,many,named,renamed,rest';
  assert.deepEqual(log.slice(0, 6), [true, 'named', 'renamed', 'odd', names, 'inner']);
  assert.deepEqual({ ...(log[6] as object) }, { inner: 'inner', default: 'fault' });
  assert.deepEqual(log.slice(7), [7, 'named', 'function', 'named', 1, 'own']);
});

test('names follow their values, and functions are there before their module has run', async () => {
  const log = await run({
    'app.js': "import { count, add } from './a.js'; log.push(count); add(); log.push(count)",
    'a.js':
      "import { useEarly } from './b.js'; export let count = 1; export function add() { count++ } export function early() { return 'early' } useEarly()",
    'b.js':
      "import { early, count } from './a.js'; log.push(early()); try { count } catch (error) { log.push(error.name) } export const useEarly = () => log.push('used')",
  });
  assert.deepEqual(log, ['early', 'ReferenceError', 'used', 1, 2]);
});

test('lines without semicolons stay apart, and a function is called without an object', async () => {
  const log = await run({
    'app.js': `import { self } from './lib.js'
      let a = 1
      self()
      if (a)
        self()
      const tag = self\`x\`
      log.push(tag)`,
    'lib.js': "'use strict'; export function self() { log.push(this); return 'tagged' }",
  });
  assert.deepEqual(log, [undefined, undefined, undefined, 'tagged']);
});

test('a module that waits is waited for, and each runs once', async () => {
  const log = await run({
    'app.js':
      "import './slow.js'; import './fast.js'; import './slow.js'; log.push('app'); for await (const x of [1]) log.push(x)",
    'slow.js': "await null; log.push('slow'); export const late = await Promise.resolve('late')",
    'fast.js': "import { late } from './slow.js'; log.push('fast', late)",
  });
  assert.deepEqual(log, ['slow', 'fast', 'late', 'app', 1]);
});

test('a module that fails fails all that import it, each time', async () => {
  const files = { 'app.js': "import './bad.js'; log.push('never')", 'bad.js': "throw new Error('bad')" };
  await assert.rejects(run(files), /bad/);
  const log = await run({
    'app.js': "for (const n of [1, 2]) await import('./bad.js').catch(({ message }) => log.push(message))",
    'bad.js': "log.push('once'); throw new Error('bad')",
  });
  assert.deepEqual(log, ['once', 'bad', 'bad']);
});

test('modules are loaded later, by a text or by what is computed; addresses of files contain them', async () => {
  const log = await run({
    'app.js': `const { x } = await import('./lib/late.js'); log.push(x)
      const name = './lib/late.js'; log.push((await import(name)).x)
      await import('./gone.js').catch(({ constructor }) => log.push(constructor.name))`,
    'lib/late.js':
      "export const x = new URL('../icon.svg', import.meta.url).href.slice(0, 18); log.push(import.meta.url)",
    'icon.svg': '<svg/>',
  });
  assert.deepEqual(log, ['http://page.invalid/lib/late.js', 'data:image/svg+xml', 'data:image/svg+xml', 'TypeError']);
});

test('names of an import map count from the page', async () => {
  const files = {
    'app.js': "import './sub/one.js'",
    'sub/one.js': "import a from 'a'; import b from 'lib/b.js'; log.push(a, b)",
    'vendor/a.js': "export default 'a'",
    'vendor/lib/b.js': "export default 'b'",
  };
  assert.deepEqual(await run(files, { a: './vendor/a.js', 'lib/': './vendor/lib/' }), ['a', 'b']);
});
