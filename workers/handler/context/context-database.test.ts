import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { after, before, beforeEach, test } from 'node:test';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import { Kind, ToolKind } from '../../../protocol/wire/frames.ts';
import { type App, FakeSupervisor, failure } from '../../../testing/fake-supervisor.ts';
import { HandlerCall } from '../calls.ts';
import { ShownCaller } from './context-caller.ts';
import { CallDatabase } from './context-database.ts';

const TAKEN = "'insert into t(id) values (1)'";
/** The writer answers in order, so what was sent before has failed, and each answer is a turn of the thread. */
const LATER = "for (let i = 0; i < 3; i++) await db.run('update t set s = s')";

/** A transaction that nobody awaits, and its end. */
const failing = (statement: string) =>
  `await new Promise((end) => void db.transaction(async (tx) => { try { ${statement}; } finally { setTimeout(end); } }))`;

/** Expressions over `db` in an action → what they resolve to. Table `t(id integer primary key, s text, x)`, one row each time. */
const RESULTS: [expression: string, value: unknown][] = [
  [`db.get('select * from t')`, { id: 1, s: 'one', x: null }],
  [`db.all('select id, s from t')`, [{ id: 1, s: 'one' }]],
  [`db.get('select * from t where id = 99')`, null],
  [`db.all('select * from t where id = 99')`, []],
  [`db.prepare('select s from t where id = ?').get(1)`, { s: 'one' }],
  [`db.prepare('select s from t where id = :id').all({ id: 1 })`, [{ s: 'one' }]],
  [`db.prepare('insert into t(s) values (?)').run('two')`, { changes: 1, lastInsertRowid: 2 }],
  [`db.run('update t set s = ? where id = ?', 'new', 1)`, { changes: 1, lastInsertRowid: 1 }],
  [`db.get('insert into t(s) values (?) returning id, s', 'two')`, { id: 2, s: 'two' }],
  [`db.all('delete from t returning s')`, [{ s: 'one' }]],
  [`db.get('select ? a, ? b', 1, 'x')`, { a: 1, b: 'x' }],
  [`db.get('select ? a, ? b', [1, 'x'])`, { a: 1, b: 'x' }],
  [`db.get('select :a a, $b b, @c c', { a: 1, b: 2, c: 3 })`, { a: 1, b: 2, c: 3 }],
  [`db.get('select ? t, ? f, ? u, ? n', true, false, undefined, null)`, { t: 1, f: 0, u: null, n: null }],
  [`db.get('select ? d', new Date(0))`, { d: '1970-01-01T00:00:00.000Z' }],
  [`db.get('select ? b, typeof(?) t', Buffer.from('hi'), Buffer.from(''))`, { b: 'aGk=', t: 'blob' }],
  [`db.get('select ? b', new Uint8Array([1, 2]))`, { b: 'AQI=' }],
  [`db.get('select typeof(?) i, typeof(?) r, typeof(?) b', 1, 1.5, 2n)`, { i: 'integer', r: 'real', b: 'integer' }],
  [
    `db.get('select 9007199254740991 safe, 9007199254740993 big, -9223372036854775808 low')`,
    { safe: 9007199254740991, big: '9007199254740993', low: '-9223372036854775808' },
  ],
  [`db.get('select typeof(?) t, ? v', 9007199254740993n, 9007199254740993n)`, { t: 'integer', v: '9007199254740993' }],
  [`db.get('select 9007199254740993 v').then(({ v }) => typeof v)`, 'bigint'],
  [`db.all('select 1 v union all select 9007199254740993')`, [{ v: 1 }, { v: '9007199254740993' }]],
  [`db.get('select 1e300 v, -1e16 w')`, { v: 1e300, w: -1e16 }],
  [`db.run('insert into t(s) values (?)', 5).then(() => db.all('select s from t where s = ?', 5))`, [{ s: '5' }]],
  [`db.get('select 1e300 v')`, { v: 1e300 }],
  [
    `db.batch([['insert into t(s) values (?)', 'a'], ['insert into t(s) values (:s)', { s: 'b' }]])`,
    [
      { changes: 1, lastInsertRowid: 2 },
      { changes: 1, lastInsertRowid: 3 },
    ],
  ],
  [`db.batch([])`, []],
  [
    `db.exec('insert into t(s) values (1); insert into t(s) values (2)').then(() => db.get('select count(*) n from t'))`,
    { n: 3 },
  ],
  [
    `db.transaction(async (tx) => { await tx.run('update t set s = ?', 'in'); return tx.get('select s from t'); })`,
    { s: 'in' },
  ],
  [
    `db.transaction((tx) => { tx.run("insert into t(s) values ('a')"); tx.run("insert into t(s) values ('b')"); return 'both'; })
      .then(async (said) => [said, (await db.get('select count(*) n from t')).n])`,
    ['both', 3],
  ],
  [
    `db.transaction((tx) => { tx.get('select s from t').then(({ s }) => tx.run('update t set x = ?', s)); })
      .then(() => db.get('select x from t'))`,
    { x: 'one' },
  ],
  [
    `db.transaction((tx) => { tx.run('insert into t(id) values (1)').catch(() => {}); tx.run("update t set x = 'kept'"); })
      .catch(({ code }) => code)`,
    'SQLITE_CONSTRAINT_PRIMARYKEY',
  ],
  [
    `db.transaction(async (tx) => { await tx.run('insert into t(id) values (1)').catch(() => {}); tx.run("update t set x = 'kept'"); })
      .then(() => db.get('select x from t'))`,
    { x: 'kept' },
  ],
  [
    `db.transaction(async (tx) => {
      const late = tx.run('insert into t(id) values (1)');
      await tx.run("update t set x = 'kept'");
      await late.catch(() => {});
    }).then(() => db.get('select x from t'))`,
    { x: 'kept' },
  ],
  [
    `db.transaction((tx) => tx.prepare('insert into t(s) values (?)').run('x')).then(() => db.get('select count(*) n from t'))`,
    { n: 2 },
  ],
  [
    `db.transaction(async (tx) => { await tx.run("update t set s = 'seen'"); return db.get('select s from t'); })`,
    { s: 'one' },
  ],
  [`db.transaction(() => 'nothing done')`, 'nothing done'],
  [`db.get('with n(v) as (select 1 union all select v + 1 from n where v < 5) select sum(v) s from n')`, { s: 15 }],
  [`db.get('pragma user_version')`, { user_version: 0 }],
  [`db.all('select 1 a, 2 a')`, [{ a: 2 }]],
  [`db.json('select id, s, x from t')`, [{ id: 1, s: 'one', x: null }]],
  [
    `db.json('select ? a, cast(? as blob) b, 9007199254740993 c', 1.5, '\\x01\\x02')`,
    [{ a: 1.5, b: 'AQI=', c: '9007199254740993' }],
  ],
  [
    `db.json('insert into t(s) values (?) returning id, s, cast(s as blob) b', 'two')`,
    [{ id: 2, s: 'two', b: 'dHdv' }],
  ],
  [`db.prepare('select s from t where id = :id').json({ id: 1 })`, [{ s: 'one' }]],
  [`db.json('select * from t where id = 99')`, []],
  [`db.json('select s from t').then((rows) => ({ rows, n: 1, twice: [rows, { rows }] }))`, twice([{ s: 'one' }])],
  [`db.json('select s from t').then((rows) => JSON.stringify({ rows }))`, '{"rows":[{"s":"one"}]}'],
  [
    `db.json('select s from t').then((rows) => ({ toJSON: () => \`as text: \${JSON.stringify({ rows })}\` }))`,
    'as text: {"rows":[{"s":"one"}]}',
  ],
  [
    `db.json('select s from t').then((rows) => ({ toJSON: () => JSON.parse(JSON.stringify({ rows })) }))`,
    { rows: [{ s: 'one' }] },
  ],
  [
    `db.json('select s from t').then((rows) => [String(rows), rows.length, new rows.constructor()])`,
    ['[{"s":"one"}]', null, []],
  ],
  [
    `db.transaction(async (tx) => { await tx.run('update t set s = ?', 'in'); return tx.json('select s, 2.0 n from t'); })`,
    [{ s: 'in', n: 2 }],
  ],
];

