import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type Sqlite from 'better-sqlite3';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Row, SqlParams } from '../../../protocol/wire/frames.ts';
import { openSqlite } from '../../../storage/sqlite.ts';
import type { RowStatement } from '../../writer/statements.ts';
import { installJsonRules, toJsonBytes } from '../result.ts';
import { Reader } from './reader.ts';
import { JsonStatement } from './rows-json.ts';

const RANDOM_ROWS = 100_000;
const ROWS_A_QUERY = 50;

let folder: string;
let writer: Sqlite.Database;
let reader: Reader;

before(() => {
  installJsonRules();
  folder = mkdtempSync(join(tmpdir(), 'rows-json-'));
  const file = join(folder, 'data.sqlite');
  writer = openSqlite(file);
  writer.pragma('journal_mode = WAL');
  writer.pragma('synchronous = OFF');
  reader = new Reader(openSqlite, file);
});

after(() => {
  reader.close();
  writer.close();
  rmSync(folder, { recursive: true });
});

/** The statement as `db.json` and as `db.all` with JSON.stringify give it, a few times, because the first run differs from others. */
function assertSame(sql: string, params: SqlParams = [], name = sql): void {
  const statement = reader.statement(sql);
  assert.ok(statement, name);
  const all = toJsonBytes(statement.all(params), Number.POSITIVE_INFINITY).toString();
  for (let run = 0; run < 4; run++) assert.equal(statement.json(params).toString(), all, name);
}

/** How often a statement takes the way of `all` in as many runs as `params` has members; the answers are compared. */
function runsOfAll(sql: string, params: SqlParams[], between = (_run: number): void => {}): number {
  const db = openSqlite(join(folder, 'data.sqlite'), { readonly: true });
  try {
    const plain = db.prepare<[SqlParams], unknown>(sql) as RowStatement;
    let count = 0;
    const statement = new JsonStatement(db, plain, (given) => {
      count++;
      return plain.all(given) as Row[];
    });
    for (const [run, given] of params.entries()) {
      between(run);
      const json = statement.run(given).toString();
      assert.equal(json, toJsonBytes(plain.all(given), Number.POSITIVE_INFINITY).toString(), sql);
    }
    return count;
  } finally {
    db.close();
  }
}

/** Numbers from 0 on, the same ones in each run of the tests. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** In SQL, because no parameter could be invalid UTF-8. */
function randomValue(random: () => number, kind: number): string {
  const digits = () => Math.floor(random() * 1e9);
  switch (kind) {
    case 0:
      return `${digits() - 5e8}`;
    case 1:
      return `${(BigInt(digits()) * 1_000_000_000n + BigInt(digits())) * (random() < 0.5 ? -1n : 1n)}`;
    case 2:
      return `${(random() - 0.5) * 10 ** Math.floor(random() * 40 - 20)}`;
    case 3:
      return `${Math.round(random() * 1e6) / 100}`;
    case 4:
      return ['9e999', '-9e999', '-0.0', '0.0', '1.0', '1e15', '1e21', '5e-324', '1e-7'][digits() % 9] as string;
    case 5:
      return ['9007199254740991', '9007199254740992', '-9007199254740993', '9223372036854775807'][
        digits() % 4
      ] as string;
    case 6:
      return 'NULL';
    case 7:
      return `x'${Buffer.from(Array.from({ length: digits() % 6 }, () => digits() % 256)).toString('hex')}'`;
    case 8:
      // Any bytes as text: NUL, control characters, broken sequences, halves of surrogates.
      return `CAST(x'${Buffer.from(Array.from({ length: digits() % 12 }, () => digits() % 256)).toString('hex')}' AS TEXT)`;
    case 9:
      return `CAST(x'${['eda080', 'f09f9880', 'f09f98', 'c2', 'e282ac', 'efbbbf61', '610062', '22', '5c22'][digits() % 9]}' AS TEXT)`;
    default:
      return `'${randomText(random)}'`;
  }
}

/** What has a meaning in JSON, in SQL, or in both, and what a number is made of. */
const SIGNS = [...'":,.{}[]\\/-+eE0159 ;?@$#()', "''", '\n', '\t', 'null', 'x', 'ü', '☃'];

/** A text of such signs, for between two quotes of SQL. */
function randomText(random: () => number, signs = SIGNS): string {
  return Array.from({ length: random() * 7 }, () => signs[Math.floor(random() * signs.length)]).join('');
}

