/**
 * Workspaces whose app was removed, replaced by another one, or never live: no work is lost, and each error says the way
 * out.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import type { Answer } from '../testing/gateway.ts';

const gateway = gatewayOfSuite({ store: 'git' });

const handler = (word: string) => `export default () => '${word}';\n`;
const wordApp = (id: string, word: string, files: Record<string, string> = {}) =>
  appOf(id, { migrations: ['CREATE TABLE t (x)'], queries: { word: `() => '${word}'` }, files });
const word = async (app: string) => (await gateway.read(app, 'word')).json.data;

async function open(): Promise<string> {
  return (await gateway.call('POST', '/svc/_sessions', { body: {} })).json.sessionId;
}

const at = (workspace: string, app: string, path = '') => `/svc/_sessions/${workspace}/apps/${app}/files${path}`;
const put = (workspace: string, app: string, path: string, text: string) =>
  gateway.call('PUT', at(workspace, app, `/${path}`), { body: Buffer.from(text) });
const publish = (workspace: string, body: object) =>
  gateway.call('POST', `/svc/_sessions/${workspace}/publish`, { body });
const code = ({ status, json }: Answer) => `${status} ${json.error?.code ?? 'ok'}`;

/** A workspace that has the app, which was published as v1. */
async function taken(id: string, files: Record<string, string> = {}): Promise<string> {
  assert.equal((await gateway.upload(id, wordApp(id, 'first', files))).status, 201);
  const workspace = await open();
  assert.equal((await gateway.call('GET', at(workspace, id))).status, 200);
  return workspace;
}

const remove = async (id: string) => assert.equal((await gateway.call('DELETE', `/svc/_apps/${id}`)).status, 200);

test('an app that was removed meanwhile is shown whole and published again, and its version numbers continue', async () => {
  for (const edited of [true, false]) {
    const id = edited ? 'gone-edited' : 'gone';
    const workspace = await taken(id);
    const other = await open();
    await gateway.call('GET', at(other, id));
    if (edited) await put(workspace, id, 'queries/word.js', handler('second'));
    await remove(id);
    const diff = await gateway.call('GET', `/svc/_sessions/${workspace}/diff`);
    assert.deepEqual(
      diff.json.files.map(({ path, status }: { path: string; status: string }) => [path, status]),
      [
        ['app.json', 'added'],
        ['migrations/0001_step.sql', 'added'],
        ['queries/word.js', 'added'],
      ],
    );
    const again = await publish(workspace, {});
    assert.deepEqual([again.status, again.json.tag, again.json.migrationsApplied], [201, `${id}/v2`, [1]], again.text);
    assert.equal(await word(id), edited ? 'second' : 'first');
    assert.deepEqual((await gateway.call('GET', `/svc/_sessions/${workspace}/diff`)).json.files, []);
    await put(workspace, id, 'queries/word.js', handler('third'));
    assert.equal((await publish(workspace, {})).json.tag, `${id}/v3`);
    // The other workspace has the app from before its removal.
    await put(other, id, 'more.txt', 'x');
    assert.equal(code(await publish(other, { app: id })), '409 MERGE_CONFLICT');
  }
});

test('an update in a workspace whose app was removed deletes nothing, and the app can be published', async () => {
  const workspace = await taken('updated');
  await put(workspace, 'updated', 'queries/word.js', handler('mine'));
  await remove('updated');
  const updated = await gateway.call('POST', `/svc/_sessions/${workspace}/apps/updated/update`);
  assert.deepEqual([updated.status, updated.json.merged, updated.json.conflicts], [200, [], []], updated.text);
  assert.equal((await publish(workspace, { app: 'updated' })).json.tag, 'updated/v2');
  assert.equal(await word('updated'), 'mine');
});

test('changes to a removed app are not mixed into another app with its id; an update is the way out', async () => {
  const workspace = await taken('reborn', { 'same.txt': 'same\n', 'old.txt': 'old\n' });
  await put(workspace, 'reborn', 'mine.txt', 'mine\n');
  await remove('reborn');
  const theirs = appOf('reborn', { queries: { word: "() => 'theirs'" }, files: { 'same.txt': 'same\n' } });
  assert.equal((await gateway.upload('reborn', theirs)).json.versionId, 'reborn/v2');
  const refused = await publish(workspace, { app: 'reborn' });
  assert.equal(code(refused), '409 MERGE_CONFLICT', refused.text);
  assert.deepEqual(refused.json.error.files, ['queries/word.js']);
  assert.equal(await word('reborn'), 'theirs');

  const updated = await gateway.call('POST', `/svc/_sessions/${workspace}/apps/reborn/update`);
  assert.deepEqual(updated.json.conflicts, ['queries/word.js'], updated.text);
  assert.equal(code(await publish(workspace, { app: 'reborn' })), '409 MERGE_CONFLICT', 'the marks are in it');
  await put(workspace, 'reborn', 'queries/word.js', handler('chosen'));
  assert.equal((await publish(workspace, { app: 'reborn' })).json.tag, 'reborn/v3');
  assert.equal(await word('reborn'), 'chosen');
  const repository = join(gateway.dataDir, 'code-store/apps.git');
  const checked = execFileSync('git', ['-C', repository, 'fsck', '--strict', '--no-dangling'], { encoding: 'utf8' });
  assert.equal(checked, '');
});

test('in a workspace, an app without an active version says so, and that a version must be activated', async () => {
  const stored = await gateway.upload('idle', wordApp('idle', 'first'), '?activate=0');
  assert.deepEqual([stored.status, stored.json.activeVersion], [201, null], stored.text);
  const workspace = await open();
  const body = { name: 'Other', sessionId: workspace };
  const answers = [
    await gateway.call('GET', at(workspace, 'idle')),
    await gateway.call('GET', at(workspace, 'idle', '/app.json')),
    await put(workspace, 'idle', 'a.txt', 'x'),
    await gateway.call('GET', `/svc/_sessions/${workspace}/diff?app=idle`),
    await publish(workspace, { app: 'idle' }),
    await gateway.call('POST', `/svc/_sessions/${workspace}/apps/idle/update`),
    await gateway.call('GET', `/svc/_draft/${workspace}/idle/`),
    await gateway.call('POST', `/svc/_draft/${workspace}/_tool/svc_read`, { body: { app: 'idle', query: 'word' } }),
    await gateway.call('POST', '/svc/_apps/idle/meta', { body }),
  ];
  for (const answer of answers) {
    assert.equal(code(answer), '503 NO_ACTIVE_VERSION', answer.text);
    assert.match(answer.json.error.message, /activate/i);
  }
  assert.equal(code(await gateway.call('GET', at(workspace, 'nobody'))), '404 UNKNOWN_APP');
  const activate = await gateway.call('POST', '/svc/_apps/idle/activate', { body: { versionId: 'idle/v1' } });
  assert.equal(activate.status, 200, activate.text);
  assert.equal((await put(workspace, 'idle', 'queries/word.js', handler('second'))).status, 200);
  assert.equal((await publish(workspace, {})).json.tag, 'idle/v2');
  assert.equal(await word('idle'), 'second');
});
