import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from './inspect.ts';
import { writingKeyword } from './sql-writes.ts';
import { TimeBudget } from './time-budget.ts';

const REACH = { query: true, action: false, automation: false };
const RULE = 'query-handlers-read-only';

/** The text from where each finding in a query begins, to the end of its line; `body` is what the handler does. */
function lint(body: string): string[] {
  const text = `export default async ({ db, input }) => {\n${body}\n};\n`;
  return inspect('queries/list.js', text, 'query', new TimeBudget(Infinity))
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

describe('whole statements', () => {
  const cases: [text: string, keyword: string | null][] = [
    ['insert or replace into t values (1)', 'INSERT'],
    ['UPDATE OR IGNORE "t" AS x SET "a" = 1', 'UPDATE'],
    ['DELETE FROM t', 'DELETE'],
    ['CREATE TEMP TABLE t (a)', 'CREATE'],
    ['CREATE UNIQUE INDEX i ON t (a)', 'CREATE'],
    ['DROP VIEW v', 'DROP'],
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
  ];
  for (const [text, keyword] of cases) {
    test(text, () => assert.equal(writingKeyword(text, { whole: true }), keyword));
  }
});
