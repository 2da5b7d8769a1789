/**
 * Kept results in cases that could deceive them: kinds of tables and writes, similar inputs, callers, and modules that
 * keep a `db`.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { openSqlite } from '../storage/sqlite.ts';
import { appOf } from '../testing/apps.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';

const MIGRATION = `CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, upper TEXT AS (upper(name)) VIRTUAL);
  CREATE INDEX item_name ON item (name);
  CREATE TABLE place (code TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID;
  CREATE TABLE history (name TEXT);
  CREATE TABLE quiet (n INTEGER);
  CREATE VIRTUAL TABLE words USING fts5 (text);
  CREATE VIRTUAL TABLE boxes USING rtree (id, low, high);
  CREATE TRIGGER remembers AFTER UPDATE ON item BEGIN INSERT INTO history VALUES (new.name); END;
  CREATE VIEW shown AS SELECT name FROM place UNION ALL SELECT name FROM history;
  INSERT INTO item (name) VALUES ('a'), ('b');
  INSERT INTO place VALUES ('x', 'X');
  INSERT INTO words VALUES ('one two');
  INSERT INTO boxes VALUES (1, 0, 1);`;

/** A query, and writes that each give it another result. */
const TABLES: [query: string, writes: string[]][] = [
  [
    'SELECT name FROM item ORDER BY name',
    [
      "INSERT INTO item (name) VALUES ('c')",
      "UPDATE item SET name = name || '!'",
      "INSERT INTO item (id, name) VALUES (1, 'z') ON CONFLICT (id) DO UPDATE SET name = 'upserted'",
      "INSERT OR REPLACE INTO item (id, name) VALUES (1, 'replaced')",
      "INSERT INTO item (name) SELECT name || '?' FROM item LIMIT 1",
      "INSERT INTO item (name) VALUES ('returned') RETURNING id",
      'DELETE FROM item',
    ],
  ],
  ['SELECT count(*) AS n FROM item', ["INSERT INTO item (name) VALUES ('d')", 'DELETE FROM item']],
  ['SELECT max(upper) AS most FROM item', ["INSERT INTO item (name) VALUES ('zz')"]],
  ['SELECT seq FROM sqlite_sequence', ["INSERT INTO item (name) VALUES ('e')"]],
  ['SELECT name FROM history', ["UPDATE item SET name = 'f'"]],
  ['SELECT name FROM shown', ["INSERT INTO place VALUES ('y', 'Y')", "UPDATE item SET name = 'g'"]],
  ["SELECT name FROM place WHERE code = 'x'", ["UPDATE place SET name = 'Z' WHERE code = 'x'", 'DELETE FROM place']],
  [
    "SELECT text FROM words WHERE words MATCH 'one'",
    ["INSERT INTO words VALUES ('one three')", "DELETE FROM words WHERE words MATCH 'three'"],
  ],
  ['SELECT low FROM boxes WHERE high > 0', ['INSERT INTO boxes VALUES (2, 1, 3)', 'UPDATE boxes SET low = 0.5']],
  ['SELECT value FROM history, json_each(json_array(history.name))', ["UPDATE item SET name = 'h'"]],
  ["SELECT name FROM sqlite_schema WHERE type = 'table'", ['CREATE TABLE made (v)', 'DROP TABLE made']],
  ['WITH n (name) AS (SELECT name FROM item) SELECT * FROM n', ["INSERT INTO item (name) VALUES ('i')"]],
  [
    'SELECT (SELECT count(*) FROM place) AS places, EXISTS (SELECT 1 FROM quiet) AS any',
    ['INSERT INTO quiet VALUES (1)', "INSERT INTO place VALUES ('w', 'W')"],
  ],
];

