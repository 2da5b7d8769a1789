import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from './inspect.ts';
import { writingKeyword } from './sql-writes.ts';
import { TimeBudget } from './time-budget.ts';

const REACH = { query: true, action: false, automation: false };
const RULE = 'query-handlers-read-only';

const IMPORTS = "import imported, * as library from '../lib/notes.js';\n";

/** The text from where each finding in a query begins, to the end of its line; `body` is what the handler does. */
function lint(body: string, ms = Infinity): string[] {
  const text = `${IMPORTS}export default async ({ db, input, log }) => {\n${body}\n};\n`;
  return inspect('queries/list.js', text, 'query', new TimeBudget(ms))
    .findings.filter(({ applies }) => applies === undefined || applies(REACH))
    .map(({ rule, at }) => (rule === RULE ? (text.slice(at).split('\n', 1)[0] ?? '') : rule));
}

/** Each with the beginning of what is marked. */
const FOUND: [body: string, marked: string][] = [
  ["await db.run('INSERT INTO t VALUES (1)');", "'INSERT"],
  ["await db.get('UPDATE t SET a = 1 RETURNING a');", "'UPDATE"],
  ["await db.all('delete from t');", "'delete"],
  ["await db.exec('SELECT 1; DROP TABLE t');", "'SELECT 1; DROP"],
  ["await db.prepare('REPLACE INTO t VALUES (1)').run();", "'REPLACE"],
  ["await db.run('CREATE INDEX i ON t (a)');", "'CREATE"],
  ["await db.run('ALTER TABLE t ADD b');", "'ALTER"],
  ["await db.run('-- a note\\n/* b */ ; DELETE FROM t');", "'-- a note"],
  ["await db.run('WITH a AS (SELECT 1), b(x) AS (SELECT 2) INSERT INTO t SELECT * FROM a');", "'WITH"],
  ["await db.run('WITH RECURSIVE a AS (SELECT 1) DELETE FROM t');", "'WITH"],
  ['await db.run(`\n  INSERT INTO t VALUES (1)`);', '`'],
  [`await db.run(\`INSERT INTO \${input.t} VALUES (1)\`);`, '`INSERT'],
  [`await db.run(\`\${input.with} DELETE FROM t\`);`, `\`\${input.with}`],
  [`await db.run(\`UPDATE \${input.t} \${input.rest}\`);`, '`UPDATE'],
  ["await db.run('UPDATE ' + input.t + ' SET a = 1');", "'UPDATE"],
  ["await db.run(('DELETE ' + 'FROM ') + input.t);", "('DELETE"],
  ["await db.run('DELETE ' + ('FROM ' + input.t));", "'DELETE"],
  ["await db.run('SELECT 1' + ('; DELETE ' + 'FROM t'));", "'SELECT"],
  ["await db.run(input.a ? 'SELECT 1' : 'DELETE FROM t');", "'DELETE"],
  ["await db.run(input.sql ?? 'DELETE FROM t');", "'DELETE"],
  ['await db.run(sql`DELETE FROM t`);', '`DELETE'],
  ["await db['run']('DELETE FROM t');", "'DELETE"],
  ["await db?.run?.('DELETE FROM t');", "'DELETE"],
  ["await input.app.db.run('DELETE FROM t');", "'DELETE"],
  ["await db.batch([['SELECT 1'], ['INSERT OR IGNORE INTO t VALUES (?)', 1]]);", "'INSERT"],
  ["await db.batch(input.ids.map((id) => ['DELETE FROM t WHERE id = ?', id]));", "'DELETE"],
  ["await db.transaction(async (tx) => { await tx.run('DELETE FROM t'); });", "'DELETE"],
  ["const { run } = db; await run('DELETE FROM t');", "'DELETE"],
  ["await database.all('UPDATE t SET (a, b) = (1, 2)');", "'UPDATE"],
  ["const SQL = 'DELETE FROM t';\nawait db.run(SQL);\nawait db.all(SQL);", "'DELETE"],
  ["const SQL = 'DELETE ' + 'FROM t'; await db.batch([[SQL]]);", "'DELETE"],
  ["await db.run('REINDEX');", "'REINDEX"],
  ["await db.exec('analyze main.t');", "'analyze"],
  ["await db.batch([['REINDEX i']]);", "'REINDEX"],
  [`await db.exec(\`\${input.first}; DELETE FROM t\`);`, `\`\${input.first}`],
  // Members.
  ["const S = { del: 'DELETE FROM t' }; await db.run(S.del);", "'DELETE"],
  ["const S = { del: 'DELETE FROM t' }; await db.run(S['del']);", "'DELETE"],
  ["const S = { notes: { del: 'delete from t' } }; await db.run(S.notes?.del);", "'delete"],
  ["const S = { a: { b: { c: { d: { e: 'DELETE FROM t' } } } } }; await db.run(S.a.b.c.d.e);", "'DELETE"],
  ["const S = ['SELECT 1', 'DELETE FROM t']; await db.run(S[1]);", "'DELETE"],
  ["const S = ['SELECT 1', 'DELETE FROM t']; await db.run(S.at(-1));", "'DELETE"],
  ["const S = { list: 'SELECT 1', del: 'DELETE FROM t' }; await db.run(S[input.kind]);", "'DELETE"],
  ["const S = { del: 'DELETE FROM t' }; const { del } = S; await db.run(del);", "'DELETE"],
  ["const { notes: { del: remove } } = { notes: { del: 'DELETE FROM t' } }; await db.run(remove);", "'DELETE"],
  ["const [, del] = ['SELECT 1', 'DELETE FROM t']; await db.run(del);", "'DELETE"],
  ["const [, ...rest] = ['SELECT 1', 'DELETE FROM t']; await db.run(rest[0]);", "'DELETE"],
  ["const { list, ...rest } = { list: 'SELECT 1', del: 'DELETE FROM t' }; await db.run(rest.del);", "'DELETE"],
  ["const A = { del: 'DELETE FROM t' }; const B = { ...A }; await db.run(B.del);", "'DELETE"],
  ["const A = ['DELETE FROM t']; const B = ['SELECT 1', ...A]; await db.run(B[1]);", "'DELETE"],
  ["const S = Object.freeze({ list: 'SELECT 1', del: 'DELETE FROM t' }); await db.run(S.del);", "'DELETE"],
  ["const S = new Map([['del', 'DELETE FROM t']]); await db.run(S.get('del'));", "'DELETE"],
  ["const S = {}; S.del = 'DELETE FROM t'; await db.run(S.del);", "'DELETE"],
  ["const S = {\n  list: 'SELECT 1',\n  del: 'DELETE FROM t',\n};\nawait db.run(S.del);", "'DELETE"],
  // Branches.
  ["const sql = input.a ? 'DELETE FROM t' : 'SELECT 1'; await db.run(sql);", "'DELETE"],
  ["const sql = input.sql || 'DELETE FROM t'; await db.run(sql);", "'DELETE"],
  ["const sql = input.sql ?? 'DELETE FROM t'; await db.run(sql);", "'DELETE"],
  ["const sql = input.a && (input.b ? 'SELECT 1' : 'DELETE FROM t'); await db.run(sql);", "'DELETE"],
  ["const { sql = 'DELETE FROM t' } = input; await db.run(sql);", "'DELETE"],
  ["const touch = (sql = 'DELETE FROM t') => db.run(sql); await touch();", "'DELETE"],
  ["const S = { del: 'DELETE FROM t' }; const sql = input.a ? S.del : 'SELECT 1'; await db.run(sql);", "'DELETE"],
  // Assignments.
  ["let sql; sql = 'DELETE FROM t'; await db.run(sql);", "'DELETE"],
  ["let sql = 'SELECT 1'; if (input.a) sql = 'DELETE FROM t'; await db.run(sql);", "'DELETE"],
  ["let sql = ''; sql += 'DELETE FROM t'; await db.run(sql);", "'DELETE"],
  ["let sql = 'DELETE '; sql += 'FROM t'; await db.run(sql);", "'DELETE"],
  ["let sql = 'SELECT 1'; sql = sql + '; DELETE FROM t'; await db.exec(sql);", "sql + '; DELETE"],
  ["let sql = input.sql; sql ??= 'DELETE FROM t'; await db.run(sql);", "'DELETE"],
  ["let sql; await db.run((sql = 'DELETE FROM t'));", "'DELETE"],
  ["let sql; ({ sql } = { sql: 'DELETE FROM t' }); await db.run(sql);", "'DELETE"],
  ["var sql = 'SELECT 1'; var sql = 'DELETE FROM t'; await db.run(sql);", "'DELETE"],
  ["const later = () => db.run(sql); let sql; sql = 'DELETE FROM t'; await later();", "'DELETE"],
  ["for (const sql of ['SELECT 1', 'DELETE FROM t']) await db.run(sql);", "'DELETE"],
  ["for (const [, sql] of Object.entries({ del: 'DELETE FROM t' })) await tx.run(sql);", "'DELETE"],
  ["const all = []; all.push(['DELETE FROM t WHERE id = ?', input.id]); await db.batch(all);", "'DELETE"],
  ["const all = [['SELECT 1'], ['DELETE FROM t']]; await db.batch(all);", "'DELETE"],
  ["const all = input.ids.map((id) => ['DELETE FROM t WHERE id = ?', id]); await db.batch(all);", "'DELETE"],
  [
    "const A = 'DELETE FROM t'; const all = input.ids.map((id) => { return [A, id]; }); await db.batch(all);",
    "'DELETE",
  ],
  [`const A = 'DELETE FROM t'; const sql = \`\${A} WHERE id = 1\`; await db.run(sql);`, "'DELETE"],
  ["const A = 'DELETE FROM t'; const B = A; const C = B.trim(); await db.run(C);", "'DELETE"],
  [`const del = (t) => \`DELETE FROM \${t}\`; await db.run(del('t'));`, '`DELETE'],
  // Functions of the app.
  ["const go = (db, s) => db.run(s); await go(db, 'DELETE FROM t WHERE id > 3');", "'DELETE"],
  ["async function go(db, s) { await db.run(s); } await go(db, 'DELETE FROM t');", "'DELETE"],
  ["await later(db, 'DELETE FROM t'); function later(db, s) { return db.run(s); }", "'DELETE"],
  ["const go = (db, { text }) => db.run(text); await go(db, { text: 'DELETE FROM t' });", "'DELETE"],
  ["const lib = { go: (db, s) => db.run(s) }; await lib.go(db, 'DELETE FROM t');", "'DELETE"],
  ["const go = (db, s) => db.run(s); const S = { del: 'DELETE FROM t' }; await go(db, S.del);", "'DELETE"],
  ["const go = (db) => (s) => db.run(s); const exec = go(db); await exec('DELETE FROM t');", "'DELETE"],
  ["class Notes { go(s) { return db.run(s); } clear() { return this.go('DELETE FROM t'); } }", "'DELETE"],
  ["class Notes { go(s) { return db.run(s); } } const notes = new Notes(); notes.go('DELETE FROM t');", "'DELETE"],
  ["await imported(db, 'DELETE FROM t');", "'DELETE"],
  ["await library.go(db, input.a ? 'DELETE FROM t' : 'SELECT 1');", "'DELETE"],
  ["await (await import('../lib/notes.js')).go(db, 'DELETE FROM t');", "'DELETE"],
];

