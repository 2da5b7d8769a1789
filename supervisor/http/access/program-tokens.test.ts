import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type Database from 'better-sqlite3';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import { DbError } from '../../../protocol/wire/db-error.ts';
import type { SqlParams, SqlStatement } from '../../../protocol/wire/frames.ts';
import { openSqlite } from '../../../storage/sqlite.ts';
import { type NewProgramToken, ProgramTokens } from './program-tokens.ts';

const DAY = LIMITS.dayMs;
const START = 1_700_000_000_000;

/** The identity database, with a writer that fails or dies as the test wants it, and the statements that wrote. */
class IdentityDb {
  readonly #db: Database.Database;
  /** What becomes of each of the next statements: the error that it fails with, or `after`: the writer dies after its commit. */
  faults: (Error | 'after')[] = [];
  writes: string[] = [];
  /** What statements wait for while it is set. */
  gate: Promise<void> | null = null;

  constructor(file: string) {
    this.#db = openSqlite(file);
    this.#db.pragma('synchronous = OFF');
  }

  exec = (sql: string) => this.#ask(sql, () => this.#db.exec(sql));
  run = (sql: string, params: SqlParams) => this.#ask(sql, () => this.#db.prepare(sql).run(params));
  get = (sql: string) => this.#ask(sql, () => this.#db.prepare(sql).get() ?? null);
  all = (sql: string, params: SqlParams = []) => this.#ask(sql, () => this.#db.prepare(sql).all(params));
  batch = (statements: SqlStatement[]) =>
    this.#ask(statements.map(([sql]) => sql).join('; '), () =>
      this.#db.transaction(() => statements.map(([sql, params]) => this.#db.prepare(sql).run(params)))(),
    );
  close = () => this.#db.close();

  async #ask<T>(sql: string, run: () => T): Promise<T> {
    await this.gate;
    const fault = this.faults.shift();
    if (fault instanceof Error) throw fault;
    if (!/^\s*(SELECT|CREATE)/.test(sql)) this.writes.push(sql);
    const result = run();
    if (fault === 'after') throw new DbError({ code: 'WRITER_LOST', message: 'The connection was lost.' });
    return result;
  }
}

function setUp(t: TestContext) {
  const file = join(tmpdir(), `svc-tokens-${randomUUID()}.sqlite`);
  const db = new IdentityDb(file);
  t.after(() => {
    db.close();
    rmSync(file);
  });
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: START });
  const registered = new Set(['todos', 'notes']);
  /** How far the clock of the machine was set, which no timer follows. */
  const clockSet = { byMs: 0 };
  const log: string[] = [];
  const said = (_details: object, message: string) => void log.push(message);
  const open = () =>
    ProgramTokens.open({
      db: db as unknown as DbClient,
      file,
      registered: (app) => registered.has(app),
      log: { info: said, warn: said } as never,
      now: () => Date.now() + clockSet.byMs,
    });
  return { db, registered, log, open, clock: t.mock.timers, clockSet };
}

const wanted = (more: Partial<NewProgramToken> = {}): NewProgramToken => ({
  name: 'zapier',
  apps: ['todos'],
  tools: 'read',
  expiresInDays: undefined,
  ...more,
});

const all = { limit: 500, before: null };
const isCode = (code: string, path?: string) => (error: unknown) =>
  error instanceof SvcError && error.code === code && error.path === path;
const full = () => new DbError({ code: 'SQLITE_FULL', message: 'database or disk is full' });