test(`the bytes are those of all: ${RANDOM_ROWS} random rows`, () => {
  const random = seeded(14);
  writer.exec(
    'CREATE TABLE random (n INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL, d, e NUMERIC, f TEXT COLLATE NOCASE)',
  );
  for (let from = 0; from < RANDOM_ROWS; ) {
    const values: string[] = [];
    // Most queries of an app have columns of one kind each; the others mix everything.
    const kinds = Array.from({ length: 6 }, () => Math.floor(random() * 11));
    const mixed = random() < 0.3;
    for (let i = 0; i < 1000; i++) {
      const row = kinds.map((kind) =>
        randomValue(random, mixed || random() < 0.002 ? Math.floor(random() * 11) : kind),
      );
      values.push(`(${from + i}, ${row})`);
    }
    writer.exec(`INSERT INTO random VALUES ${values}`);
    // A statement of its own, because what one has learned is kept.
    const sql = `SELECT * FROM random WHERE n >= ? AND ${from} >= 0 ORDER BY n LIMIT ?`;
    for (let i = 0; i < 1000; i += ROWS_A_QUERY) {
      const statement = reader.statement(sql);
      assert.ok(statement);
      const params = () => [BigInt(from + i), BigInt(ROWS_A_QUERY)];
      const all = toJsonBytes(statement.all(params()), Number.POSITIVE_INFINITY);
      const json = statement.json(params());
      assert.ok(json.equals(all), `rows from ${from + i}: ${all.toString()}\n${json.toString()}`);
    }
    from += 1000;
  }
});

test('texts that look like JSON or SQL are the same in values, names and aliases', () => {
  const random = seeded(25);
  const name = () =>
    randomText(
      random,
      SIGNS.filter((sign) => sign !== "''"),
    ).replaceAll('"', '""');
  for (let i = 0; i < 2000; i++) {
    const columns = Array.from({ length: 1 + random() * 3 }, (_, at) => {
      const value = random() < 0.8 ? `'${randomText(random)}'` : randomValue(random, Math.floor(random() * 7));
      return `${value} AS "${name()}${random() < 0.5 ? at : ''}"`;
    });
    assertSame(`SELECT ${columns} UNION ALL SELECT ${columns.map((_, at) => (at === 0 ? "':5.5'" : "':1.50,x'"))}`);
  }
});

const SAME: string[] = [
  'SELECT 1 AS b, 2 AS "2", 3 AS a, 4 AS "1"',
  "SELECT ':5.5' AS t",
  "SELECT ':1.50,x' AS t, ':-0.10}' AS u",
  'SELECT 1 AS a, 2 AS b, 3 AS a',
  'SELECT x.n, y.n FROM (SELECT 1 AS n) x, (SELECT 2 AS n) y',
  'SELECT 1 AS __proto__, 2 AS b',
  'SELECT NULL AS __proto__, 2 AS b',
  `SELECT 1 AS toJSON, 2 AS constructor, 3 AS ""`,
  `SELECT 1.5 AS "a\\", 2.5 AS "b""", 3.5 AS "it's", 4.5 AS "tab\t", 5.5 AS "é☃"`,
  `SELECT json('{"a":1}') AS j, json('5') AS n, json_array(1, 2) AS l, '5' AS t`,
  `SELECT '{"a":{"b":1.5}}' -> '$.a' AS o, '{"a":"x"}' -> '$.a' AS s, '{"a":5}' -> '$.a' AS n`,
  `SELECT key, value, atom FROM json_each('{"a":[1,2],"b":{"c":1},"d":"x","e":1.5,"f":true,"g":null}')`,
  `SELECT value FROM json_each('[[1],[2]]')`,
  `SELECT v FROM (SELECT json('[1]') AS v UNION ALL SELECT json('[2]'))`,
  `WITH w AS MATERIALIZED (SELECT json('[1]') AS v) SELECT v FROM w`,
  `SELECT json_group_array(1) AS j`,
  `SELECT x'00' AS b`,
  `SELECT x'' AS b`,
  `SELECT x'1331' AS looksLikeJsonb, 'a' AS t`,
  `SELECT jsonb('{"a":1}') AS b`,
  'SELECT 1 AS a WHERE FALSE',
  'SELECT 1 AS a;',
  'SELECT 1 AS a -- with a comment',
  'SELECT 1 AS a /* that does not end',
  'SELECT 1 AS a /* */ ; ; -- nothing else',
  'VALUES (1, 2), (3, 4)',
  'PRAGMA table_info(random)',
  'EXPLAIN SELECT 1',
  "SELECT name, type FROM pragma_table_info('random')",
  'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20) SELECT x, x / 3.0 AS y FROM c ORDER BY y DESC',
  "SELECT CASE WHEN x % 2 THEN x ELSE 't' || x END AS v FROM (SELECT 1 AS x UNION SELECT 2 UNION SELECT 3)",
  'SELECT max(n) AS m, count(*) AS c FROM random',
  'SELECT DISTINCT e % 7 AS k FROM random WHERE n < 5000 AND e < 9e15 AND e > -9e15',
  `SELECT ${Array.from({ length: 600 }, (_, i) => `${i} AS c${i}`)}`,
  'SELECT 9007199254740993 AS big, 1 AS one',
  'SELECT sum(n) / 7.0 AS s FROM random GROUP BY n % 5 ORDER BY 1',
];

for (const sql of SAME) test(`the same bytes: ${sql.slice(0, 100)}`, () => assertSame(sql));

