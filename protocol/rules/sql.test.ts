import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSqlite } from '../../storage/sqlite.ts';
import { LIMITS } from '../limits.ts';
import { keywordWithoutWhere, mayWrite, refuseMigration, refuseUnsafe, splitStatements } from './sql.ts';

const TRIGGER = `CREATE TRIGGER t AFTER INSERT ON a WHEN new.x > 0 BEGIN
  UPDATE a SET x = CASE WHEN x > 1 THEN 1 ELSE 0 END;
  DELETE FROM a WHERE x = 9;
END`;

const SPLITS: [name: string, sql: string, expected: [keyword: string, line: number][]][] = [
  ['nothing', '', []],
  ['only comments and semicolons', ' -- one\n;/* two */;\n', []],
  ['one without a semicolon', 'select 1', [['SELECT', 1]]],
  [
    'two',
    'SELECT 1;\n\ndelete from a;',
    [
      ['SELECT', 1],
      ['DELETE', 3],
    ],
  ],
  [
    'semicolons in strings and names',
    `SELECT ';' , ";", [;], \`;\`, 'it''s;'; SELECT 2`,
    [
      ['SELECT', 1],
      ['SELECT', 1],
    ],
  ],
  [
    'semicolons in comments',
    'SELECT 1 -- a;b\n, 2 /* ; */; SELECT 3',
    [
      ['SELECT', 1],
      ['SELECT', 2],
    ],
  ],
  ['a comment that is not closed', 'SELECT 1; /* DROP TABLE a;', [['SELECT', 1]]],
  [
    'a slash and star that only look closed',
    'SELECT 1 /*/ ; DELETE */; SELECT 2',
    [
      ['SELECT', 1],
      ['SELECT', 1],
    ],
  ],
  [
    'a trigger with its body',
    `${TRIGGER}; SELECT 1`,
    [
      ['CREATE', 1],
      ['SELECT', 4],
    ],
  ],
  ['a temporary trigger', TRIGGER.replace('TRIGGER', 'temp trigger'), [['CREATE', 1]]],
  ['a trigger in an odd case with comments', TRIGGER.replace('TRIGGER', '/* x */ tRigger'), [['CREATE', 1]]],
  ['explain', 'EXPLAIN DELETE FROM a', [['DELETE', 1]]],
  ['explain query plan', 'explain query plan select 1', [['SELECT', 1]]],
  [
    'parameters with semicolons in them',
    'SELECT $a(;) ; SELECT :b',
    [
      ['SELECT', 1],
      ['SELECT', 1],
    ],
  ],
  ['a byte order mark', '\uFEFFSELECT 1', [['SELECT', 1]]],
  ['what is no statement', '1 + 1', [['', 1]]],
];

for (const [name, sql, expected] of SPLITS) {
  test(`statements: ${name}`, () => {
    assert.deepEqual(
      splitStatements(sql).map(({ keyword, line }) => [keyword, line]),
      expected,
    );
  });
}

test('the text of a statement has no semicolon and no comment around it', () => {
  const statements = splitStatements(`/* a */ SELECT 1 /* b */ ; ${TRIGGER};`);
  assert.deepEqual(
    statements.map(({ text }) => text),
    ['SELECT 1', TRIGGER],
  );
});

