import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { BindingError, bindingFolders, bindingsFor, loadBinding, loadSqlite, openSqlite } from './sqlite.ts';

/** A `require` that finds these packages and no others; each is the text of its module. */
function requireOf(t: TestContext, packages: Record<string, string>): NodeJS.Require {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bindings-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(packages)) {
    const home = join(folder, 'node_modules', name);
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, 'package.json'), JSON.stringify({ name, main: 'index.js' }));
    writeFileSync(join(home, 'index.js'), text);
  }
  return createRequire(join(folder, 'main.js'));
}

const LOADS = 'module.exports = class { close() {} };';
const throws = (message: string): string =>
  `module.exports = class { constructor() { throw new Error(${JSON.stringify(message)}); } };`;

test('the compiled binding on Node 20, where the other one crashes; the prebuilt one first from 22 on', () => {
  assert.deepEqual(bindingsFor('20.19.0'), ['better-sqlite3-12']);
  for (const version of ['22.0.0', '24.9.0', '26.1.0', '100.0.0'])
    assert.deepEqual(bindingsFor(version), ['better-sqlite3-13', 'better-sqlite3-12'], version);
});

test('the first that loads is taken', (t) => {
  const require = requireOf(t, { 'better-sqlite3-12': LOADS, 'better-sqlite3-13': throws('no binary') });
  assert.equal(loadBinding(['better-sqlite3-13', 'better-sqlite3-12'], require).name, 'better-sqlite3-12');
});

test('if no binding loads, the error says why for each, and what to do', (t) => {
  const built = 'The module was compiled against another NODE_MODULE_VERSION 115.\nPlease re-compile.';
  const require = requireOf(t, { a: throws(built), b: throws('libstdc++ is missing\nand more') });
  assert.throws(
    () => loadBinding(['a', 'b', 'c'], require),
    (error: BindingError) => {
      assert.ok(error instanceof BindingError);
      const why =
        'a was compiled for another version of Node; b does not load: libstdc++ is missing; c is not installed';
      assert.equal(error.finding, `SQLite cannot be loaded on Node ${process.versions.node}: ${why}.`);
      assert.match(error.nextStep, /npm ci again/);
      assert.equal(error.message, `${error.finding} ${error.nextStep}`);
      return true;
    },
  );
});

test('the binding that loads here opens a database, and its folder is known', () => {
  const [best] = bindingsFor(process.versions.node);
  assert.equal(loadSqlite().name, best);
  assert.ok(bindingFolders().packages.some((folder) => folder.endsWith(best as string)));
  const db = openSqlite(':memory:');
  assert.deepEqual(db.prepare('SELECT 1 AS "a b", ? AS "it\'s"').get('x'), { 'a b': 1, "it's": 'x' });
  assert.deepEqual([...db.prepare('SELECT 1 AS a UNION SELECT 2').iterate()], [{ a: 1 }, { a: 2 }]);
  assert.deepEqual(db.prepare('SELECT 1, 2').raw().all(), [[1, 2]]);
  assert.throws(() => db.prepare('nonsense'), { name: 'SqliteError', code: 'SQLITE_ERROR' });
  db.close();
});

test('npm installs the compiled binding on Node 20 only, as the lock file says', () => {
  const lock = JSON.parse(readFileSync(join(import.meta.dirname, '../package-lock.json'), 'utf8')) as {
    packages: Record<string, { optional?: boolean; engines?: { node: string }; gypfile?: boolean }>;
  };
  const entry = (name: string) => {
    const { optional, engines } = lock.packages[`node_modules/${name}`] ?? {};
    return { optional, node: engines?.node };
  };
  // The package itself says more: with a compiler at hand, other versions would compile it for nothing.
  assert.deepEqual(entry('better-sqlite3-12'), { optional: true, node: '20.x' }, 'see docs/dependencies.md');
  assert.deepEqual(entry('better-sqlite3-13'), { optional: true, node: '>=22' });
  // Without it npm compiles what is there already, and removes the package where there is no compiler.
  const { gypfile } = lock.packages['node_modules/better-sqlite3-13'] ?? {};
  assert.equal(gypfile, false, 'npm install forgets this line: see docs/dependencies.md');
});