test('values may come by name, and limits as parameters', () => {
  assertSame('SELECT n, :word AS word FROM random WHERE n < :end', { word: 'x', end: 5n });
  assertSame('SELECT n FROM random ORDER BY n LIMIT ?', [3]);
  assertSame('SELECT n FROM random ORDER BY n LIMIT ?', [-1]);
  // SQLite takes what a function says is JSON for JSON, but not through a query within another one.
  assertSame(`SELECT json('[1]') AS j, '{"a":5}' -> '$.a' AS n FROM random LIMIT ?`, [3]);
  assertSame(`SELECT DISTINCT json_array(n % 3) AS j FROM random WHERE n < 99 ORDER BY 1 LIMIT @top`, { top: 3 });
  assertSame(`SELECT value FROM random, json_each('[[1],{"a":1},"x",5]') LIMIT ?`, [9]);
});

test('SQLite makes the JSON from the second run on', () => {
  writer.exec(`CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT, done_at INTEGER, price REAL)`);
  const insert = writer.prepare('INSERT INTO notes VALUES (?, ?, ?, ?)');
  for (let id = 1; id <= 100; id++) insert.run(BigInt(id), `Note ${id}`, id % 2 === 0 ? BigInt(id) : null, id / 3);
  const runs = Array.from({ length: 50 }, (_, i) => [BigInt(i), 20n]);
  assert.equal(runsOfAll('SELECT id, title, done_at FROM notes WHERE id > ? ORDER BY id LIMIT ?', runs), 1);
  assert.equal(runsOfAll('SELECT id, title FROM notes WHERE id > ? AND id < ? + 30', runs), 1);
});

test('it learns the kinds of a column, and gives up where SQLite cannot make the JSON', () => {
  writer.exec('CREATE TABLE kinds (id INTEGER PRIMARY KEY, v)');
  const put = writer.prepare('INSERT OR REPLACE INTO kinds VALUES (1, ?)');
  const values: unknown[] = [null, 'text', 5n, null, 'text', 5n, 'more', 7n];
  const sql = 'SELECT * FROM kinds WHERE id = ?';
  const params = (count: number): SqlParams[] => Array.from({ length: count }, () => [1n]);
  assert.equal(
    runsOfAll(sql, params(values.length), (run) => put.run(values[run])),
    3,
  );
  // A blob is never SQLite's to write, and neither is a number with a point.
  for (const other of [Buffer.from([1]), 1.5]) {
    const written: unknown[] = ['text', 'text', other, 'text'];
    assert.equal(
      runsOfAll(sql, params(4), (run) => put.run(written[run])),
      3,
    );
  }
  // One without a fraction looks like an integer until SQLite is asked.
  assert.equal(
    runsOfAll(sql, params(20), () => put.run(2.0)),
    20,
  );
  // Large integers might come again and again.
  assert.equal(
    runsOfAll(sql, params(20), (run) => put.run(run % 2 === 0 ? 1n : 2n ** 60n)),
    20 - 2,
  );
});

test('another schema gives other names', () => {
  writer.exec("CREATE TABLE renamed (id INTEGER PRIMARY KEY, one TEXT); INSERT INTO renamed VALUES (1, 'a')");
  const steps = ['RENAME COLUMN one TO two', 'ADD COLUMN three DEFAULT 3', 'RENAME COLUMN three TO one'];
  const count = runsOfAll(
    'SELECT * FROM renamed',
    Array.from({ length: 8 }, () => []),
    (run) => {
      if (run >= 2 && run % 2 === 0) writer.exec(`ALTER TABLE renamed ${steps[run / 2 - 1]}`);
    },
  );
  assert.equal(count, 4);
});

test('more rows or longer ones than SQLite should gather take the way of all', () => {
  const series = (n: number) =>
    `WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < ${n}) SELECT x FROM c`;
  assert.equal(runsOfAll(series(LIMITS.jsonRows), [[], [], []]), 1);
  assert.equal(runsOfAll(series(LIMITS.jsonRows + 1), [[], [], []]), 3);
  const text = (length: number) => `SELECT printf('%.*c', ${length}, 'x') AS t FROM (SELECT 1 UNION ALL SELECT 2)`;
  assert.equal(runsOfAll(text(LIMITS.jsonRowBytes), [[], []]), 1);
  assert.equal(runsOfAll(text(LIMITS.jsonRowBytes + 1), [[], []]), 2);
  const limited = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c LIMIT ?';
  assert.equal(runsOfAll(limited, [[3n], [BigInt(LIMITS.jsonRows)], [5n], [BigInt(LIMITS.jsonRows + 1)]]), 2);
  const named = limited.replace('?', '@top');
  assert.equal(runsOfAll(named, [{ top: 3n }, { top: 5n }, { top: BigInt(LIMITS.jsonRows + 1) }]), 2);
  const statement = reader.statement(series(LIMITS.readRows + 1));
  assert.throws(() => statement?.json([]), { code: 'SQLITE_TOOBIG' });
});

test('it refuses what SQLite refuses, with the errors of all', () => {
  const statement = reader.statement(`SELECT json(?) AS j`);
  for (let run = 0; run < 3; run++) assert.equal(statement?.json(['[1]']).toString(), '[{"j":"[1]"}]');
  assert.throws(() => statement?.json(['{']), { code: 'SQLITE_ERROR', message: 'malformed JSON' });
  assert.throws(() => statement?.json([]), /Too few parameter values/);
});
