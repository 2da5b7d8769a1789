import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from './check-handlers.ts';

const REACH = { query: true, action: false, automation: false };
const RULE = 'query-handlers-read-only';

const IMPORTS = "import imported, * as library from '../lib/notes.js';\n";

/** The text from where each finding in a query begins, to the end of its line; `body` is what the handler does. */
function lint(body: string): string[] {
  const text = `${IMPORTS}export default async ({ db, input, log }) => {\n${body}\n};\n`;
  return inspect('queries/list.js', text, 'query', () => {})
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
  ["await db.run('REINDEX');", "'REINDEX"],
  ["await db.exec('analyze main.t');", "'analyze"],
  ["await db.run('-- a note\\n/* b */ ; DELETE FROM t');", "'-- a note"],
  ["await db.run('WITH a AS (SELECT 1), b(x) AS (SELECT 2) INSERT INTO t SELECT * FROM a');", "'WITH"],
  ["await db.run('WITH RECURSIVE a AS (SELECT 1) DELETE FROM t');", "'WITH"],
  ['await db.run(`\n  INSERT INTO t VALUES (1)`);', '`'],
  [`await db.run(\`INSERT INTO \${input.t} VALUES (1)\`);`, '`INSERT'],
  [`await db.run(\`UPDATE \${input.t} \${input.rest}\`);`, '`UPDATE'],
  [`await db.exec(\`\${input.first}; DELETE FROM t\`);`, `\`\${input.first}`],
  ["await db.run('UPDATE ' + input.t + ' SET a = 1');", "'UPDATE"],
  ["await db.run(('DELETE ' + 'FROM ') + input.t);", "('DELETE"],
  ["await db.run('SELECT 1' + ('; DELETE ' + 'FROM t'));", "'SELECT"],
  ["await db['run']('DELETE FROM t');", "'DELETE"],
  ["await db?.run?.('DELETE FROM t');", "'DELETE"],
  ["await input.app.db.run('DELETE FROM t');", "'DELETE"],
  ["const go = (db) => db.run('DELETE FROM t'); await go(db);", "'DELETE"],
  ["await db.batch([['SELECT 1'], ['INSERT OR IGNORE INTO t VALUES (?)', 1]]);", "'INSERT"],
  ["await db.transaction(async (tx) => { await tx.run('DELETE FROM t'); });", "'DELETE"],
  ["await db.transaction(async function (t) { for (;;) await t.batch([['DELETE FROM t']]); });", "'DELETE"],
  ["const SQL = 'DELETE FROM t';\nawait db.run(SQL);\nawait db.all(SQL);", "'DELETE"],
  ['const SQL = `DELETE FROM t`; await db.batch([[SQL]]);', '`DELETE'],
  ["const SQL = 'DELETE ' + 'FROM t'; await db.run(SQL);", "'DELETE"],
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
  `await db.all(\`\${input.select} replace(a, 1, 2) FROM t\`);`,
  "await db.all('SELECT ' + columns + ' FROM t');",
  "log.info('DELETE FROM t'); const help = 'INSERT INTO t VALUES (1)';",
  "const SQL = 'DELETE FROM t'; return SQL;",
  "const sql = 'SELECT 1'; { const sql = 'DELETE FROM t'; log.info(sql); } await db.all(sql);",
  "const labels = new Map(); labels.get('Delete'); imported.run('Update the set');",
  "/update (.*)/.exec('update it'); caches.run('DELETE FROM t');",
  "db.note('DELETE FROM t'); db.all(); db.batch(input); db.batch([input, , []]); db.transaction();",
  'const [SQL] = input.list; let a; db.all(SQL); db.all(input); db.all(a);',
  'const a = b; const b = a; db.all(a);',
  // At run time these are refused in any case.
  "await db.run('VACUUM'); await db.run('PRAGMA user_version = 7'); await db.run('PRAGMA optimize');",
  "await db.all('PRAGMA user_version'); await db.all('EXPLAIN ANALYZE t');",
];

/** Writes that are not seen, as docs/handler-rules.md says: they succeed, and no page hears of them. */
const NOT_SEEN = [
  "let sql = 'DELETE FROM t'; await db.run(sql);",
  "const A = 'DELETE FROM t'; const B = A; await db.run(B);",
  "const SQL = { del: 'DELETE FROM t' }; await db.run(SQL.del);",
  "const { del } = { del: 'DELETE FROM t' }; await db.run(del);",
  "await db.run(input.a ? 'SELECT 1' : 'DELETE FROM t');",
  "await db.run(input.sql ?? 'DELETE FROM t');",
  "const go = (db, sql) => db.run(sql); await go(db, 'DELETE FROM t');",
  "const { run } = db; await run('DELETE FROM t');",
  "const database = db; await database.run('DELETE FROM t');",
  "await db.batch(input.ids.map((id) => ['DELETE FROM t WHERE id = ?', id]));",
  "await imported(db, 'DELETE FROM t'); await library.remove(db);",
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
  for (const body of NOT_SEEN) test(`not seen: ${body}`, () => assert.deepEqual(lint(body), []));
});