function twice(rows: unknown): object {
  return { rows, n: 1, twice: [rows, { rows }] };
}

/** Expressions that reject → code, where there is one, and a part of the message. */
const REJECTIONS: [expression: string, code: string | undefined, message: RegExp][] = [
  [`db.get('select nonsense from t')`, 'SQLITE_ERROR', /no such column: nonsense/],
  [`db.json('select nonsense from t')`, 'SQLITE_ERROR', /no such column: nonsense/],
  [`db.json(5)`, undefined, /SQL must be a string, not number/],
  [`db.json('select ?', () => 1)`, undefined, /SQL parameter 1 is a function/],
  [`db.json('insert into t(id) values (1) returning id')`, 'SQLITE_CONSTRAINT_PRIMARYKEY', /UNIQUE/],
  [`db.json('with n(v) as (select 1 union all select v + 1 from n) select v from n')`, 'SQLITE_TOOBIG', /100000 rows/],
  [`db.all('not sql')`, 'SQLITE_ERROR', /syntax error/],
  [`db.run('insert into t(id) values (1)')`, 'SQLITE_CONSTRAINT_PRIMARYKEY', /UNIQUE constraint failed/],
  [`db.run('insert into nowhere values (1)')`, 'SQLITE_ERROR', /no such table/],
  [`db.get(5)`, undefined, /SQL must be a string, not number/],
  [`db.get(null)`, undefined, /SQL must be a string, not null/],
  [`db.get('select ?', { a: { b: 1 } })`, undefined, /SQL parameter "a" is an object/],
  [`db.get('select ?, ?', 1, { b: 1 })`, undefined, /SQL parameter 2 is an object\. Bind JSON\.stringify/],
  [`db.get('select ?', [[1]])`, undefined, /SQL parameter 1 is an array/],
  [`db.run('select ?', () => 1)`, undefined, /SQL parameter 1 is a function/],
  [`db.get('select ?', Symbol('x'))`, undefined, /SQL parameter 1 is a symbol/],
  [`db.get('select ?', 2n ** 64n)`, undefined, /more than 64 bits/],
  [`db.get('select ?', new Date(NaN))`, undefined, /an invalid date/],
  [`db.get('select ?', 1, 2)`, undefined, /Too many parameter values/],
  [`db.get('select 1; select 2')`, undefined, /more than one statement/],
  [
    `db.batch([['insert into t(s) values (1)'], ['insert into t(id) values (1)']])`,
    'SQLITE_CONSTRAINT_PRIMARYKEY',
    /Statement 2 of the batch/,
  ],
  [`db.batch('insert')`, undefined, /takes an array/],
  [`db.batch(['insert into t(s) values (1)'])`, undefined, /Statement 1 of the batch must be an array/],
  [`db.exec("attach 'other.sqlite' as other")`, 'SQLITE_AUTH', /ATTACH is refused/],
  [`db.get("attach 'other.sqlite' as other")`, 'SQLITE_AUTH', /ATTACH is refused/],
  [`db.run("vacuum into 'copy.sqlite'")`, 'SQLITE_AUTH', /VACUUM is refused/],
  [`db.get("select load_extension('x')")`, 'SQLITE_AUTH', /load_extension is refused/],
  [`db.get('pragma journal_mode = delete')`, 'SQLITE_AUTH', /can be read here, but not set/],
  [`db.get('pragma temp_store_directory')`, 'SQLITE_AUTH', /refused/],
  [`db.run('begin')`, 'SQLITE_AUTH', /Use db\.transaction/],
  [
    `db.all('with n(v) as (select 1 union all select v + 1 from n) select v from n')`,
    'SQLITE_TOOBIG',
    /limit of 100000 rows/,
  ],
  [
    `db.all('with n(v) as (select 1 union all select v + 1 from n where v < 90) select zeroblob(1000000) z from n')`,
    'SQLITE_TOOBIG',
    /limit of 67108864 bytes/,
  ],
  [`db.transaction('work')`, undefined, /takes a function/],
  [
    `db.transaction(async (tx) => { await tx.run("update t set s = 'lost'"); throw new Error('undo'); })`,
    undefined,
    /^undo$/,
  ],
  [`db.transaction((tx) => tx.transaction(() => 1))`, undefined, /Transactions do not nest/],
  [`db.transaction(() => db.transaction(() => 1))`, undefined, /A transaction of this call is open/],
  [
    `db.transaction(async (tx) => { await tx.run("update t set s = 'lost'"); await db.run("update t set s = 'outside'"); })`,
    undefined,
    /write through its tx/,
  ],
  [
    `db.transaction(async (tx) => { tx.run('insert into t(id) values (1)'); })`,
    'SQLITE_CONSTRAINT_PRIMARYKEY',
    /UNIQUE/,
  ],
  [
    `db.transaction((tx) => {
      for (const [id, s] of [[2, 'a'], [1, 'b'], [3, 'c'], [2, 'd']]) tx.run('insert into t(id, s) values (?, ?)', id, s);
      tx.run('nonsense');
    })`,
    'SQLITE_CONSTRAINT_PRIMARYKEY',
    /UNIQUE/,
  ],
  [
    `db.transaction(async (tx) => { tx.run('insert into t(id) values (1)'); await tx.run("update t set s = 'lost'"); })`,
    'SQLITE_CONSTRAINT_PRIMARYKEY',
    /UNIQUE/,
  ],
  [
    `(async () => { let kept; await db.transaction((tx) => { kept = tx; }); return kept.run('delete from t'); })()`,
    undefined,
    /This transaction has ended/,
  ],
  [
    `(async () => { let kept; await db.transaction((tx) => { kept = tx; }); return kept.get('select 1'); })()`,
    undefined,
    /This transaction has ended/,
  ],
];

