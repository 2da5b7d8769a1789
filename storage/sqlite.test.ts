import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  BindingError,
  bindingFolders,
  bindingsFor,
  bindingsHere,
  loadBinding,
  loadSqlite,
  openSqlite,
} from './sqlite.ts';

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

test('the package that users install has the one that fits their Node, under one name', (t) => {
  assert.deepEqual(bindingsHere(requireOf(t, { 'better-sqlite3': LOADS })), ['better-sqlite3']);
  const clone = requireOf(t, { 'better-sqlite3': LOADS, 'better-sqlite3-12': LOADS });
  assert.deepEqual(bindingsHere(clone), bindingsFor(process.versions.node));
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

test('a file of no bytes is not taken for a new database while a log lies beside it', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-empty-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'data.sqlite');
  writeFileSync(file, '');
  writeFileSync(`${file}-wal`, 'frames');
  for (const options of [{}, { readonly: true }])
    assert.throws(() => openSqlite(file, options), { code: 'SQLITE_NOTADB' });
  assert.equal(readFileSync(`${file}-wal`, 'utf8'), 'frames');
  writeFileSync(`${file}-wal`, '');
  openSqlite(file).close();
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

/**
 * What SQLite offers to anybody's SQL, looked through one by one. Those that reach more than values and the app's own tables are
 * refused: `load_extension` and `fts3_tokenizer` by protocol/rules/sql.ts and here, `pragma_database_list` by the former. The
 * others write at most the log, which nobody reads (`sqlite_log`).
 */
const FUNCTIONS =
  '-> ->> abs acos acosh asin asinh atan atan2 atanh avg bm25 ceil ceiling changes char coalesce concat concat_ws ' +
  'cos cosh count cume_dist current_date current_time current_timestamp date datetime degrees dense_rank exp ' +
  'first_value floor format fts3_tokenizer fts5 fts5_get_locale fts5_insttoken fts5_locale fts5_source_id ' +
  'geopoly_area geopoly_bbox geopoly_blob geopoly_ccw geopoly_contains_point geopoly_debug geopoly_group_bbox ' +
  'geopoly_json geopoly_overlap geopoly_regular geopoly_svg geopoly_within geopoly_xform glob group_concat hex ' +
  'highlight if ifnull iif instr json json_array json_array_insert json_array_length json_error_position ' +
  'json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote ' +
  'json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract ' +
  'jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace ' +
  'jsonb_set julianday lag last_insert_rowid last_value lead length like likelihood likely ln load_extension log ' +
  'log10 log2 lower ltrim match matchinfo max median min mod nth_value ntile nullif octet_length offsets optimize ' +
  'percent_rank percentile percentile_cont percentile_disc pi pow power printf quote radians random randomblob ' +
  'rank replace round row_number rtreecheck rtreedepth rtreenode rtrim sign sin sinh snippet soundex ' +
  'sqlite_compileoption_get sqlite_compileoption_used sqlite_log sqlite_source_id sqlite_version sqrt strftime ' +
  'string_agg substr substring subtype sum tan tanh time timediff total total_changes trim trunc typeof unhex ' +
  'unicode unistr unistr_quote unixepoch unlikely upper zeroblob';
const MODULES =
  'dbstat fts3 fts3tokenize fts4 fts4aux fts5 fts5vocab geopoly pragma_function_list pragma_module_list rtree rtree_i32';

test('SQLite offers no function and no table that was not looked through', () => {
  const db = openSqlite(':memory:');
  const names = (list: string) => db.prepare(`SELECT DISTINCT name FROM pragma_${list} ORDER BY name`).pluck().all();
  const unknown = (list: string, known: string) =>
    names(list).filter((name) => !known.split(' ').includes(name as string));
  assert.deepEqual(unknown('function_list', FUNCTIONS), []);
  assert.deepEqual(
    unknown('module_list', MODULES).filter((name) => !String(name).startsWith('pragma_')),
    [],
  );
  db.close();
});

test('the addresses of tokenizers can be neither read nor set, and full text search goes on', () => {
  const db = openSqlite(':memory:');
  for (const [sql, ...params] of [
    ['SELECT fts3_tokenizer(?)', 'simple'],
    ['SELECT fts3_tokenizer(?, ?)', 'simple', Buffer.alloc(8)],
  ] as [string, ...unknown[]][])
    assert.throws(() => db.prepare(sql).get(...params), /fts3_tokenizer is refused/);
  db.exec(`CREATE VIRTUAL TABLE notes USING fts4(text, tokenize=porter); INSERT INTO notes VALUES ('Buying milk')`);
  assert.deepEqual(db.prepare(`SELECT text FROM notes WHERE text MATCH 'buy'`).all(), [{ text: 'Buying milk' }]);
  db.close();
});
