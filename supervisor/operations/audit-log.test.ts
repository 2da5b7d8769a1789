import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import { DbError } from '../../protocol/wire/db-error.ts';
import type { SqlParams, SqlStatement } from '../../protocol/wire/frames.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { settled } from '../../testing/cluster-nodes.ts';
import { ADMIN, NOBODY } from '../http/access/callers.ts';
import { AuditLog, MACHINE } from './audit-log.ts';

const START = 1_700_000_000_000;

/** A log on a database whose writes fail as `faults` say: with an error, or `after` their commit the writer dies. */
function setUp(t: TestContext) {
  const file = join(tmpdir(), `svc-audit-${randomUUID()}.sqlite`);
  const db = openSqlite(file);
  t.after(() => {
    db.close();
    rmSync(file);
  });
  const state = { now: START, faults: [] as (Error | 'after')[], complaints: [] as object[] };
  const client = {
    exec: async (sql: string) => db.exec(sql),
    all: async (sql: string, params: SqlParams) => db.prepare(sql).all(params),
    batch: async (statements: SqlStatement[]) => {
      const fault = state.faults.shift();
      if (fault instanceof Error) throw fault;
      db.transaction(() => statements.map(([sql, params]) => db.prepare(sql).run(params)))();
      if (fault === 'after') throw new DbError({ code: 'WRITER_LOST', message: 'The connection was lost.' });
    },
  };
  const log = { error: (details: object) => void state.complaints.push(details) };
  const audit = new AuditLog({ db: client as unknown as DbClient, log, now: () => state.now });
  const all = () => audit.list({ limit: 1000, before: null });
  return { audit, state, all };
}

test('entries say who, what and when, the newest first, a page at a time', async (t) => {
  const { audit, state, all } = setUp(t);
  await audit.record(ADMIN, 'token.made', 'tok_1', { name: 'script', apps: null });
  state.now += 1000;
  await audit.record(MACHINE, 'token.rotated', null);
  const [second, first] = await all();
  assert.deepEqual(first, {
    id: 1,
    at: START,
    actor: { kind: 'admin' },
    action: 'token.made',
    target: 'tok_1',
    detail: { name: 'script', apps: null },
  });
  assert.deepEqual([second?.actor, second?.at, second?.target], [MACHINE, START + 1000, null]);
  assert.deepEqual(await audit.list({ limit: 1, before: null }), [second]);
  assert.deepEqual(await audit.list({ limit: 5, before: second?.id ?? 0 }), [first]);
});

test('an entry is stored once when the writer dies after its commit', async (t) => {
  const { audit, state, all } = setUp(t);
  state.faults = ['after', 'after'];
  await audit.record(ADMIN, 'app.removed', 'notes');
  assert.equal((await all()).length, 1);
  assert.deepEqual(state.complaints, []);
});

test('an entry waits for a database that is away, in order, and a stop says what still waits', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { audit, state, all } = setUp(t);
  const away = new SvcError('STORAGE_UNAVAILABLE', 'It moves.');
  state.faults = [away, away, away];
  await audit.record(ADMIN, 'node.drained', 'one');
  await audit.record(ADMIN, 'node.resumed', 'one');
  const actions = async () => (await all()).map(({ action }) => action);
  assert.deepEqual(await actions(), []);
  for (let looks = 0; looks < 2; looks++) {
    t.mock.timers.tick(LIMITS.auditAgainMs);
    await settled(() => state.faults.length);
  }
  assert.deepEqual(await actions(), ['node.resumed', 'node.drained']);
  assert.deepEqual(state.complaints, []);
  state.faults = [away];
  await audit.record(ADMIN, 'node.drained', 'two');
  audit.stop();
  assert.deepEqual(
    state.complaints.map((said) => (said as { target: string }).target),
    ['two'],
  );
});

test('what cannot be stored is said in the log of the gateway, and the next entry is stored', async (t) => {
  const { audit, state, all } = setUp(t);
  state.faults = [new DbError({ code: 'SQLITE_FULL', message: 'The disk is full.' })];
  await audit.record(ADMIN, 'app.removed', 'notes', { purge: true });
  const [{ action, target, detail } = {} as Record<string, unknown>] = state.complaints as Record<string, unknown>[];
  assert.deepEqual([action, target, detail], ['app.removed', 'notes', { purge: true }]);
  await audit.record(ADMIN, 'app.restored', 'notes');
  assert.deepEqual(
    (await all()).map((entry) => entry.action),
    ['app.restored'],
  );
});

test('entries leave after their time', async (t) => {
  const { audit, state, all } = setUp(t);
  await audit.record(ADMIN, 'app.removed', 'old');
  state.now += (LIMITS.auditDays - 1) * LIMITS.dayMs;
  await audit.record(ADMIN, 'app.removed', 'newer');
  assert.equal((await all()).length, 2);
  state.now += 2 * LIMITS.dayMs;
  await audit.record(ADMIN, 'app.removed', 'newest');
  assert.deepEqual(
    (await all()).map(({ target }) => target),
    ['newest', 'newer'],
  );
});

test('of refused sign-ins an hour has a limited number, and the last one says so', async (t) => {
  const { audit, state, all } = setUp(t);
  for (let i = 0; i < LIMITS.auditRefusals + 5; i++) await audit.refused(NOBODY, '192.0.2.7');
  const [last, ...others] = await all();
  assert.equal(others.length, LIMITS.auditRefusals - 1);
  assert.deepEqual(last?.actor, { kind: 'public' });
  assert.match(String(last?.detail.more), /left out/);
  assert.equal(others[0]?.detail.address, '192.0.2.7');
  state.now += LIMITS.auditRefusalsMs + 1;
  await audit.refused(NOBODY, '192.0.2.7');
  assert.equal((await all()).length, LIMITS.auditRefusals + 1);
});
