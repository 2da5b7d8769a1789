import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { bucketOf, GATEWAY_BUCKET } from '../../protocol/buckets.ts';
import { draftKey } from '../../protocol/ids.ts';
import { ADDED_RUN_COLUMNS, RUNTIME_SCHEMA } from '../automations/run-rows.ts';
import { ADDED_COLUMNS, CHAT_SCHEMA } from '../chat/chat-tables.ts';
import { openSqlite } from '../sqlite.ts';
import { runtimeByBucket } from './runtime-split.ts';

/** Those of `Idempotency` and `KeptNotices`. */
const OTHERS = `
  CREATE TABLE idempotency (app TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, created_at INTEGER NOT NULL,
    PRIMARY KEY (app, key)) WITHOUT ROWID;
  CREATE INDEX idempotency_created ON idempotency (created_at);
  CREATE TABLE notices (id TEXT NOT NULL, channel TEXT NOT NULL, notice TEXT NOT NULL, PRIMARY KEY (id, channel)) WITHOUT ROWID;
  CREATE TABLE told_failures (key TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;`;

/** By table, a column that names its rows. */
const NAMES = {
  runs: 'run_id',
  run_nodes: "run_id || ' ' || ordinal",
  automation_state: 'app_id',
  cron_fired: 'app_id',
  webhook_ids: 'webhook_id',
  conversations: 'conversation_id',
  turns: 'turn_id',
  items: "turn_id || ' ' || first_id",
  attachments: 'app_id',
  turn_attachments: 'turn_id',
  idempotency: "app || ' ' || key",
  notices: 'id',
  told_failures: 'key',
};

test('each row comes to the bucket of its app, with what belongs to it, and those of no app to the gateway’s', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'runtime.sqlite');
  const db = openSqlite(file);
  db.pragma('journal_mode = WAL');
  db.exec(RUNTIME_SCHEMA + CHAT_SCHEMA.replace(/^/, ';') + OTHERS.replace(/^/, ';'));
  for (const column of ADDED_RUN_COLUMNS) db.exec(`ALTER TABLE runs ADD COLUMN ${column}`);
  for (const [table, columns] of Object.entries(ADDED_COLUMNS))
    for (const column of columns) db.exec(`ALTER TABLE ${table} ADD COLUMN ${column}`);
  const draft = draftKey('space', 'todos');
  for (const [n, app] of ['notes', 'todos', draft].entries()) {
    db.exec(`
      INSERT INTO runs (run_id, kind, app_id, automation_id, trigger_kind, state, queued_at)
        VALUES ('run-${n}', 'automation', '${app}', 'a', 'cron', 'ok', 1);
      INSERT INTO run_nodes (run_id, ordinal, batch_id, kind, name, ok, started_at, ended_at) VALUES ('run-${n}', 1, 1, 'tool', 't', 1, 1, 1);
      INSERT INTO automation_state VALUES ('${app}', 'a', 'k', '1');
      INSERT INTO cron_fired VALUES ('${app}', 'a', 1);
      INSERT INTO webhook_ids VALUES ('slug-${n}', 'message-${n}', 'run-${n}', 1);
      INSERT INTO conversations (conversation_id, app_id, created_at, updated_at) VALUES ('c-${n}', '${app}', 1, 1);
      INSERT INTO turns (turn_id, conversation_id, state, message, message_hash, attachments, runner, started_at)
        VALUES ('turn-${n}', 'c-${n}', 'ok', 'm', 'h', '[]', 'r', 1);
      INSERT INTO items VALUES ('turn-${n}', 7, '[]', 1);
      INSERT INTO items VALUES ('turn-${n}', 2, '[]', 2);
      INSERT INTO attachments VALUES ('${app}', 'sha', 't', 1, 1);
      INSERT INTO turn_attachments VALUES ('turn-${n}', '${app}', 'sha');
      INSERT INTO idempotency VALUES ('${app}', 'one', 'f', 1);
      INSERT INTO told_failures VALUES ('run ${app === draft ? 'todos/b' : `${app}/a`}', 1);
      INSERT INTO notices VALUES ('notice-${n}', 'mail', '{"app":{"id":"${app}"}}');`);
  }
  db.exec(`INSERT INTO told_failures VALUES ('backup', 1); INSERT INTO notices VALUES ('notice-9', 'mail', '{}');
    INSERT INTO webhook_ids VALUES ('slug-9', 'message of a deleted run', 'run-9', 1);`);
  const found = new Map<number, Record<string, string[]>>();
  for (const { bucket, bytes } of runtimeByBucket(file)) {
    // In memory there is no write-ahead log.
    const one = openSqlite(Buffer.concat([bytes.subarray(0, 18), Buffer.from([1, 1]), bytes.subarray(20)]));
    assert.deepEqual([bytes[18], bytes[19], one.pragma('integrity_check', { simple: true })], [2, 2, 'ok']);
    const rows = Object.entries(NAMES).map(([table, name]) => {
      const order = table === 'items' ? 'rowid' : 1;
      return [table, one.prepare(`SELECT ${name} FROM ${table} ORDER BY ${order}`).pluck().all()];
    });
    found.set(bucket, Object.fromEntries(rows));
    assert.equal(one.prepare('SELECT count(*) FROM sqlite_schema').pluck().get(), schemaRows());
    one.close();
  }
  function schemaRows(): unknown {
    return db.prepare('SELECT count(*) FROM sqlite_schema').pluck().get();
  }
  assert.deepEqual([...found.keys()].sort(), [bucketOf('notes'), bucketOf('todos'), GATEWAY_BUCKET].sort());
  const rowsOf = (app: string, ...numbers: number[]) => ({
    runs: numbers.map((n) => `run-${n}`),
    run_nodes: numbers.map((n) => `run-${n} 1`),
    webhook_ids: ['message of a deleted run', ...numbers.map((n) => `message-${n}`)].sort(),
    turns: numbers.map((n) => `turn-${n}`),
    items: numbers.flatMap((n) => [`turn-${n} 7`, `turn-${n} 2`]),
    notices: numbers.map((n) => `notice-${n}`),
    told_failures: app === 'todos' ? ['run todos/a', 'run todos/b'] : [`run ${app}/a`],
  });
  for (const [app, numbers] of [
    ['notes', [0]],
    ['todos', [1, 2]],
  ] as const) {
    const { runs, run_nodes, webhook_ids, turns, items, notices, told_failures, ...rest } = found.get(
      bucketOf(app),
    ) as Record<keyof typeof NAMES, string[]>;
    assert.deepEqual({ runs, run_nodes, webhook_ids, turns, items, notices, told_failures }, rowsOf(app, ...numbers));
    for (const [table, names] of Object.entries(rest)) assert.equal(names.length, numbers.length, table);
  }
  const { notices, told_failures, runs } = found.get(GATEWAY_BUCKET) as Record<keyof typeof NAMES, string[]>;
  assert.deepEqual({ notices, told_failures, runs }, { notices: ['notice-9'], told_failures: ['backup'], runs: [] });
  db.exec('CREATE TABLE unknown (x)');
  assert.throws(() => [...runtimeByBucket(file)], /runtime\.sqlite has tables of another release: unknown/);
  db.close();
});