/** What a handler does with a write that fails before it returns → the call's failure; null where it handled it. */
const UNAWAITED: [what: string, statements: string, failure: RegExp | null][] = [
  ['nothing', `db.run(${TAKEN}); ${LATER}`, /UNIQUE constraint failed/],
  ['nothing, and its parameters are refused', `db.run('insert into t(s) values (?)', {}, {}); ${LATER}`, /parameter/i],
  ['awaits it in a function that nobody awaits', `(async () => { await db.run(${TAKEN}); })(); ${LATER}`, /UNIQUE/],
  ['nothing, with a transaction', `${failing(`await tx.run(${TAKEN})`)}; ${LATER}`, /UNIQUE/],
  ['nothing, with a transaction that throws a text', `${failing("throw 'a text'")}; ${LATER}`, /a text/],
  [
    'nothing, in a transaction that refuses its parameters',
    `await db.transaction((tx) => { tx.run("update t set s = 'in'"); tx.run('insert into t(s) values (?)', {}, {}); })`,
    /parameter/i,
  ],
  ['catches it', `db.run(${TAKEN}).catch(() => {}); ${LATER}`, null],
  ['catches it, and returns before it fails', `db.run(${TAKEN}).catch(() => {})`, null],
  ['awaits it later', `const write = db.run(${TAKEN}); ${LATER}; try { await write; } catch {}`, null],
  [
    'catches the failure of its transaction',
    `try { await db.transaction((tx) => { tx.run(${TAKEN}); }); } catch {} ${LATER}`,
    null,
  ],
];

