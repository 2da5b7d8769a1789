import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import { DbError } from '../../protocol/wire/db-error.ts';
import type { SqlParams, SqlStatement } from '../../protocol/wire/frames.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { OneRuntimeDatabase } from '../runtime/runtime-databases.ts';
import { Idempotency } from './idempotency.ts';

const lost = () => new DbError({ code: 'WRITER_LOST', message: 'The connection was lost.' });
const START = 1_700_000_000_000;
const K = { app: 'app', action: 'put', caller: 'token t1', key: 'k' };
const ANSWER = { status: 201, body: Buffer.from('{"data":1}') };

/** A writer that dies in the middle of the next statements, as the test wants it. */
class FragileDb {
  readonly #db = openSqlite(':memory:');
  /** For each of the next statements: it dies before it, or after its commit. */
  deaths: ('before' | 'after')[] = [];

  exec = (sql: string) => this.#ask(() => this.#db.exec(sql));
  run = (sql: string, params: SqlParams) => this.#ask(() => this.#db.prepare(sql).run(params));
  get = (sql: string, params: SqlParams) => this.#ask(() => this.#db.prepare(sql).get(params) ?? null);
  batch = (statements: SqlStatement[]) =>
    this.#ask(() => statements.map(([sql, params]) => this.#db.prepare(sql).run(params)));

  async #ask<T>(run: () => T): Promise<T> {
    const death = this.deaths.shift();
    if (death === 'before') throw lost();
    const result = run();
    if (death === 'after') throw lost();
    return result;
  }
}

function setUp() {
  const db = new FragileDb();
  let now = START;
  const runtime = new OneRuntimeDatabase(db as unknown as DbClient);
  const open = () => new Idempotency(runtime, () => now++);
  const pass = (ms: number) => {
    now += ms;
  };
  return { db, open, idempotency: open(), pass };
}

for (const death of ['before', 'after'] as const) {
  test(`a claim outlives a writer that dies ${death} its commit, and the call runs`, async () => {
    const { db, idempotency } = setUp();
    await idempotency.claim({ ...K, key: 'first' }, {});
    db.deaths = [death];
    assert.equal(await idempotency.claim(K, {}), null);
    await idempotency.record(K, ANSWER);
    assert.deepEqual(await idempotency.claim(K, {}), ANSWER);
  });

  test(`the answer is recorded even if the writer dies ${death} the commit of the record`, async () => {
    const { db, idempotency } = setUp();
    await idempotency.claim(K, {});
    db.deaths = [death];
    await idempotency.record(K, ANSWER);
    assert.deepEqual(await idempotency.claim(K, {}), ANSWER);
  });

  test(`the keys of an app that was removed are forgotten though the writer dies ${death} the commit`, async () => {
    const { db, idempotency } = setUp();
    await idempotency.claim(K, {});
    await idempotency.record(K, ANSWER);
    db.deaths = [death];
    await idempotency.forget('app');
    assert.equal(await idempotency.claim(K, {}), null);
  });

  test(`a key that was not used is free again though the writer dies ${death} the commit of its release`, async () => {
    const { db, idempotency } = setUp();
    await idempotency.claim(K, {});
    db.deaths = [death];
    await idempotency.release(K);
    assert.equal(await idempotency.claim(K, { other: 'input' }), null);
  });
}

test('a repetition of a call whose outcome is not known is told so', async () => {
  const { idempotency } = setUp();
  await idempotency.claim(K, {});
  idempotency.leave(K);
  await assert.rejects(idempotency.claim(K, {}), {
    code: 'CONFLICT',
    message: /was cut off and its outcome is unknown/,
  });
});

test('a claim that an earlier gateway left is not taken over, however often the writer dies', async () => {
  const { db, open, idempotency } = setUp();
  await idempotency.claim(K, {});
  const next = open();
  await assert.rejects(next.claim(K, {}), { code: 'CONFLICT' });
  db.deaths = ['before', 'after'];
  await assert.rejects(next.claim(K, {}), { code: 'CONFLICT' });
});

test('a writer that dies again and again is an error, and the key is not held by it', async () => {
  const { db, idempotency } = setUp();
  await idempotency.claim({ ...K, key: 'other' }, {});
  db.deaths = Array.from({ length: 4 }, () => 'before' as const);
  await assert.rejects(idempotency.claim(K, {}), { code: 'WRITER_LOST' });
  assert.equal(await idempotency.claim(K, {}), null);
});

test('a retry is the same call with any order of members, at any depth', async () => {
  const { idempotency } = setUp();
  await idempotency.claim(K, { a: 1, b: { c: [{ d: 2, e: 3 }], f: null } });
  await idempotency.record(K, ANSWER);
  const again = { b: { f: null, c: [{ e: 3, d: 2 }] }, a: 1 };
  assert.deepEqual(await idempotency.claim(K, again), ANSWER);
  for (const other of [{ a: 1 }, { ...again, a: 2 }, { ...again, g: 0 }, { a: 1, b: { c: [{ d: 3, e: 2 }], f: null } }])
    await assert.rejects(idempotency.claim(K, other), { code: 'IDEMPOTENCY_MISMATCH' });
});

test('an answer is replayed for 24 hours, and the key is free after that', async () => {
  const { idempotency, pass } = setUp();
  await idempotency.claim(K, {});
  await idempotency.record(K, ANSWER);
  // The clock goes on by a millisecond each time it is read.
  pass(24 * 60 * 60 * 1000 - 1);
  assert.deepEqual(await idempotency.claim(K, {}), ANSWER);
  assert.equal(await idempotency.claim(K, {}), null);
});

test('the same key of another caller, for another action or app, is another key', async () => {
  const { idempotency } = setUp();
  const others = [
    { ...K, caller: 'token t2' },
    { ...K, caller: 'visitor 192.0.2.1' },
    { ...K, action: 'add' },
    { ...K, app: 'other' },
    { ...K, caller: 'token', key: 't1 k' },
  ];
  assert.equal(await idempotency.claim(K, {}), null);
  for (const other of others) assert.equal(await idempotency.claim(other, {}), null, 'while the first one runs');
  await idempotency.record(K, ANSWER);
  for (const other of others) {
    await idempotency.release(other);
    assert.equal(await idempotency.claim(other, {}), null, 'after its end');
  }
  assert.deepEqual(await idempotency.claim(K, {}), ANSWER);
});

test('a key that was stored before keys had callers is the administrator’s', async () => {
  const { db, idempotency } = setUp();
  const admin = { ...K, caller: 'admin' };
  // Makes the table.
  await idempotency.claim({ ...admin, key: 'new' }, {});
  const fingerprint = createHash('sha256').update('put\0{}').digest('base64');
  const { status, body } = ANSWER;
  await db.run('INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?)', ['app', 'k', fingerprint, status, body, START]);
  assert.equal(await idempotency.claim(K, {}), null, 'not of a token');
  for (let time = 0; time < 2; time++) assert.deepEqual(await idempotency.claim(admin, {}), ANSWER);
  await assert.rejects(idempotency.claim(admin, { other: 'input' }), { code: 'IDEMPOTENCY_MISMATCH' });
});