const REFUSED: [sql: string, message: RegExp][] = [
  [`ATTACH '/tmp/x' AS x`, /ATTACH/],
  [`attach database 'x' as x`, /ATTACH/],
  [`-- harmless\n/* SELECT */ AtTaCh 'x' AS x`, /ATTACH/],
  [`;;\uFEFF \n ATTACH 'x' AS x`, /ATTACH/],
  [`SELECT 1; ATTACH 'x' AS x`, /ATTACH/],
  [`SELECT '--'; ATTACH 'x' AS x`, /ATTACH/],
  [`SELECT "/*"; ATTACH 'x' AS x; SELECT "*/"`, /ATTACH/],
  [`SELECT 1 --\r; \n; ATTACH 'x' AS x`, /ATTACH/],
  [`SELECT $a('), 1; ATTACH 'x' AS x; --'`, /ATTACH/],
  [`SELECT @a::b('), 1; ATTACH 'x' AS x; --'`, /ATTACH/],
  [`SELECT [it's]; ATTACH 'x' AS x; --'`, /ATTACH/],
  ["SELECT `it's`; ATTACH 'x' AS x; --'", /ATTACH/],
  [`EXPLAIN ATTACH 'x' AS x`, /ATTACH/],
  [`${TRIGGER}; ATTACH 'x' AS x`, /ATTACH/],
  ['DETACH x', /DETACH/],
  ['VACUUM', /VACUUM/],
  [`vacuum main into '/tmp/x'`, /VACUUM/],
  [`SELECT load_extension('x')`, /load_extension/],
  [`SELECT "Load_Extension" /* */ ('x')`, /load_extension/],
  [`SELECT [load_extension]('x')`, /load_extension/],
  [`CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT load_extension('x'); END`, /load_extension/],
  ['SELECT file FROM pragma_database_list', /pragma_database_list/],
  [`SELECT file FROM 'pragma_database_list'`, /pragma_database_list/],
  [`SELECT file FROM notes JOIN 'Pragma_Database_List'`, /pragma_database_list/],
  [`SELECT file FROM notes, 'pragma_database_list'`, /pragma_database_list/],
  ['SELECT fts3_tokenizer(?)', /fts3_tokenizer/],
  [`SELECT "FTS3_Tokenizer"(?, ?)`, /fts3_tokenizer/],
  ['PRAGMA database_list', /database_list/],
  [`PRAGMA temp_store_directory = '/tmp'`, /temp_store_directory/],
  ['PRAGMA journal_mode = DELETE', /journal_mode can be read/],
  ['PRAGMA main.journal_mode(off)', /journal_mode can be read/],
  ['pragma "writable_schema"=1', /writable_schema/],
  ['EXPLAIN PRAGMA user_version = 3', /user_version can be read/],
  ['PRAGMA defer_foreign_keys = ON', /defer_foreign_keys/],
  ['PRAGMA', /PRAGMA/],
  ['BEGIN', /BEGIN.*db\.transaction/],
  ['begin immediate', /BEGIN/],
  ['COMMIT', /COMMIT/],
  ['END TRANSACTION', /END/],
  ['ROLLBACK TO x', /ROLLBACK/],
  ['SAVEPOINT x', /SAVEPOINT/],
  ['RELEASE x', /RELEASE/],
  ['INSERT OR ROLLBACK INTO a VALUES (1)', /Use ABORT/],
  ['CREATE TABLE a (x UNIQUE ON CONFLICT ROLLBACK)', /Use ABORT/],
  [`CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT raise(rollback, 'no'); END`, /Use ABORT/],
  ['SELECT 1\0; ATTACH', /NUL/],
  ['CREATE TEMP TABLE notes (id)', /would outlive the statement/],
  ['create temporary view v as select 1', /would outlive/],
  ['CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END', /would outlive/],
  ['CREATE TABLE temp.notes (id)', /would outlive/],
  ['CREATE TABLE IF NOT EXISTS "temp" . notes (id)', /would outlive/],
  ['CREATE UNIQUE INDEX IF NOT EXISTS [TEMP].i ON notes (id)', /would outlive/],
  ["CREATE VIRTUAL TABLE IF NOT EXISTS 'temp'.f USING fts5 (x)", /would outlive/],
];

for (const [sql, message] of REFUSED) {
  test(`refused: ${JSON.stringify(sql)}`, () => {
    const refusal = refuseUnsafe(sql);
    assert.ok(refusal, 'it is let through');
    assert.match(refusal.message, message);
  });
}

const PERMITTED = [
  '',
  'SELECT attach, detach, vacuum, pragma FROM notes',
  `SELECT 'ATTACH', "attach", [VACUUM INTO], 'a; ATTACH x'`,
  '-- ATTACH\nSELECT 1 /* ; VACUUM; */',
  `SELECT replace(a, 'BEGIN', 'COMMIT') FROM notes`,
  'WITH x AS (SELECT 1) SELECT * FROM x',
  'WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x',
  'INSERT INTO a VALUES (1) ON CONFLICT (x) DO UPDATE SET x = 2',
  'INSERT OR REPLACE INTO a VALUES (1)',
  'SELECT * FROM a WHERE x OR rollback',
  TRIGGER,
  `EXPLAIN QUERY PLAN ${TRIGGER}`,
  'PRAGMA table_info(notes)',
  `PRAGMA main."table_info"('notes')`,
  'PRAGMA table_xinfo = notes',
  'PRAGMA journal_mode;',
  'PRAGMA main.user_version',
  'PRAGMA quick_check(1)',
  `SELECT name FROM pragma_table_info('notes')`,
  `SELECT 'load_extension(x)', load_extension FROM a`,
  `SELECT x'ab''; ATTACH'`,
  'SELECT $a, :b, @c, ?1, ?',
];

