/** Drafts of sessions on the real daemon: previews edited over HTTP and by hand, beside the live app. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { type Answer, makeGateway, startGateway, type TestGateway } from '../testing/gateway.ts';

const NOTES = appOf('notes', {
  queries: { list: "({ db }) => db.all('SELECT text FROM notes ORDER BY id')" },
  actions: {
    add: {
      run: "async ({ db, input }) => { await db.run('INSERT INTO notes (text) VALUES (?)', [input.text]); return { body: {} }; }",
      writes: ['notes'],
    },
    twice: {
      run: "async ({ db, input }) => { await db.transaction(async (tx) => { for (const half of ['a', 'b']) await tx.run('INSERT INTO notes (text) VALUES (?)', [input.text + half]); }); return { body: {} }; }",
      writes: ['notes'],
    },
  },
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);'],
  files: { 'index.html': '<!doctype html><title>Notes</title><p>one</p>' },
});
const FILES = '/svc/_sessions/s1/apps/notes/files';
const HANDLER = "export default () => [{ text: 'edited' }];\n";

/** A gateway on the git store with `notes` live, holding one row, and the session `s1`. */
async function withSession(t: TestContext): Promise<TestGateway> {
  const gateway = await startGateway(t, { config: { appsStoreRoot: 'code-store' } });
  assert.equal((await gateway.upload('notes', NOTES)).status, 201);
  await gateway.write('notes', 'add', { text: 'live' });
  const session = await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
  assert.equal(session.status, 201, session.text);
  return gateway;
}

function tool(gateway: TestGateway, name: string, body: unknown): Promise<Answer> {
  return gateway.call('POST', `/svc/_draft/s1/_tool/${name}`, { body });
}

test('a draft is edited over HTTP and by hand, and the live app does not change', async (t) => {
  const gateway = await withSession(t);
  const list = async () => (await tool(gateway, 'svc_read', { app: 'notes', query: 'list' })).json.data;
  assert.deepEqual(await list(), [{ text: 'live' }]);
  await tool(gateway, 'svc_write', { app: 'notes', action: 'add', input: { text: 'draft' } });
  assert.deepEqual(await list(), [{ text: 'live' }, { text: 'draft' }]);
  assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'live' }]);

  const stream = await gateway.stream('/svc/_draft/s1/notes/_changes');
  const put = await gateway.call('PUT', `${FILES}/queries/list.js`, { body: HANDLER });
  assert.ok(put.status < 300, put.text);
  assert.equal((await stream.next()).event, 'reload');
  assert.deepEqual(await list(), [{ text: 'edited' }]);

  const worktree = join(gateway.dataDir, 'code-store/worktrees/sessions/s1/apps/notes');
  writeFileSync(join(worktree, 'index.html'), '<p>by hand');
  assert.equal((await stream.next()).event, 'reload');
  assert.match((await gateway.call('GET', '/svc/_draft/s1/notes/')).text, /by hand/);
  assert.match((await gateway.call('GET', '/svc/notes/')).text, /<p>one/);
  assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'live' }]);
});

test('a query of a draft runs each time, also where the live app has a kept result', async (t) => {
  const gateway = await withSession(t);
  await tool(gateway, 'svc_write', { app: 'notes', action: 'add', input: { text: 'draft' } });
  for (const [read, last] of [
    [() => gateway.read('notes', 'list'), 'hit'],
    [() => tool(gateway, 'svc_read', { app: 'notes', query: 'list' }), 'bypass'],
  ] as const) {
    await read();
    assert.match(String((await read()).headers['server-timing']), new RegExp(`cache;desc=${last}$`));
  }
});

test('data that is copied during writes to the live app has every acknowledged write, and no partial transaction', async (t) => {
  const gateway = await withSession(t);
  let acknowledged = 0;
  let stopped = false;
  const writing = (async () => {
    while (!stopped) {
      const answer = await gateway.write('notes', 'twice', { text: `${acknowledged}` });
      assert.equal(answer.status, 200, answer.text);
      acknowledged++;
    }
  })();
  writing.catch(() => {});
  for (let round = 0; round < 8; round++) {
    const before = acknowledged;
    const reset = await gateway.call('POST', '/svc/_sessions/s1/apps/notes/reset-data');
    assert.equal(reset.status, 200, reset.text);
    const rows = (await tool(gateway, 'svc_read', { app: 'notes', query: 'list' })).json.data as { text: string }[];
    const pairs = (rows.length - 1) / 2;
    const whole = Array.from({ length: pairs }, (_, n) => [{ text: `${n}a` }, { text: `${n}b` }]).flat();
    assert.deepEqual(rows, [{ text: 'live' }, ...whole]);
    assert.ok(pairs >= before, `${before} writes were acknowledged, ${pairs} are there`);
  }
  stopped = true;
  await writing;
  assert.ok(acknowledged > 8, `live went on: ${acknowledged} writes`);
});

test('a broken draft is repaired, and so is a failing migration', async (t) => {
  const gateway = await withSession(t);
  const read = () => tool(gateway, 'svc_read', { app: 'notes', query: 'list' });
  const put = async (path: string, body: string) =>
    assert.ok((await gateway.call('PUT', `${FILES}/${path}`, { body })).status < 300, path);
  await put('app.json', '{');
  assert.equal((await read()).json.error.code, 'INVALID_MANIFEST');
  await put('app.json', NOTES['app.json'] as string);
  assert.equal((await read()).status, 200);
  await put('migrations/0002_more.sql', 'ALTER TABLE nothing ADD COLUMN x;');
  assert.equal((await read()).json.error.code, 'MIGRATION_FAILED');
  await put('migrations/0002_more.sql', 'CREATE TABLE more (id);');
  assert.equal((await read()).status, 200);
  const reset = await gateway.call('POST', '/svc/_sessions/s1/apps/notes/reset-data');
  assert.deepEqual(reset.json, { seeded: true, migrationsApplied: [2] });
});

test('deleting a session deletes its drafts; a kill of the daemon does not', async (t) => {
  const gateway = await withSession(t);
  await tool(gateway, 'svc_write', { app: 'notes', action: 'add', input: { text: 'draft' } });
  await gateway.kill();
  await gateway.start();
  const kept = await tool(gateway, 'svc_read', { app: 'notes', query: 'list' });
  assert.deepEqual(kept.json.data, [{ text: 'live' }, { text: 'draft' }]);
  assert.equal((await gateway.call('DELETE', '/svc/_sessions/s1')).status, 200);
  for (const answer of [
    await gateway.call('GET', '/svc/_draft/s1/notes/'),
    await tool(gateway, 'svc_read', { app: 'notes', query: 'list' }),
  ])
    assert.deepEqual([answer.status, answer.json.error.code], [404, 'UNKNOWN_SESSION']);
  assert.ok(!existsSync(join(gateway.dataDir, 'apps/_drafts/s1')), 'its data is gone');
});

test('without the git store there are no drafts', async (t) => {
  const { gateway, remove } = makeGateway();
  t.after(remove);
  await gateway.start();
  for (const [method, path] of [
    ['GET', '/svc/_draft/s1/notes/'],
    ['GET', '/svc/_draft/s1/notes/_changes'],
    ['POST', '/svc/_draft/s1/_tool/svc_read'],
    ['GET', '/svc/_draft/s1/_logs?app=notes'],
    ['GET', '/svc/_draft/s1/_apps/notes/settings'],
    ['POST', '/svc/_sessions/s1/apps/notes/reset-data'],
  ] as const) {
    const answer = await gateway.call(method, path);
    assert.deepEqual([answer.status, answer.json.error.code], [409, 'NO_GIT_STORE'], path);
  }
});
