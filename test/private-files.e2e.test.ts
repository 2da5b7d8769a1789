// Only the owner can read the gateway's files, with any umask of the process that started it.
import assert from 'node:assert/strict';
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { openToOthers } from '../storage/files/private-tree.ts';
import { serve } from '../supervisor/serve.ts';
import { appOf } from '../testing/apps.ts';
import { eventually, onEachStore } from '../testing/edges.ts';
import { TestGateway } from '../testing/gateway.ts';

const notes = (version: string, steps: number) =>
  appOf('notes', {
    manifest: { version },
    queries: { list: "({ db }) => db.all('SELECT * FROM notes')" },
    actions: {
      add: `async ({ db, log }) => { log.info('adding'); await db.run('INSERT INTO notes DEFAULT VALUES'); return { body: {} }; }`,
    },
    automations: { daily: 'async ({ ctx }) => { await ctx.state.set("seen", ctx.now); return { summary: "done" }; }' },
    migrations: ['CREATE TABLE notes (a TEXT);', 'ALTER TABLE notes ADD COLUMN b TEXT;'].slice(0, steps),
    files: { 'index.html': `<!doctype html><title>Notes</title>${'<p>'.repeat(2000)}` },
  });

let umask: number;
before(() => {
  umask = process.umask(0);
});
after(() => process.umask(umask));

async function ok(answer: Promise<{ status: number; text: string }>): Promise<void> {
  const { status, text } = await answer;
  assert.ok(status < 300, text);
}

/** Does everything that leaves files: uploads, writes, a migration, runs, logs, settings, a backup, a removal; drafts on the git store. */
async function use(gateway: TestGateway, git: boolean): Promise<void> {
  await ok(gateway.upload('notes', notes('1', 1)));
  await ok(gateway.write('notes', 'add', {}, { headers: { 'idempotency-key': 'one' } }));
  await ok(gateway.upload('notes', notes('2', 2)));
  assert.equal(readdirSync(join(gateway.dataDir, 'apps/notes/backups')).length, 1);
  await ok(gateway.call('PUT', '/svc/_apps/notes/settings', { body: { accent: 'red' } }));
  await ok(gateway.call('POST', '/svc/_automations/notes/daily/run', { body: {} }));
  await ok(gateway.upload('gone', appOf('gone', { actions: { one: "({ db }) => db.exec('CREATE TABLE t (a)')" } })));
  await ok(gateway.write('gone', 'one'));
  await ok(gateway.call('DELETE', '/svc/_apps/gone'));
  await ok(gateway.call('POST', '/svc/_backup'));
  await eventually(async () => (await gateway.call('GET', '/svc/_logs?app=notes')).json.length > 0);
  if (!git) return;
  await ok(gateway.call('POST', '/svc/_apps/_clone', { body: { id: 'made', templateId: 'todos', publish: true } }));
  await ok(gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } }));
  const draft = (name: string, body: unknown) => gateway.call('POST', `/svc/_draft/s1/_tool/${name}`, { body });
  await ok(draft('svc_write', { app: 'notes', action: 'add' }));
  await ok(gateway.call('PUT', '/svc/_sessions/s1/apps/notes/files/more/note.md', { body: Buffer.from('text') }));
  await ok(draft('svc_read', { app: 'notes', query: 'list' }));
}

/** The files of the data directory, and of the folder of sockets, which is elsewhere. */
function assertPrivate({ dataDir }: TestGateway): void {
  const { folder } = JSON.parse(readFileSync(join(dataDir, 'run/sockets.json'), 'utf8')) as { folder: string };
  for (const place of [dataDir, folder]) {
    const open = openToOthers(place).map((path) => `${path} ${(lstatSync(path).mode & 0o7777).toString(8)}`);
    assert.deepEqual(open, []);
  }
}

onEachStore({}, (gateway, store) => {
  test('nothing that the daemon writes is open to others', async () => {
    await use(gateway, store === 'git');
    assertPrivate(gateway);
    await gateway.stop();
    assert.deepEqual(openToOthers(gateway.dataDir), []);
  });

  test("nor the files of a gateway inside a host's process, whose umask stays", async (t) => {
    const dataDir = join(mkdtempSync(join(tmpdir(), 'svc-test-')), 'data');
    const running = await serve({
      dataDir,
      port: 0,
      log: 'silent',
      signals: false,
      ...(store === 'git' ? { appsStoreRoot: 'code-store' } : {}),
    });
    t.after(async () => {
      await running.stop();
      rmSync(dirname(dataDir), { recursive: true, force: true });
    });
    const inside = Object.assign(new TestGateway(dataDir, []), { url: running.url, token: running.token ?? '' });
    await use(inside, store === 'git');
    assertPrivate(inside);
    assert.equal(process.umask(), 0);
  });
});