const APP = appOf('shop', {
  migrations: [MIGRATION],
  manifest: { public: true },
  queries: {
    sql: '({ input, db }) => db.all(input.sql)',
    echo: '({ input }) => ({ text: JSON.stringify(input), names: Object.keys(input), minus: Object.is(input.n, -0) })',
    list: { run: '({ db }) => db.all("SELECT name FROM item ORDER BY id")', public: true },
    who: { run: '({ ctx }) => ctx.caller', public: true },
    stash: '',
    sees: '',
    log: '({ db }) => db.all("SELECT name FROM history")',
  },
  actions: {
    run: '({ input, db }) => db.run(input.sql)',
    batch: '({ input, db }) => db.batch([[input.sql]])',
    transaction: '({ input, db }) => db.transaction((tx) => tx.run(input.sql))',
  },
  files: {
    'store.js': 'let store; export const storeOf = (db) => (store ??= db);',
    'queries/stash.js': `import { storeOf } from '../store.js';
      export default ({ db }) => storeOf(db).all('SELECT n FROM quiet ORDER BY n');`,
    'queries/sees.js': `import { storeOf } from '../store.js';
      export default async ({ db }) => { await null; return storeOf(db).get('SELECT count(*) AS n FROM quiet'); };`,
  },
});

describe('kept results', () => {
  const gateway = gatewayOfSuite({});
  before(async () => {
    const uploaded = await gateway.upload('shop', APP);
    assert.equal(uploaded.status, 201, uploaded.text);
  });

  const cacheOf = ({ headers }: { headers: Record<string, unknown> }): string =>
    /cache;desc=(\w+)/.exec(String(headers['server-timing']))?.[1] ?? 'none';
  const read = async (query: string, input: object = {}): Promise<{ data: unknown; cache: string }> => {
    const answer = await gateway.read('shop', query, input);
    assert.equal(answer.status, 200, answer.text);
    return { data: answer.json.data, cache: cacheOf(answer) };
  };
  const write = async (sql: string, action = 'run'): Promise<void> => {
    const { status, text } = await gateway.write('shop', action, { sql });
    assert.equal(status, 200, text);
  };
  const warm = async (query: string, input: object = {}): Promise<unknown> => {
    let last = await read(query, input);
    await eventually(async () => {
      last = await read(query, input);
      return last.cache === 'hit';
    });
    return last.data;
  };

  for (const [query, writes] of TABLES) {
    test(`"${query}" is new after each write`, async () => {
      for (const [at, sql] of writes.entries()) {
        const old = await warm('sql', { sql: query });
        await write(sql, ['run', 'batch', 'transaction'][at % 3]);
        const now = await read('sql', { sql: query });
        assert.notEqual(now.cache, 'hit', sql);
        assert.notDeepEqual(now.data, old, sql);
      }
    });
  }

  test("a module's `db` of another call counts for the query that uses it", async () => {
    await write('DELETE FROM quiet');
    for (let n = 1; n <= 5; n++) {
      await write(`INSERT INTO quiet VALUES (${n})`);
      const answers = await Promise.all(
        Array.from({ length: 12 }, (_, at) => read(['stash', 'sees', 'log'][at % 3] as string)),
      );
      for (const [at, { data }] of answers.entries()) {
        if (at % 3 === 0) assert.equal((data as unknown[]).length, n);
        if (at % 3 === 1) assert.deepEqual(data, { n });
      }
      assert.equal(((await read('stash')).data as unknown[]).length, n);
      assert.deepEqual((await read('sees')).data, { n });
    }
  });

  test('similar inputs have separate results', async () => {
    const ask = async (input: string): Promise<unknown> => {
      const body = `{"app":"shop","query":"echo","input":${input}}`;
      const answer = await gateway.call('POST', '/svc/_tool/svc_read', { body });
      assert.equal(answer.status, 200, answer.text);
      return answer.json.data;
    };
    const inputs: [json: string, text: string, names?: string[], minus?: boolean][] = [
      ['{"n":0,"m":1}', '{"n":0,"m":1}', ['n', 'm']],
      ['{"m":1,"n":0}', '{"m":1,"n":0}', ['m', 'n']],
      ['{"n":0}', '{"n":0}'],
      ['{"n":-0}', '{"n":0}', ['n'], true],
      ['{"n":1e21}', '{"n":1e+21}'],
      ['{"n":"1e+21"}', '{"n":"1e+21"}'],
      ['{"n":9007199254740993}', '{"n":9007199254740992}'],
      ['{"n":9007199254740994}', '{"n":9007199254740994}'],
      ['{"n":1,"n":2}', '{"n":2}'],
      ['{"__proto__":{"n":1}}', '{"__proto__":{"n":1}}', ['__proto__']],
      ['{}', '{}', []],
      ['{"n":"\\u00e9"}', '{"n":"é"}'],
      ['{"n":"e\\u0301"}', '{"n":"e\u0301"}'],
      ['{"n":"\\ud800"}', '{"n":"\\ud800"}'],
      ['{"n":"\\ud801"}', '{"n":"\\ud801"}'],
      ['{"n":[1]}', '{"n":[1]}'],
      ['{"n":{"0":1}}', '{"n":{"0":1}}'],
      ['{"n":null}', '{"n":null}'],
      ['{"n":[null]}', '{"n":[null]}'],
      ['{"n":[[]]}', '{"n":[[]]}'],
      ['{"n":true}', '{"n":true}'],
      ['{"n":"true"}', '{"n":"true"}'],
      ['{"n\\u0000":1}', '{"n\\u0000":1}', ['n\0']],
      ['{"a":"b\\",\\"c\\":\\"d"}', '{"a":"b\\",\\"c\\":\\"d"}', ['a']],
      ['{"a":"b","c":"d"}', '{"a":"b","c":"d"}', ['a', 'c']],
    ];
    for (let time = 0; time < 3; time++)
      for (const [json, text, names = ['n'], minus = false] of inputs)
        assert.deepEqual(await ask(json), { text, names, minus }, `${json}, time ${time}`);
  });

  test('a visitor shares only results that do not depend on the caller', async () => {
    const visit = (query: string) =>
      gateway.call('POST', '/svc/_tool/svc_read', { body: { app: 'shop', query }, token: null });
    const data = await warm('list');
    assert.deepEqual((await visit('list')).json.data, data);
    await warm('who');
    for (let time = 0; time < 3; time++) {
      assert.deepEqual((await visit('who')).json.data, { kind: 'public' });
      assert.deepEqual((await read('who')).data, { kind: 'admin' });
    }
    assert.equal((await visit('echo')).status, 401);
    await write("INSERT INTO item (name) VALUES ('for all')");
    assert.equal((await visit('list')).json.data.at(-1).name, 'for all');
  });

  test('a new secret is removed from results from then on, also from kept and followed ones', async () => {
    await write("INSERT INTO item (name) VALUES ('a-very-secret-value')");
    const stream = await gateway.stream('/svc/shop/_live?query=list');
    assert.match((await stream.next()).data, /a-very-secret-value/);
    assert.match(JSON.stringify(await warm('list')), /a-very-secret-value/);
    const set = await gateway.call('PUT', '/svc/_apps/shop/secrets/KEY', { body: { value: 'a-very-secret-value' } });
    assert.ok(set.status < 300, set.text);
    assert.match(JSON.stringify((await read('list')).data), /\[secret KEY\]/);
    for (;;) if (/\[secret KEY\]/.test((await stream.next()).data)) break;
    stream.close();
    assert.ok((await gateway.call('DELETE', '/svc/_apps/shop/secrets/KEY')).status < 300);
  });

  test('no old result is used after a restart of the app, or after data changed while the gateway was stopped', async () => {
    await warm('list');
    assert.equal((await gateway.call('POST', '/svc/_apps/shop/restart')).status, 200);
    await write("INSERT INTO item (name) VALUES ('after the restart')");
    assert.match(JSON.stringify((await read('list')).data), /after the restart/);
    await warm('list');
    await gateway.stop();
    const db = openSqlite(join(gateway.dataDir, 'apps', 'shop', 'data.sqlite'));
    db.exec("DELETE FROM item; INSERT INTO item (name) VALUES ('restored')");
    db.close();
    await gateway.start();
    assert.deepEqual((await read('list')).data, [{ name: 'restored' }]);
  });
});
