/**
 * The trash: which parts of a removed app are restored, on both stores, who may do it, and `svc trash` as a person uses
 * it.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf, automation } from '../testing/apps.ts';
import { onEachStore } from '../testing/edges.ts';
import { type Answer, root, type TestGateway } from '../testing/gateway.ts';
import { only, post } from '../testing/runs.ts';

const notes = (id: string, version = '1.0.0') =>
  appOf(id, {
    manifest: { name: 'Notes', version, blobQuotaMb: 1 },
    migrations: ['CREATE TABLE notes (text TEXT);'],
    queries: {
      list: "({ db }) => db.all('SELECT text FROM notes')",
      version: `() => '${version}'`,
      key: 'async ({ ctx }) => (await ctx.secrets.get("KEY")) === "sk_1"',
    },
    actions: { add: "({ db, input }) => db.run('INSERT INTO notes VALUES (?)', [input.text])" },
    files: {
      'index.html': '<p>Notes',
      'automations/in/automation.json': automation({ triggers: [{ kind: 'webhook', pending: true }] }),
      'automations/in/handler.js': 'export default () => ({ summary: "in" });',
      'automations/tidy/automation.json': automation({ triggers: [{ kind: 'cron', expr: '0 0 1 1 *' }] }),
      'automations/tidy/handler.js': 'export default () => ({ summary: "tidy" });',
    },
  });

const codeOf = ({ status, json }: Answer) => [status, json.error?.code];

async function ok(asked: Promise<Answer>, status = 200) {
  const answer = await asked;
  assert.equal(answer.status, status, answer.text);
  return answer.json;
}

async function automationsOf(gateway: TestGateway, app: string) {
  const { rows } = await ok(gateway.call('GET', `/svc/_automations?app=${app}`));
  return (rows as { id: string; enabled: boolean; triggers: unknown }[]).map(({ id, enabled, triggers }) => ({
    id,
    enabled,
    triggers,
  }));
}

onEachStore({}, (gateway, store) => {
  const remove = (id: string) => ok(gateway.call('DELETE', `/svc/_apps/${id}`));
  const list = (query = '') => ok(gateway.call('GET', `/svc/_trash${query}`));
  const restore = (id: string) => gateway.call('POST', `/svc/_trash/${id}/restore`);
  const data = async (app: string, query: string) => (await ok(gateway.read(app, query))).data;
  const svc = (...args: string[]) => {
    const line = [join(root, 'bin/svc.js'), ...args, '--url', gateway.url, '--token', gateway.token];
    return new Promise<{ status: unknown; stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, line, (error, stdout, stderr) =>
        resolve({ status: error?.code ?? 0, stdout, stderr }),
      );
    });
  };

  test(`${store}: code, versions, data, files, settings, secrets and automations come back; tokens and runs do not`, async () => {
    const made = await ok(gateway.upload('notes', notes('notes')), 201);
    await ok(gateway.upload('notes', notes('notes', '2.0.0')), 201);
    const hook = only(made.webhooks);
    const send = async () => (await post(gateway, hook, {})).status;
    assert.equal(await send(), 200);
    await ok(gateway.write('notes', 'add', { text: 'kept' }));
    await ok(gateway.call('PUT', '/svc/_apps/notes/settings', { body: { theme: 'dark' } }));
    await ok(gateway.call('PUT', '/svc/_apps/notes/secrets/KEY', { body: { value: 'sk_1' } }));
    await ok(gateway.call('POST', '/svc/_automations/notes/tidy/enabled', { body: { enabled: false } }));
    await ok(gateway.call('POST', '/svc/_automations/notes/tidy/run?wait=1', { body: {} }));
    const blob = await gateway.call('PUT', '/svc/notes/_blobs', {
      body: Buffer.from('photo'),
      headers: { 'content-type': 'image/png' },
    });
    assert.ok(blob.status < 300, blob.text);
    const ofProgram = await ok(
      gateway.call('POST', '/svc/_tokens', { body: { name: 'p', apps: ['notes'], tools: 'all' } }),
      201,
    );
    const automations = await automationsOf(gateway, 'notes');

    await remove('notes');
    const [row, ...others] = await list();
    assert.deepEqual(others, []);
    const { id, removedAt, keptUntil, bytes, ...rest } = row;
    assert.deepEqual(rest, { app: 'notes', name: 'Notes', version: '2.0.0' });
    assert.equal(id, `notes-${removedAt}`);
    assert.equal(keptUntil - removedAt, 7 * 24 * 3600 * 1000);
    assert.ok(bytes > 1000);
    assert.equal(await send(), 404);

    const answer = await ok(restore(id));
    assert.equal(answer.id, 'notes');
    assert.equal(answer.restored, true);
    const versions = await ok(gateway.call('GET', '/svc/_apps/notes/versions'));
    assert.deepEqual(
      versions.map(({ version, active }: { version: string; active: boolean }) => [version, active]),
      [
        ['2.0.0', true],
        ['1.0.0', false],
      ],
    );
    assert.equal(answer.activeVersion, versions[0].versionId);
    assert.deepEqual(await data('notes', 'list'), [{ text: 'kept' }]);
    assert.equal(await data('notes', 'key'), true);
    assert.deepEqual((await ok(gateway.call('GET', '/svc/_apps/notes/settings'))).settings, { theme: 'dark' });
    assert.deepEqual(await automationsOf(gateway, 'notes'), automations);
    assert.equal(await send(), 200, 'the address of the webhook is the same');
    const file = await gateway.call('GET', `/svc/notes/_blobs/${blob.json.sha256}`);
    assert.deepEqual([file.status, file.text], [200, 'photo']);
    assert.equal((await gateway.call('GET', '/svc/notes/')).status, 200);
    assert.deepEqual(codeOf(await gateway.read('notes', 'list', {}, { token: ofProgram.token })), [
      401,
      'UNAUTHORIZED',
    ]);
    assert.deepEqual(await ok(gateway.call('GET', '/svc/_runs?ref=notes/tidy')), []);
    assert.deepEqual(await list(), []);

    // It works like any other app, also after a start.
    await ok(gateway.call('POST', '/svc/_apps/notes/rollback', { body: {} }));
    assert.equal(await data('notes', 'version'), '1.0.0');
    await gateway.stop();
    await gateway.start();
    assert.equal(await data('notes', 'version'), '1.0.0');
    await ok(gateway.upload('notes', notes('notes', '3.0.0')), 201);
    await remove('notes');
    await gateway.kill();
    await gateway.start();
    const [again] = await list();
    await ok(restore(again.id));
    assert.equal(await data('notes', 'version'), '3.0.0');
    assert.equal(await data('notes', 'key'), true);
  });

  test(`${store}: a taken id, unknown ids and bad pages are refused with clear messages`, async () => {
    await ok(gateway.upload('taken', notes('taken')), 201);
    await remove('taken');
    const [{ id }] = await list();
    await ok(gateway.upload('taken', notes('taken', '2.0.0')), 201);
    const refused = await restore(id);
    assert.deepEqual(codeOf(refused), [409, 'CONFLICT']);
    assert.match(refused.json.error.message, /There is an app "taken" now\. Remove that one first/);
    for (const unknown of ['taken', 'none-1700000000000', '..%2Fapps-1700000000000', 'taken-1']) {
      assert.deepEqual(codeOf(await restore(unknown)), [404, 'UNKNOWN_TRASH'], unknown);
      assert.deepEqual(codeOf(await gateway.call('DELETE', `/svc/_trash/${unknown}`)), [404, 'UNKNOWN_TRASH'], unknown);
    }
    for (const query of ['?before=taken', '?limit=0', '?limit=501'])
      assert.deepEqual(codeOf(await gateway.call('GET', `/svc/_trash${query}`)), [400, 'BAD_REQUEST'], query);
    await remove('taken');
    const [newest, oldest] = await list();
    assert.deepEqual([newest.version, oldest.version], ['2.0.0', '1.0.0']);
    assert.deepEqual(await list('?limit=1'), [newest]);
    assert.deepEqual(await list(`?before=${newest.id}`), [oldest]);
    const both = await Promise.all([restore(oldest.id), restore(newest.id)]);
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409]);
    await remove('taken');
    for (const row of await list())
      assert.deepEqual(await ok(gateway.call('DELETE', `/svc/_trash/${row.id}`)), { id: row.id, deleted: true });
    assert.deepEqual(await list(), []);
  });

  test(`${store}: only the administrator sees or changes the trash`, async () => {
    const { token } = await ok(gateway.call('POST', '/svc/_tokens', { body: { name: 'all', tools: 'all' } }), 201);
    for (const [method, path] of [
      ['GET', '/svc/_trash'],
      ['POST', '/svc/_trash/notes-1700000000000/restore'],
      ['DELETE', '/svc/_trash/notes-1700000000000'],
    ] as const) {
      assert.deepEqual(codeOf(await gateway.call(method, path, { token })), [403, 'FORBIDDEN'], path);
      assert.deepEqual(codeOf(await gateway.call(method, path, { token: null })), [401, 'UNAUTHORIZED'], path);
    }
  });

  // The command is the same on either store.
  if (store === 'git') return;

  test(`${store}: svc trash lists, restores and deletes; without a terminal it needs --yes`, async () => {
    await ok(gateway.upload('shop', notes('shop')), 201);
    const removed = await svc('rm', 'shop', '--yes');
    assert.match(removed.stdout, /shop is removed, and kept in the trash/);
    assert.match(removed.stderr, /svc trash restore shop/);
    const listed = await svc('trash');
    assert.match(
      listed.stdout,
      /^APP +NAME +VERSION +REMOVED +SIZE +EXPIRES +ID\nshop +Notes +1\.0\.0 +(?:just now|\d+ s ago) +[\d.]+ KiB +in 7 d +shop-\d{13}\n$/,
    );
    const [row] = JSON.parse((await svc('trash', '--json')).stdout);
    assert.equal(row.app, 'shop');
    const unasked = await svc('trash', 'restore', 'shop');
    assert.deepEqual([unasked.status, /--yes/.test(unasked.stderr)], [2, true], unasked.stderr);
    const wrong = await svc('trash', 'restore', 'shpo', '--yes');
    assert.deepEqual([wrong.status, /Did you mean "shop"/.test(wrong.stderr)], [1, true], wrong.stderr);
    const restored = await svc('trash', 'restore', 'shop', '--yes', '--json');
    assert.deepEqual(JSON.parse(restored.stdout).restored, true, restored.stderr);
    assert.equal(await data('shop', 'version'), '1.0.0');
    await remove('shop');
    const [{ id }] = await list();
    const emptied = await svc('trash', 'empty', id, '--yes', '--json');
    assert.deepEqual(JSON.parse(emptied.stdout).deleted, [id]);
    const none = await svc('trash');
    assert.deepEqual([none.status, none.stdout], [0, '']);
    assert.match(none.stderr, /The trash is empty/);
  });
});