/** Lets what was started by a timer come to its end. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('a token is found only by its text, which is not stored', async (t) => {
  const { db, open } = setUp(t);
  const tokens = await open();
  const { token, ...row } = await tokens.create(wanted({ apps: ['todos', 'todos', 'notes'], expiresInDays: 90 }));
  assert.match(token, /^svct_[0-9a-f]{64}$/);
  assert.match(row.id, /^tok_[0-9a-f]{12}$/);
  const { id, name, apps, tools, expiresAt } = row;
  assert.deepEqual(row, {
    id,
    name: 'zapier',
    apps: ['todos', 'notes'],
    tools: 'read',
    createdAt: START,
    expiresAt: START + 90 * DAY,
    lastUsedAt: null,
  });
  assert.deepEqual(tokens.find(token), { id, name, apps, tools, expiresAt });
  const digest = String(((await db.all('SELECT * FROM program_tokens')) as { digest: string }[])[0]?.digest);
  for (const other of [
    '',
    'svct_',
    digest,
    `svct_${digest}`,
    token.slice(5),
    token.slice(0, -1),
    `${token}0`,
    token.toUpperCase(),
    id,
  ]) {
    assert.equal(tokens.find(other), undefined, other);
  }
  assert.ok(!JSON.stringify(await db.all('SELECT * FROM program_tokens')).includes(token.slice(5)));
  assert.deepEqual(Object.keys((await tokens.list(all))[0] ?? {}).sort(), Object.keys(row).sort());
});

test('tokens survive a restart unchanged, a revoked one does not', async (t) => {
  const { db, open } = setUp(t);
  const first = await open();
  const kept = await first.create(wanted({ apps: undefined, tools: 'all' }));
  const gone = await first.create(wanted({ expiresInDays: 1 }));
  await first.revoke(gone.id);
  assert.equal(first.find(gone.token), undefined);
  assert.equal(db.writes.length, 3);
  const second = await open();
  const { token, createdAt, lastUsedAt, ...grant } = kept;
  assert.deepEqual(second.find(token), grant);
  assert.equal(grant.apps, null);
  assert.equal(second.find(gone.token), undefined);
  assert.deepEqual(await second.list(all), [{ ...grant, createdAt, lastUsedAt: START }]);
  await assert.rejects(second.revoke(gone.id), isCode('UNKNOWN_TOKEN'));
});

test('the list is the newest first, in pages', async (t) => {
  const { open } = setUp(t);
  const tokens = await open();
  const ids: string[] = [];
  // Two tokens may have the same name.
  for (let i = 0; i < 5; i++) ids.unshift((await tokens.create(wanted())).id);
  const page = async (limit: number, before: string | null) =>
    (await tokens.list({ limit, before })).map(({ id }) => id);
  assert.deepEqual(await page(2, null), ids.slice(0, 2));
  assert.deepEqual(await page(2, ids[1] as string), ids.slice(2, 4));
  assert.deepEqual(await page(2, ids[4] as string), []);
  await assert.rejects(page(2, 'tok_nothing'), isCode('UNKNOWN_TOKEN'));
});

test('a token expires to the millisecond', async (t) => {
  const { open, clock } = setUp(t);
  const tokens = await open();
  const short = await tokens.create(wanted({ expiresInDays: 1 }));
  const long = await tokens.create(wanted({ expiresInDays: 2 }));
  const never = await tokens.create(wanted());
  clock.tick(DAY - 1);
  assert.ok(tokens.find(short.token));
  clock.tick(1);
  assert.equal(tokens.find(short.token), undefined);
  clock.tick(DAY);
  assert.equal(tokens.find(long.token), undefined);
  assert.ok(tokens.find(never.token));
  assert.equal((await tokens.list(all)).length, 3, 'the list says what has expired');
  assert.equal((await open()).find(short.token), undefined);
});

test('a clock that is set past the expiry ends a token', async (t) => {
  const { open, clockSet } = setUp(t);
  const tokens = await open();
  const { token } = await tokens.create(wanted({ expiresInDays: 20 }));
  clockSet.byMs = 21 * DAY;
  assert.equal(tokens.find(token), undefined);
});

test('a revoked token is refused before its row is gone, and stays so when the disk is full', async (t) => {
  const { db, open } = setUp(t);
  const tokens = await open();
  const told: string[] = [];
  tokens.on('ended', (id) => told.push(id));
  const { id, token } = await tokens.create(wanted());
  let release = () => {};
  db.gate = new Promise((resolve) => {
    release = resolve;
  });
  db.faults = [full()];
  const refused = assert.rejects(tokens.revoke(id), { code: 'SQLITE_FULL' });
  await settled();
  assert.equal(tokens.find(token), undefined);
  assert.deepEqual(told, [id], 'open streams end at once');
  release();
  await refused;
  assert.equal(tokens.find(token), undefined);
  assert.deepEqual(
    (await tokens.list(all)).map((row) => row.id),
    [id],
    'it can be revoked again',
  );
  await tokens.revoke(id);
  assert.deepEqual([await tokens.list(all), told], [[], [id]]);
  assert.equal((await open()).find(token), undefined);
});

test('the last use is stored once a minute and at the end, never by a request', async (t) => {
  const { db, open, clock } = setUp(t);
  const tokens = await open();
  const { token } = await tokens.create(wanted());
  const unused = await tokens.create(wanted());
  db.writes = [];
  const stored = async () => (await (await open()).list(all)).map(({ lastUsedAt }) => lastUsedAt);
  for (let i = 0; i < 1000; i++) tokens.find(token);
  clock.tick(LIMITS.useNoteMs - 1);
  tokens.find(token);
  await settled();
  assert.deepEqual(db.writes, []);
  assert.deepEqual(
    (await tokens.list(all)).map(({ lastUsedAt }) => lastUsedAt),
    [null, Date.now()],
  );
  clock.tick(1);
  await settled();
  assert.equal(db.writes.length, 1);
  assert.deepEqual(await stored(), [null, START + LIMITS.useNoteMs - 1]);
  clock.tick(LIMITS.useNoteMs);
  await settled();
  assert.equal(db.writes.length, 1, 'nothing was used since');

  db.faults = [full()];
  tokens.find(token);
  clock.tick(LIMITS.useNoteMs);
  await settled();
  const used = Date.now();
  tokens.find(unused.token);
  await tokens.close();
  assert.deepEqual(await stored(), [used, used - LIMITS.useNoteMs], 'with what could not be stored before');
});

test('the number of tokens is limited; expired ones make room', async (t) => {
  const { open, clock } = setUp(t);
  const tokens = await open();
  const old = await tokens.create(wanted({ expiresInDays: 1 }));
  for (let i = 1; i < LIMITS.programTokens; i++) await tokens.create(wanted());
  await assert.rejects(tokens.create(wanted()), isCode('CONFLICT'));
  clock.tick(DAY);
  const { token } = await tokens.create(wanted());
  assert.ok(tokens.find(token));
  await assert.rejects(tokens.revoke(old.id), isCode('UNKNOWN_TOKEN'));
  await assert.rejects(tokens.create(wanted()), isCode('CONFLICT'));
});

test('an app that is not registered is refused by its place', async (t) => {
  const { db, open } = setUp(t);
  const tokens = await open();
  await assert.rejects(tokens.create(wanted({ apps: ['todos', 'other'] })), isCode('UNKNOWN_APP', 'apps[1]'));
  assert.deepEqual([await tokens.list(all), db.writes], [[], []]);
});

test('an app that takes the id of a removed one is reached by no token of before', async (t) => {
  const { registered, open } = setUp(t);
  const tokens = await open();
  const told: string[] = [];
  tokens.on('ended', (id) => told.push(id));
  const only = await tokens.create(wanted());
  const both = await tokens.create(wanted({ apps: ['todos', 'notes'] }));
  const every = await tokens.create(wanted({ apps: undefined }));
  registered.delete('todos');
  assert.deepEqual(tokens.find(only.token)?.apps, ['todos'], 'shown until the app is forgotten');
  await tokens.forgetApp('todos');
  registered.add('todos');
  for (const now of [tokens, await open()]) {
    assert.equal(now.find(only.token), undefined);
    assert.deepEqual(now.find(both.token)?.apps, ['notes']);
    assert.equal(now.find(every.token)?.apps, null);
    assert.deepEqual(
      (await now.list(all)).map(({ id }) => id),
      [every.id, both.id],
    );
  }
  assert.deepEqual(told, [only.id]);
});

test('an app that is removed while a token for it is made is not in the token', async (t) => {
  const { db, registered, open } = setUp(t);
  const tokens = await open();
  let release = () => {};
  db.gate = new Promise((resolve) => {
    release = resolve;
  });
  const making = tokens.create(wanted({ apps: ['todos', 'notes'] }));
  await settled();
  registered.delete('todos');
  const forgotten = tokens.forgetApp('todos');
  const late = assert.rejects(tokens.create(wanted()), isCode('UNKNOWN_APP', 'apps[0]'));
  release();
  const { token } = await making;
  await forgotten;
  await late;
  assert.deepEqual(tokens.find(token)?.apps, ['notes']);
});

test('an app whose tokens could not be changed is not forgotten', async (t) => {
  const { db, open } = setUp(t);
  const tokens = await open();
  const { token } = await tokens.create(wanted({ apps: ['todos', 'notes'] }));
  db.faults = [full()];
  await assert.rejects(tokens.forgetApp('todos'), { code: 'SQLITE_FULL' });
  assert.deepEqual(tokens.find(token)?.apps, ['todos', 'notes']);
  await tokens.forgetApp('todos');
  assert.deepEqual((await open()).find(token)?.apps, ['notes']);
});

test('a writer that dies while a token is made or revoked does not change the outcome', async (t) => {
  const { db, open } = setUp(t);
  const tokens = await open();
  db.faults = ['after', 'after'];
  const { id, token } = await tokens.create(wanted());
  assert.ok((await open()).find(token));
  db.faults = ['after'];
  await tokens.revoke(id);
  assert.equal((await open()).find(token), undefined);
});

test('tokens that cannot be read at the start are refused, and read later', async (t) => {
  const { db, log, open, clock } = setUp(t);
  const { id, token } = await (await open()).create(wanted());
  log.length = 0;
  db.faults = [full(), full(), full()];
  const tokens = await open();
  assert.equal(tokens.find(token), undefined);
  await assert.rejects(tokens.list(all), { code: 'SQLITE_FULL' });
  clock.tick(LIMITS.identityRetryMs);
  await settled();
  assert.equal(tokens.find(token), undefined);
  clock.tick(LIMITS.identityRetryMs);
  await settled();
  assert.equal(tokens.find(token)?.id, id);
  assert.equal(log.length, 1, log.join('\n'));
});
