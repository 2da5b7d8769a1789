/** Drafts of workspaces on the real daemon: previews edited over HTTP and by hand, beside the live app. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import type { Answer } from '../testing/gateway.ts';

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
const HANDLER = "export default () => [{ text: 'edited' }];\n";

describe('drafts', () => {
  const gateway = gatewayOfSuite({ config: { appsStoreRoot: 'code-store' } });

  /** `notes` is live and holds one row. */
  before(async () => {
    assert.equal((await gateway.upload('notes', NOTES)).status, 201);
    await gateway.write('notes', 'add', { text: 'live' });
  });

  const filesOf = (workspace: string) => `/svc/_sessions/${workspace}/apps/notes/files`;

  async function open(sessionId: string): Promise<string> {
    const workspace = await gateway.call('POST', '/svc/_sessions', { body: { sessionId } });
    assert.equal(workspace.status, 201, workspace.text);
    return sessionId;
  }

  function tool(workspace: string, name: string, body: unknown): Promise<Answer> {
    return gateway.call('POST', `/svc/_draft/${workspace}/_tool/${name}`, { body });
  }

  test('a draft is edited over HTTP and by hand, and the live app does not change', async () => {
    const workspace = await open('edited');
    const list = async () => (await tool(workspace, 'svc_read', { app: 'notes', query: 'list' })).json.data;
    assert.deepEqual(await list(), [{ text: 'live' }]);
    await tool(workspace, 'svc_write', { app: 'notes', action: 'add', input: { text: 'draft' } });
    assert.deepEqual(await list(), [{ text: 'live' }, { text: 'draft' }]);
    assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'live' }]);

    const stream = await gateway.stream(`/svc/_draft/${workspace}/notes/_changes`);
    const put = await gateway.call('PUT', `${filesOf(workspace)}/queries/list.js`, { body: HANDLER });
    assert.ok(put.status < 300, put.text);
    assert.equal((await stream.next()).event, 'reload');
    assert.deepEqual(await list(), [{ text: 'edited' }]);

    const worktree = join(gateway.dataDir, `code-store/worktrees/sessions/${workspace}/apps/notes`);
    writeFileSync(join(worktree, 'index.html'), '<p>by hand');
    assert.equal((await stream.next()).event, 'reload');
    assert.match((await gateway.call('GET', `/svc/_draft/${workspace}/notes/`)).text, /by hand/);
    assert.match((await gateway.call('GET', '/svc/notes/')).text, /<p>one/);
    assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'live' }]);
  });

  test('a query of a draft runs each time, also where the live app has a kept result', async () => {
    const workspace = await open('read-twice');
    await tool(workspace, 'svc_write', { app: 'notes', action: 'add', input: { text: 'draft' } });
    for (const [read, last] of [
      [() => gateway.read('notes', 'list'), 'hit'],
      [() => tool(workspace, 'svc_read', { app: 'notes', query: 'list' }), 'bypass'],
    ] as const) {
      await read();
      assert.match(String((await read()).headers['server-timing']), new RegExp(`cache;desc=${last}$`));
    }
  });

  test('a broken draft is repaired, and so is a failing migration', async () => {
    const workspace = await open('repaired');
    const read = () => tool(workspace, 'svc_read', { app: 'notes', query: 'list' });
    const put = async (path: string, body: string) =>
      assert.ok((await gateway.call('PUT', `${filesOf(workspace)}/${path}`, { body })).status < 300, path);
    await put('app.json', '{');
    assert.equal((await read()).json.error.code, 'INVALID_MANIFEST');
    await put('app.json', NOTES['app.json'] as string);
    assert.equal((await read()).status, 200);
    await put('migrations/0002_more.sql', 'ALTER TABLE nothing ADD COLUMN x;');
    assert.equal((await read()).json.error.code, 'MIGRATION_FAILED');
    await put('migrations/0002_more.sql', 'CREATE TABLE more (id);');
    assert.equal((await read()).status, 200);
    const reset = await gateway.call('POST', `/svc/_sessions/${workspace}/apps/notes/reset-data`);
    assert.deepEqual(reset.json, { seeded: true, migrationsApplied: [2] });
  });

  test('deleting a workspace deletes its drafts; a kill of the daemon does not', async () => {
    const workspace = await open('deleted');
    await tool(workspace, 'svc_write', { app: 'notes', action: 'add', input: { text: 'draft' } });
    await gateway.kill();
    await gateway.start();
    const kept = await tool(workspace, 'svc_read', { app: 'notes', query: 'list' });
    assert.deepEqual(kept.json.data, [{ text: 'live' }, { text: 'draft' }]);
    assert.equal((await gateway.call('DELETE', `/svc/_sessions/${workspace}`)).status, 200);
    for (const answer of [
      await gateway.call('GET', `/svc/_draft/${workspace}/notes/`),
      await tool(workspace, 'svc_read', { app: 'notes', query: 'list' }),
    ])
      assert.deepEqual([answer.status, answer.json.error.code], [404, 'UNKNOWN_SESSION']);
    assert.ok(!existsSync(join(gateway.dataDir, `apps/_drafts/${workspace}`)), 'its data is gone');
  });

  test('data that is copied during writes to the live app has every acknowledged write, and no partial transaction', async () => {
    const workspace = await open('copied');
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
      const reset = await gateway.call('POST', `/svc/_sessions/${workspace}/apps/notes/reset-data`);
      assert.equal(reset.status, 200, reset.text);
      const rows = (await tool(workspace, 'svc_read', { app: 'notes', query: 'list' })).json.data as { text: string }[];
      const pairs = (rows.length - 1) / 2;
      const whole = Array.from({ length: pairs }, (_, n) => [{ text: `${n}a` }, { text: `${n}b` }]).flat();
      assert.deepEqual(rows, [{ text: 'live' }, ...whole]);
      assert.ok(pairs >= before, `${before} writes were acknowledged, ${pairs} are there`);
    }
    stopped = true;
    await writing;
    assert.ok(acknowledged > 8, `live went on: ${acknowledged} writes`);
  });
});