/** The code of an action in which a statement fails → line and column of the `await`, or of the call, in its file. */
const PLACES: [code: string, line: number, column: number][] = [
  [`async ({ db }) => {\n  const text = 'x';\n  await db.run('insert into nowhere values (?)', text);\n}`, 3, 3],
  [`({ db }) => db.run('insert into nowhere values (1)')`, 1, 31],
  [`({ db }) =>\n  db.prepare('update nowhere set a = 1').run()`, 2, 42],
  [`({ db }) =>\n  db.exec('delete from t; nonsense')`, 2, 6],
  [`({ db }) =>\n  db.batch([[${TAKEN}]])`, 2, 6],
  [`({ db }) => db.get('insert into nowhere values (1) returning id')`, 1, 31],
  [`({ db }) => db.transaction(async (tx) => {\n  await tx.run(${TAKEN});\n})`, 2, 12],
  [`({ db }) => db.transaction((tx) => {\n  tx.run(${TAKEN});\n})`, 2, 6],
  [`async ({ db }) => {\n  await db.run("update t set s = 'x'");\n  await Promise.all([db.run(${TAKEN})]);\n}`, 3, 3],
];

let supervisor: FakeSupervisor;
let app: App;

before(async () => {
  supervisor = await FakeSupervisor.start({ spare: false, actorMemoryMb: 256 });
  app = await supervisor.app({
    files: {
      'queries/rows.js': `export default ({ db }) => db.all('select * from t order by id');`,
      'queries/counts.js': `export default async ({ db }) => [await db.get('select 1 a'), await db.all('select 2 b')];`,
      'actions/reset.js': `export default ({ db }) => db.exec(\`
        create table if not exists t(id integer primary key, s text, x);
        delete from t; insert into t(id, s) values (1, 'one')\`);`,
      'actions/exec.js': `export default ({ db, body }) => db.exec(body.sql);`,
      'actions/forget.js': `export default async ({ db, body }) => { db.run(body.sql); };`,
      'actions/readOwn.js': `export default async ({ db }) => {
        for (let i = 0; i < 20; i++) {
          const { lastInsertRowid } = await db.run('insert into t(s) values (?)', i);
          if (!(await db.get('select * from t where id = ?', lastInsertRowid))) return { status: 500 };
        }
        return 'seen';
      };`,
      ...Object.fromEntries(
        UNAWAITED.map(([, statements], i) => [
          `actions/unawaited${i}.js`,
          `export default async ({ db }) => { ${statements}; return 'stored'; };`,
        ]),
      ),
      ...Object.fromEntries(PLACES.map(([code], i) => [`actions/place${i}.js`, `export default ${code};`])),
      'actions/hold.js': `export default ({ db, log }) => db.transaction(async (tx) => {
        await tx.run("update t set s = 'held'");
        log.info('holding');
        await new Promise(() => {});
      });`,
      ...Object.fromEntries(
        RESULTS.map(([expression], i) => [
          `actions/result${i}.js`,
          `export default async ({ db }) => ({ body: await ${expression} });`,
        ]),
      ),
      ...Object.fromEntries(
        REJECTIONS.map(([expression], i) => [
          `actions/rejection${i}.js`,
          `export default async ({ db }) => {
            try { await ${expression}; } catch (error) { return { body: { code: error.code, message: error.message, isError: error instanceof Error } }; }
          };`,
        ]),
      ),
    },
  });
});