const PASSES = [
  "await db.run('SELECT 1');",
  "await db.exec('SELECT 1; SELECT 2');",
  "await db.batch([['SELECT ?', 'delete'], ['VALUES (1)']]);",
  "await db.transaction(async (tx) => tx.all('SELECT * FROM t'));",
  "await db.all(`SELECT 'delete from x', \"update\", [insert], replace(a, 'b', 'c') FROM t`);",
  "await db.all('SELECT a -- insert into t\\n FROM t /* DELETE FROM t; */');",
  "await db.all('SELECT a; -- DELETE FROM t');",
  "await db.all('WITH a AS (SELECT 1) SELECT replace(a, 1, 2) FROM a');",
  "await db.all('EXPLAIN QUERY PLAN DELETE FROM t');",
  "await db.all('EXPLAIN WITH a AS (SELECT 1) DELETE FROM t');",
  "await db.all('SELECT * FROM t WHERE verb = ?', 'delete');",
  "await db.all('SELECT * FROM t WHERE verb = :verb', { verb: 'update' });",
  `await db.all(\`SELECT * FROM t WHERE id IN (\${input.marks}) \${input.order}\`);`,
  "await db.all('SELECT ' + columns + ' FROM t');",
  "log.info('DELETE FROM t'); const help = 'INSERT INTO t VALUES (1)';",
  "const SQL = 'DELETE FROM t'; return SQL;",
  "const labels = new Map(); labels.get('Delete'); labels.get('Update the set');",
  "/update (.*)/.exec('update it'); caches.run('Create a list');",
  "db.note('DELETE FROM t');",
  'const [SQL] = input.list; db.all(SQL); db.all(input); db.all();',
  // At run time these are refused in any case.
  "await db.run('VACUUM'); await db.run('PRAGMA user_version = 7'); await db.run('PRAGMA optimize');",
  "await db.all('PRAGMA user_version'); await db.all('EXPLAIN ANALYZE t');",
  // Another member, another name, another branch.
  "const S = { list: 'SELECT 1', del: 'DELETE FROM t' }; await db.all(S.list); return S.del;",
  "const S = Object.freeze({ list: 'SELECT 1', del: 'DELETE FROM t' }); await db.all(S.list);",
  "const S = ['SELECT 1', 'DELETE FROM t']; await db.all(S[0]); log.info(S[1]);",
  "const { list, del } = { list: 'SELECT 1', del: 'DELETE FROM t' }; await db.all(list); return del;",
  "const S = { list: 'SELECT 1' }; S.del = 'DELETE FROM t'; await db.all(S.list);",
  "const S = { del: { list: 'SELECT 1' }, list: 'DELETE FROM t' }; await db.all(S.del.list);",
  "const sql = 'SELECT 1'; { const sql = 'DELETE FROM t'; log.info(sql); } await db.all(sql);",
  "let help; help = 'DELETE FROM t'; return help;",
  "const help = []; help.push('DELETE FROM t'); return { help };",
  "const help = input.a ? 'DELETE FROM t' : 'SELECT 1'; log.info(help); console.log(help);",
  "const isDelete = input.sql === 'DELETE FROM t'; await db.all('SELECT ?', isDelete);",
  // What goes on with something that reads.
  "let sql = 'SELECT '; sql += 'replace(a, 1, 2) FROM t'; await db.all(sql);",
  "let sql = 'SELECT '; sql = sql + 'replace(a, 1, 2) FROM t'; await db.all(sql);",
  `await db.all(\`\${input.select} replace(a, 1, 2) FROM t\`);`,
  // Functions that are not the app's, and texts that are no statements.
  "const { log: own } = input; own.info('DELETE FROM t'); input.list.includes('DELETE FROM t');",
  "const names = ['a']; names.includes('DELETE FROM t'); String('DELETE FROM t'); new Set(['DELETE FROM t']);",
  "const say = (text) => text; say('Delete from the list'); say('Update the set'); say('Insert into the list');",
  "imported('Delete'); library.go('Analyze', 'Create a list', 'Delete from your list?');",
  "imported(db, async () => { log.info('DELETE FROM t'); return 'DELETE FROM t'; });",
  // What turns in circles, or means nothing.
  "let a = b; var b = a; a = a.next; b = [...b, a]; const { c = c } = a; db.all(a, b, c); return 'DELETE FROM t';",
  "const f = () => f(); db.all(f()); f().g = f; [f.g, ...f.h] = f; for (f.i of f) db.all(f); return 'DELETE ' + f;",
];

