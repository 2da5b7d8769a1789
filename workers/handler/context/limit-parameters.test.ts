import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tokenizedStatements } from '../../../protocol/rules/sql.ts';
import { openSqlite } from '../../../storage/sqlite.ts';
import { limitOf, withoutPlannedLimits } from './limit-parameters.ts';

const REWRITTEN: [sql: string, rewritten: string][] = [
  ['SELECT 1 LIMIT ?', 'SELECT 1 LIMIT (SELECT ?)'],
  ['select v from t limit @top offset :from;', 'select v from t limit (SELECT @top) offset :from;'],
  ['SELECT (SELECT v FROM t LIMIT $a) LIMIT ?2', 'SELECT (SELECT v FROM t LIMIT (SELECT $a)) LIMIT (SELECT ?2)'],
  ['SELECT 1 LIMIT -- all\n ? -- of it', 'SELECT 1 LIMIT -- all\n (SELECT ?) -- of it'],
];
const KEPT = [
  'SELECT 1',
  'SELECT 1 LIMIT 5',
  'SELECT 1 LIMIT ?, ?',
  'SELECT 1 LIMIT 2 * ?',
  `SELECT 'LIMIT ?', "LIMIT ?" FROM t -- LIMIT ?`,
  'SELECT "LIMIT" ?',
  'EXPLAIN QUERY PLAN SELECT 1 LIMIT ?',
];

for (const [sql, rewritten] of REWRITTEN) test(sql, () => assert.equal(withoutPlannedLimits(sql), rewritten));
for (const sql of KEPT) test(`kept: ${sql}`, () => assert.equal(withoutPlannedLimits(sql), sql));

test('the limit has the same effect and the same errors', () => {
  const db = openSqlite(':memory:');
  const values = 'SELECT column1 AS v FROM (VALUES (1), (2), (3), (4)) LIMIT ?';
  const run = (sql: string, limit: unknown): unknown => {
    try {
      return db.prepare(sql).all(limit);
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (const limit of [2n, 0n, -1n, 2.0, 2.5, '3', 'three', null, Buffer.from('2'), 2n ** 62n]) {
    assert.deepEqual(run(withoutPlannedLimits(values), limit), run(values, limit), String(limit));
  }
  db.close();
});

test('the value of the limit at the end', () => {
  const of = (sql: string, params: Parameters<ReturnType<typeof limitOf>>[0]) =>
    limitOf(tokenizedStatements(withoutPlannedLimits(sql))[0]?.tokens ?? [])(params);
  assert.equal(of('SELECT ? LIMIT ?', [1, 7n]), 7n);
  assert.equal(of('SELECT ? LIMIT @top', { top: 7n }), 7n);
  assert.equal(of('SELECT ? LIMIT @top', [7n]), undefined);
  assert.equal(of('SELECT ? LIMIT ? OFFSET ?', [1, 7n, 8n]), undefined);
  assert.equal(of('SELECT (SELECT 1 LIMIT ?)', [7n]), undefined);
  assert.equal(of('SELECT 1 LIMIT 5', []), undefined);
});