after(() => supervisor.close());

for (const [i, [code, line, column]] of PLACES.entries()) {
  test(`the log says where a statement failed: ${code}`, async () => {
    await app.action('reset');
    await assert.rejects(app.action(`place${i}`));
    const { err } = await app.log(({ level, tool }) => level === 'error' && tool === `place${i}`);
    const { stack = '' } = err as { stack?: string };
    const [, place] = /^\w+Error: .*\n\s+at .*?(actions\/[^)\n]*)/.exec(stack) ?? [];
    assert.equal(place, `actions/place${i}.js:${line}:${column}`, stack);
  });
}

test('a failure at the end of the stack is one of the call, and its process lives', async () => {
  const app = await supervisor.app({
    files: {
      'queries/deep.js': `
        export default async ({ db }) => {
          let tries = 0;
          const dive = () => {
            try { dive(); } catch {}
            // Each level has a little more of the stack left.
            if (tries++ < 300) for (const sql of ['select nothing', 'select abs(-9223372036854775808)']) db.get(sql).catch(() => {});
          };
          dive();
          return tries >= 300;
        };`,
      'queries/ok.js': 'export default ({ db }) => db.get("select 1 one");',
    },
  });
  assert.equal((await app.query('deep')).value, true);
  assert.deepEqual((await app.query('ok')).value, { one: 1 });
});