describe('the rule of queries', () => {
  for (const [body, marked] of FOUND) {
    test(`found: ${body}`, () => {
      const found = lint(body);
      assert.equal(found.length, 1, found.join('\n'));
      assert.ok(found[0]?.startsWith(marked), found[0]);
    });
    test(`waived: ${body}`, () => {
      const lines = body.split('\n').map((line) => `// governance: allow-${RULE} a test\n${line}`);
      // Within a template such a line is no comment; the one above it is.
      assert.deepEqual(
        lint(body.startsWith('await db.run(`\n') ? `${lines[0]}\n  INSERT INTO t\`);` : lines.join('\n')),
        [],
      );
    });
  }

  for (const body of PASSES) test(`passes: ${body}`, () => assert.deepEqual(lint(body), []));
});

describe('ways to a text that multiply', () => {
  const many = (count: number, line: (n: number) => string): string =>
    Array.from({ length: count }, (_, n) => line(n)).join('\n');
  for (const [name, body] of Object.entries({
    branches: `${many(500, (n) => `const a${n + 1} = input.a ? a${n} : a${n};`)}\nawait db.run(a500);`,
    members: `let node = a0;\n${many(60, (n) => `node = node.part${n};`)}\nawait db.run(node);`,
    names: `${many(5000, (n) => `const a${n + 1} = a${n};`)}\nawait db.run(a5000);`,
  })) {
    test(name, () => assert.deepEqual(lint(`const a0 = 'DELETE FROM t';\n${body}`, 10_000), ["'DELETE FROM t';"]));
  }
});