for (const sql of PERMITTED) {
  test(`permitted: ${JSON.stringify(sql)}`, () => assert.equal(refuseUnsafe(sql), null));
}

test('a refusal names the line of its statement', () => {
  assert.equal(refuseUnsafe('SELECT 1;\nSELECT 2;\n\n  ATTACH x AS y')?.line, 4);
});

test('text over the limit is refused before it is read', () => {
  assert.equal(refuseUnsafe(`SELECT '${'é'.repeat(LIMITS.sqlBytes / 2)}'`)?.code, 'SQLITE_TOOBIG');
});

test('a migration may be long and defer its foreign keys, but no more than a handler otherwise', () => {
  assert.equal(refuseMigration(`PRAGMA defer_foreign_keys = ON; SELECT '${'x'.repeat(LIMITS.sqlBytes)}'`), null);
  assert.match(refuseMigration('CREATE TABLE a (x);\nCOMMIT')?.message ?? '', /COMMIT/);
  assert.match(refuseMigration('PRAGMA foreign_keys = OFF')?.message ?? '', /foreign_keys/);
  assert.match(refuseMigration(`ATTACH 'x' AS x`)?.message ?? '', /ATTACH/);
});

test('no text that is let through attaches a database: seeded mixtures of awkward pieces, run by SQLite itself', () => {
  const pieces = [
    `'`,
    `"`,
    '`',
    '[',
    ']',
    '--',
    '/*',
    '*/',
    '\n',
    '\r',
    ';',
    ' ',
    '$a(',
    ')',
    '@b',
    '::',
    '1',
    'x',
    '\v',
    'SELECT',
    'EXPLAIN',
    'CREATE TEMP TRIGGER',
    'BEGIN',
    'END',
    '\uFEFF',
    `ATTACH ':memory:' AS y`,
    `ATTACH ':memory:' AS z;`,
  ];
  let seed = 7;
  const next = (below: number): number => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
  for (let round = 0; round < 20_000; round++) {
    const sql = Array.from({ length: 2 + next(9) }, () => pieces[next(pieces.length)]).join('');
    if (!sql.includes('ATTACH') || refuseUnsafe(sql) !== null) continue;
    const db = openSqlite(':memory:');
    try {
      db.exec(sql);
    } catch {
      // Most mixtures are no SQL; what counts is whether one got through.
    }
    assert.equal((db.pragma('database_list') as unknown[]).length, 1, JSON.stringify(sql));
    db.close();
  }
});

test('statements for all rows, and DROP, are found anywhere', () => {
  for (const [sql, does] of [
    ['DELETE FROM t', 'DELETE'],
    ['delete from t where id = 1', null],
    ['UPDATE t SET a = (SELECT b FROM u WHERE u.id = t.id)', 'UPDATE'],
    ["UPDATE t SET a = 'WHERE'", 'UPDATE'],
    ['UPDATE t SET a = 1 /* WHERE */', 'UPDATE'],
    ['WITH x AS (SELECT 1 WHERE 1) DELETE FROM t', 'DELETE'],
    ['WITH x AS (SELECT 1) DELETE FROM t WHERE id IN x', null],
    ['INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 1', null],
    ['DROP TABLE t', 'DROP'],
    ['ALTER TABLE t DROP COLUMN a', 'DROP'],
    ['ALTER TABLE t ADD COLUMN a', null],
    ['CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u; END', null],
    ['EXPLAIN DELETE FROM t', null],
    ["SELECT 'DROP TABLE t'", null],
    ['SELECT 1; DROP TABLE t', 'DROP'],
  ] as const)
    assert.equal(keywordWithoutWhere(sql), does, sql);
});

test('what only reads is told from what may write', () => {
  for (const [sql, writes] of [
    ['SELECT 1', false],
    ['-- all\nvalues (1)', false],
    ['PRAGMA table_info(t)', false],
    ['EXPLAIN DELETE FROM t', false],
    ['WITH n AS (SELECT 1) SELECT * FROM n', false],
    ['WITH n AS (SELECT 1) INSERT INTO t SELECT * FROM n', true],
    ['insert into t values (1) returning id', true],
    ['CREATE TABLE t (a)', true],
    ['SELECT 1; DELETE FROM t', true],
    ['REINDEX', true],
  ] as const)
    assert.equal(mayWrite(sql), writes, sql);
});