test('an app without a database reads from an empty one', async () => {
  const fresh = await supervisor.app({
    files: {
      'queries/tables.js': `export default ({ db }) => db.all('select name from sqlite_schema');`,
      'queries/missing.js': `export default ({ db }) => db.all('select * from t');`,
    },
  });
  assert.match((await failure(fresh.query('missing'))).message, /no such table: t/);
  assert.deepEqual((await fresh.query('tables')).value, []);
});

test('a file that is not a database is damaged data', async () => {
  const broken = await supervisor.app({
    files: { 'queries/one.js': `export default ({ db }) => db.get('select * from t');` },
  });
  writeFileSync(broken.spec.dataFile, 'this is no database, but it is long enough to be looked at as one'.repeat(20));
  const said = await failure(broken.query('one'));
  assert.deepEqual(said, { code: 'DATA_DAMAGED', message: 'file is not a database' });
});

test('the database of a version with migrations is never made anew: reads and writes say that it is lost', async () => {
  const files = {
    'queries/one.js': `export default ({ db }) => db.get('SELECT 1');`,
    'actions/write.js': `export default ({ db }) => db.run('CREATE TABLE t (x)');`,
  };
  const lost = await supervisor.app({ files }, { migrated: true });
  const said = async (message: string) => {
    for (const call of [() => lost.query('one'), () => lost.action('write')])
      assert.deepEqual(await failure(call()), { code: 'DATA_LOST', message });
  };
  await said('is missing');
  assert.ok(!existsSync(lost.spec.dataFile));
  writeFileSync(lost.spec.dataFile, '');
  writeFileSync(`${lost.spec.dataFile}-wal`, 'frames');
  await said('is empty');
  assert.equal(readFileSync(`${lost.spec.dataFile}-wal`, 'utf8'), 'frames', 'SQLite would have deleted it');
});

beforeEach(() => app?.action('reset'));

for (const [i, [expression, value]] of RESULTS.entries()) {
  test(expression, async () => {
    assert.deepEqual((await app.action(`result${i}`)).value, value);
  });
}

for (const [i, [expression, code, message]] of REJECTIONS.entries()) {
  test(`rejects: ${expression}`, async () => {
    const error = (await app.action(`rejection${i}`)).value as { code?: string; message: string; isError: boolean };
    assert.ok(error, 'it did not reject');
    assert.match(error.message, message);
    if (code !== undefined) assert.equal(error.code, code);
    assert.equal(error.isError, true);
    assert.deepEqual((await app.query('rows')).value, [{ id: 1, s: 'one', x: null }], 'nothing is changed');
  });
}

test('an acknowledged write is seen by the next read, here and in the next call', async () => {
  assert.equal((await app.action('readOwn')).value, 'seen');
  assert.equal(((await app.query('rows')).value as unknown[]).length, 21);
});

test('a new column is seen by statements that were prepared before', async () => {
  await app.query('rows');
  await app.action('exec', { sql: "alter table t add column later text default 'new'" });
  assert.deepEqual((await app.query('rows')).value, [{ id: 1, s: 'one', x: null, later: 'new' }]);
  await app.action('exec', { sql: 'alter table t drop column later' });
});