describe('whole statements', () => {
  const cases: [text: string, keyword: string | null][] = [
    ['insert or replace into t values (1)', 'INSERT'],
    ['UPDATE OR IGNORE "t" AS x SET "a" = 1', 'UPDATE'],
    ['DELETE FROM t', 'DELETE'],
    ['CREATE TEMP TABLE t (a)', 'CREATE'],
    ['CREATE UNIQUE INDEX i ON t (a)', 'CREATE'],
    ['DROP VIEW v', 'DROP'],
    ['Create virtual keys', null],
    ['SELECT 1; REPLACE INTO t VALUES (1)', 'REPLACE'],
    ['Delete', null],
    ['Delete the list', null],
    ['Create', null],
    ['Insert a row', null],
    ['Replace it', null],
    ['Update', null],
    ['', null],
    [';;', null],
    ["'DELETE FROM t", null],
    ['DELETE FROM main.t AS x WHERE a', 'DELETE'],
    ['insert into t (a) values (1)', 'INSERT'],
    ['INSERT INTO t DEFAULT VALUES', 'INSERT'],
    ['Delete from the list', null],
    ['Insert into the list', null],
    ['REINDEX', 'REINDEX'],
    ['ANALYZE main.t', 'ANALYZE'],
    ['Analyze', null],
    ['ANALYZE the table', null],
    ['VACUUM', null],
  ];
  for (const [text, keyword] of cases) {
    test(text, () => assert.equal(writingKeyword(text, { whole: true }), keyword));
  }
});