test('no answer leaves before a write that the handler did not await; when it fails, so does the call', async () => {
  await app.action('forget', { sql: "update t set s = 'forgotten'" });
  assert.deepEqual((await app.query('rows')).value, [{ id: 1, s: 'forgotten', x: null }]);
  const error = await failure(app.action('forget', { sql: 'insert into t(id) values (1)' }));
  assert.match(error.message, /UNIQUE constraint failed/);
});

for (const [i, [what, , expected]] of UNAWAITED.entries()) {
  test(`a write fails before the handler returns, which does with it: ${what}`, async () => {
    if (expected === null) assert.equal((await app.action(`unawaited${i}`)).value, 'stored');
    else assert.match((await failure(app.action(`unawaited${i}`))).message, expected);
    assert.deepEqual((await app.query('rows')).value, [{ id: 1, s: 'one', x: null }]);
  });
}

test('a call that is over rolls its transaction back at once, and others can write', async () => {
  const held = failure(app.action('hold'));
  const id = app.lastCall;
  await app.log(({ msg }) => msg === 'holding');
  app.cancel(id, 'deadline');
  assert.match((await held).message, /its time is up/);
  await app.action('exec', { sql: "insert into t(s) values ('next')" });
  assert.deepEqual((await app.query('rows')).value, [
    { id: 1, s: 'one', x: null },
    { id: 2, s: 'next', x: null },
  ]);
});

test('operations of a transaction that are not awaited travel together with its commit', async () => {
  for (const [name, work, sent] of [
    ['not awaited', (tx: CallDatabase) => void ['a', 'b'].map((sql) => tx.run(sql)), ['a', 'b', 'commit', 'answer']],
    ['awaited', (tx: CallDatabase) => tx.run('a'), ['a', 'answer', 'commit']],
    ['awaited by another', (tx: CallDatabase) => void (async () => await tx.run('a'))(), ['a', 'answer', 'commit']],
    [
      'the last not awaited',
      (tx: CallDatabase) => tx.run('a').then(() => void tx.run('b')),
      ['a', 'answer', 'b', 'commit'],
    ],
  ] as const) {
    const course: string[] = [];
    const asked: (() => void)[] = [];
    const client = {
      begin: async () => 1,
      run: (sql: string) => {
        course.push(sql);
        return new Promise<void>((resolve) => asked.push(resolve));
      },
      commit: async () => void course.push('commit'),
      rollback: async () => void course.push('rollback'),
    } as unknown as DbClient;
    const db = new CallDatabase(
      client,
      null,
      new HandlerCall(
        [Kind.dispatch, 1, 0, ToolKind.action, 'tool', Buffer.alloc(0), 'trace', 0],
        0,
        new ShownCaller(0, ''),
      ),
    );
    const done = db.transaction(work);
    for (let i = 0; i < 2; i++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (asked.length > 0) course.push('answer');
      for (const answer of asked.splice(0)) answer();
    }
    await done;
    assert.deepEqual(course.slice(0, sent.length), sent, name);
  }
});

test('while the writer is gone reads go on and writes say so', async () => {
  const own = await FakeSupervisor.start({ spare: false });
  try {
    const reading = await own.app({
      files: {
        'actions/make.js': `export default ({ db }) => db.exec('create table t(a); insert into t values (1)');`,
        'queries/read.js': `export default ({ db }) => db.get('select a from t');`,
        'actions/wait.js': `export default ({ db, log }) => db.transaction(async (tx) => { log.info('open'); await tx.get('select 1'); await new Promise((done) => setTimeout(done, 20)); for (;;) await tx.get('select 1'); });`,
      },
    });
    await reading.action('make');
    const lost = failure(reading.action('wait'));
    await reading.log(({ msg }) => msg === 'open');
    await own.killWriter();
    assert.match((await lost).message, /connection to the database was lost/);
    assert.deepEqual((await reading.query('read')).value, { a: 1 });
  } finally {
    await own.close();
  }
});
