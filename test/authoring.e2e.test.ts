/**
 * The loop of authoring over HTTP: make, edit, preview, compare, publish, merge, roll back (specification, "Workspaces" and
 * "Publication").
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ErrorBody } from '../protocol/errors.ts';
import { LIMITS } from '../protocol/limits.ts';
import { appOf, automation } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { type Answer, startGateway, type TestGateway } from '../testing/gateway.ts';

const STORE = { config: { appsStoreRoot: 'code-store' } };
const gateway = gatewayOfSuite(STORE);

type On = { gateway?: TestGateway };

async function open(on: On = {}): Promise<string> {
  const answer = await (on.gateway ?? gateway).call('POST', '/svc/_sessions', { body: {} });
  assert.equal(answer.status, 201, answer.text);
  return answer.json.sessionId;
}

function put(
  workspace: string,
  app: string,
  path: string,
  text: string,
  on: On & { headers?: Record<string, string> } = {},
) {
  const { gateway: at = gateway, headers = {} } = on;
  return at.call('PUT', `/svc/_sessions/${workspace}/apps/${app}/files/${path}`, { body: Buffer.from(text), headers });
}

async function edit(workspace: string, app: string, files: Record<string, string>, on: On = {}): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    const answer = await put(workspace, app, path, text, on);
    assert.ok(answer.status < 300, answer.text);
  }
}

function publish(workspace: string, body: object = {}, on: On = {}): Promise<Answer> {
  return (on.gateway ?? gateway).call('POST', `/svc/_sessions/${workspace}/publish`, { body });
}

function failed({ status, json }: Answer, wantedStatus: number, code: string): ErrorBody {
  assert.deepEqual([status, json.error?.code], [wantedStatus, code], JSON.stringify(json));
  return json.error;
}

async function fileOf(workspace: string, app: string, path: string): Promise<string> {
  return (await gateway.call('GET', `/svc/_sessions/${workspace}/apps/${app}/files/${path}`)).text;
}

const git = (...args: string[]) =>
  execFileSync('git', ['-C', join(gateway.dataDir, 'code-store', 'apps.git'), ...args], { encoding: 'utf8' });

/** An app whose query answers `word`. */
async function published(id: string, word: string, more: Parameters<typeof appOf>[1] = {}): Promise<void> {
  const answer = await gateway.upload(id, appOf(id, { queries: { word: `() => '${word}'` }, ...more }));
  assert.equal(answer.status, 201, answer.text);
}

const handler = (word: string) => `export default () => '${word}';\n`;

test('from a blank app to a published one, a second version with a migration, and back', async () => {
  const made = await gateway.call('POST', '/svc/_apps', { body: { id: 'notes', name: 'My notes' } });
  assert.equal(made.status, 201, made.text);
  const { sessionId } = made.json;
  assert.deepEqual([made.json.app, made.json.staged], ['notes', true]);
  assert.equal((await gateway.call('GET', '/svc/_apps/notes')).status, 404, 'it is not live before it is published');

  const first = await publish(sessionId, { message: 'The first one' });
  assert.equal(first.status, 201, first.text);
  assert.deepEqual(
    [first.json.id, first.json.version, first.json.tag, first.json.migrationsApplied],
    ['notes', 1, 'notes/v1', [1]],
  );
  assert.equal((await gateway.call('GET', '/svc/_apps/notes')).json.name, 'My notes');
  assert.equal((await gateway.write('notes', 'add', { text: 'Milk' })).status, 201);
  const tree = git('ls-tree', '-r', 'notes/v1');

  await edit(sessionId, 'notes', {
    'migrations/0002_done.sql': 'ALTER TABLE notes ADD COLUMN done INTEGER NOT NULL DEFAULT 0;',
    'queries/list.js': "export default ({ db }) => db.all('SELECT text, done FROM notes');",
  });
  const diff = await gateway.call('GET', `/svc/_sessions/${sessionId}/diff?app=notes`);
  assert.deepEqual(
    diff.json.files.map(({ path, status }: { path: string; status: string }) => [path, status]),
    [
      ['migrations/0002_done.sql', 'added'],
      ['queries/list.js', 'modified'],
    ],
  );
  const changes = await gateway.stream('/svc/notes/_changes');
  const second = await publish(sessionId);
  assert.deepEqual([second.json.version, second.json.migrationsApplied], [2, [2]], second.text);
  assert.deepEqual((await gateway.read('notes', 'list', {})).json.data, [{ text: 'Milk', done: 0 }]);
  changes.close();

  const versions = (await gateway.call('GET', '/svc/_apps/notes/versions')).json;
  assert.deepEqual(
    versions.map(({ versionId, active }: { versionId: string; active: boolean }) => [versionId, active]),
    [
      ['notes/v2', true],
      ['notes/v1', false],
    ],
  );
  const back = await gateway.call('POST', '/svc/_apps/notes/rollback', { body: { version: 1 } });
  assert.equal(back.status, 200, back.text);
  assert.deepEqual([back.json.activeVersion, back.json.previousVersion], ['notes/v1', 'notes/v2']);
  assert.deepEqual(back.json.migrationsAhead, [2], "the data keeps the second version's changes");
  assert.equal(git('ls-tree', '-r', 'main').trim(), tree.trim(), 'nothing of the second version is left in the tree');
  assert.equal((await gateway.read('notes', 'list', {})).json.data[0].text, 'Milk');
  assert.equal((await gateway.call('GET', '/svc/_apps/notes')).json.activeVersion, 'notes/v1');
  assert.equal(git('fsck', '--strict', '--no-dangling').trim(), '');
});

test('two drafts that change different lines are both published; the same lines are a conflict that changes nothing', async () => {
  const lines = Array.from({ length: 20 }, (_, n) => `// line ${n}`);
  const text = (changes: Record<number, string>) =>
    `${lines.map((line, n) => changes[n] ?? line).join('\n')}\nexport default () => 'x';\n`;
  await published('merged', 'x', { files: { 'queries/word.js': text({}), 'same.txt': 'one\n' } });
  const [left, right, third] = [await open(), await open(), await open()];
  await edit(left, 'merged', { 'queries/word.js': text({ 2: '// left' }), 'same.txt': 'left\n' });
  await edit(right, 'merged', { 'queries/word.js': text({ 15: '// right' }) });
  await edit(third, 'merged', { 'same.txt': 'third\n', 'new.txt': 'kept\n' });
  assert.equal((await publish(left)).status, 201);
  const both = await publish(right);
  assert.equal(both.status, 201, both.text);
  assert.equal(await fileOf(right, 'merged', 'queries/word.js'), text({ 2: '// left', 15: '// right' }));

  const conflict = failed(await publish(third), 409, 'MERGE_CONFLICT');
  assert.deepEqual([conflict.files, conflict.path], [['same.txt'], undefined]);
  assert.equal(await fileOf(third, 'merged', 'same.txt'), 'third\n');
  assert.equal(await fileOf(third, 'merged', 'new.txt'), 'kept\n');
  assert.equal((await gateway.call('GET', '/svc/_apps/merged')).json.activeVersion, 'merged/v3');

  const updated = await gateway.call('POST', `/svc/_sessions/${third}/apps/merged/update`);
  assert.equal(updated.status, 200, updated.text);
  assert.deepEqual(updated.json, { base: both.json.sha, merged: ['queries/word.js'], conflicts: ['same.txt'] });
  const marked = '<<<<<<< workspace\nthird\n=======\nleft\n>>>>>>> published\n';
  assert.equal(await fileOf(third, 'merged', 'same.txt'), marked);
  const unresolved = failed(await publish(third), 409, 'MERGE_CONFLICT');
  assert.deepEqual([unresolved.files, unresolved.path], [['same.txt'], 'same.txt']);
  assert.match(unresolved.message, /marked in same\.txt .* Choose between the marks, then publish again\./);
  await edit(third, 'merged', { 'same.txt': 'both\n' });
  assert.equal((await publish(third)).status, 201);
  const kept = git('show', 'main:apps/merged/queries/word.js');
  assert.equal(kept, text({ 2: '// left', 15: '// right' }), "the others' publications are kept");
  assert.equal(git('show', 'main:apps/merged/same.txt'), 'both\n');
});

test("a workspace lists the apps of which it lacks others' publications, and does not count those as its own changes", async () => {
  await published('shared', 'x', { files: { 'notes.txt': 'one\n' } });
  await published('own', 'x', { files: { 'notes.txt': 'one\n' } });
  const [mine, theirs] = [await open(), await open()];
  const diffOf = async (workspace: string) => (await gateway.call('GET', `/svc/_sessions/${workspace}/diff`)).json;
  await fileOf(mine, 'shared', 'notes.txt');
  await edit(mine, 'own', { 'notes.txt': 'mine\n' });
  await edit(theirs, 'shared', { 'new.txt': 'theirs\n' });
  assert.deepEqual([(await diffOf(mine)).behind, (await diffOf(theirs)).behind], [[], []]);
  assert.equal((await publish(theirs)).status, 201);
  const { behind, files } = await diffOf(mine);
  assert.deepEqual(behind, ['shared']);
  assert.deepEqual(
    files.map(({ app, path, status }: { app: string; path: string; status: string }) => [app, path, status]),
    [
      ['own', 'notes.txt', 'modified'],
      ['shared', 'new.txt', 'deleted'],
    ],
  );
  const answer = await publish(mine);
  assert.deepEqual([answer.status, answer.json.id], [201, 'own'], 'the only app that this workspace changes');
  assert.equal((await gateway.call('POST', `/svc/_sessions/${mine}/apps/shared/update`, { body: {} })).status, 200);
  assert.deepEqual([(await diffOf(mine)).behind, (await diffOf(theirs)).behind], [[], []]);
});

test('a refused publication changes nothing, and succeeds after a fix', async () => {
  await published('fixed', 'old', { migrations: ['CREATE TABLE t (a)'] });
  const workspace = await open();
  await edit(workspace, 'fixed', {});
  failed(await publish(workspace, { app: 'fixed' }), 409, 'NO_CHANGES');
  failed(await publish(workspace), 409, 'NO_CHANGES');
  const word = async () => (await gateway.read('fixed', 'word', {})).json.data;

  await edit(workspace, 'fixed', { 'queries/word.js': 'export default () => {\n  return (;\n};\n' });
  const { json, status } = await publish(workspace);
  assert.deepEqual([status, json.error.code], [400, 'INVALID_HANDLER']);
  assert.deepEqual(
    json.error.issues.map(({ path, keyword, line }: { path: string; keyword: string; line: number }) => [
      path,
      keyword,
      line,
    ]),
    [['queries/word.js', 'syntax', 2]],
  );
  await edit(workspace, 'fixed', { 'queries/word.js': "export default ({ db }) => db.run('DELETE FROM t');\n" });
  failed(await publish(workspace), 400, 'INVALID_HANDLER');
  await edit(workspace, 'fixed', { 'queries/word.js': handler('new'), 'app.json': '{"id": "fixed"' });
  failed(await publish(workspace), 400, 'INVALID_MANIFEST');
  const manifest = JSON.stringify({ id: 'fixed', name: 'Fixed', version: '2', queries: [{ name: 'word' }] });
  await edit(workspace, 'fixed', {
    'app.json': manifest,
    'automations/a/automation.json': automation({ triggers: [{ kind: 'tide' }] }),
  });
  await edit(workspace, 'fixed', { 'automations/a/handler.js': handler('a') });
  failed(await publish(workspace), 400, 'INVALID_AUTOMATION');
  await edit(workspace, 'fixed', {
    'automations/a/automation.json': automation(),
    'automations/a/handler.js': 'export default () => ({ summary: String(Date.now()) });\n',
  });
  failed(await publish(workspace), 400, 'INVALID_HANDLER');
  await edit(workspace, 'fixed', {
    'automations/a/handler.js': 'export default () => ({});\n',
    'migrations/0002_bad.sql': 'ALTER TABLE nothing ADD b;',
  });
  assert.equal(failed(await publish(workspace), 422, 'MIGRATION_FAILED').path, 'migrations/0002_bad.sql');
  assert.equal(await word(), 'old');
  assert.equal((await gateway.call('GET', '/svc/_apps/fixed')).json.activeVersion, 'fixed/v1');

  await edit(workspace, 'fixed', { 'migrations/0002_bad.sql': 'ALTER TABLE t ADD b;' });
  const mended = await publish(workspace);
  assert.equal(mended.status, 201, mended.text);
  assert.deepEqual([mended.json.tag, mended.json.migrationsApplied], ['fixed/v2', [2]]);
  assert.equal(await word(), 'new');
});

test('a migration that has run may not change; after a rollback its version can be activated again', async () => {
  const table = 'CREATE TABLE t (a);';
  const done = 'ALTER TABLE t ADD COLUMN done;';
  await published('stepped', 'one', { migrations: [table] });
  const workspace = await open();
  await edit(workspace, 'stepped', { 'migrations/0002_done.sql': done });
  assert.equal((await publish(workspace)).status, 201);
  const [first, second] = (await gateway.call('GET', `/svc/_sessions/${workspace}/apps/stepped/files`)).json
    .map(({ path }: { path: string }) => path)
    .filter((path: string) => path.startsWith('migrations/'));
  for (const path of [first, second]) {
    await edit(workspace, 'stepped', { [path]: 'CREATE TABLE other (a);' });
    assert.equal(failed(await publish(workspace), 400, 'INVALID_MIGRATION').path, path);
    await edit(workspace, 'stepped', { [path]: path === first ? table : done });
  }
  const pushed = appOf('stepped', { queries: { word: "() => 'two'" }, migrations: ['CREATE TABLE other (a);'] });
  failed(await gateway.upload('stepped', pushed), 400, 'INVALID_MIGRATION');
  assert.equal((await gateway.call('POST', '/svc/_apps/stepped/rollback', { body: {} })).status, 200);
  assert.equal(
    (await gateway.call('POST', '/svc/_apps/stepped/activate', { body: { versionId: 'stepped/v2' } })).status,
    200,
  );
});

test('a migration whose number another workspace published first is refused with both names, until it gets its own number', async () => {
  await published('numbered', 'x', { files: { 'migrations/0001_t.sql': 'CREATE TABLE t (a);' } });
  const [first, second] = [await open(), await open()];
  const [own, other] = ['migrations/0002_a.sql', 'migrations/0002_z.sql'];
  await edit(first, 'numbered', { [other]: 'ALTER TABLE t ADD z;' });
  await edit(second, 'numbered', { [own]: 'ALTER TABLE t ADD a2;' });
  assert.equal((await publish(first)).status, 201);

  const met = failed(await publish(second), 400, 'INVALID_MIGRATION');
  assert.deepEqual([met.path, met.files], [own, [own, other]]);
  assert.match(
    met.message,
    /0002_a\.sql has the number of \S+0002_z\.sql, which was published meanwhile\. Update .*: 0003 comes/,
  );

  assert.equal((await gateway.call('POST', `/svc/_sessions/${second}/apps/numbered/update`)).status, 200);
  const still = failed(await publish(second), 400, 'INVALID_MIGRATION');
  assert.deepEqual([still.path, still.files], [own, undefined]);
  assert.match(
    still.message,
    /0002_a\.sql has the number of \S+0002_z\.sql, which was published; rename it: 0003 comes next\./,
  );

  const file = (path: string) => `/svc/_sessions/${second}/apps/numbered/files/${path}`;
  assert.equal((await gateway.call('DELETE', file(own))).status, 200);
  await edit(second, 'numbered', { 'migrations/0003_a.sql': 'ALTER TABLE t ADD a2;' });
  assert.deepEqual((await publish(second)).json.migrationsApplied, [3]);
});

test('concurrent publications of one app: each becomes a separate version, or says why not', async () => {
  await published('raced', 'start');
  const workspaces = await Promise.all(Array.from({ length: 6 }, () => open()));
  await Promise.all(workspaces.map((workspace, n) => edit(workspace, 'raced', { [`file${n}.txt`]: `${n}\n` })));
  const answers = await Promise.all(workspaces.map((workspace) => publish(workspace)));
  assert.deepEqual(
    answers.map(({ status }) => status),
    Array(6).fill(201),
    answers.map(({ text }) => text).join('\n'),
  );
  assert.deepEqual(answers.map(({ json }) => json.version).sort(), [2, 3, 4, 5, 6, 7]);
  const names = git('ls-tree', '--name-only', 'main:apps/raced').split('\n');
  for (let n = 0; n < 6; n++) assert.ok(names.includes(`file${n}.txt`), `file${n}.txt is on main`);
});

test('concurrent publications of different apps do not wait for each other, and main has all of them', async () => {
  const ids = ['side-a', 'side-b', 'side-c', 'side-d'];
  const answers = await Promise.all(
    ids.map((id) => gateway.call('POST', '/svc/_apps', { body: { id, publish: true } })),
  );
  assert.deepEqual(
    answers.map(({ status }) => status),
    [201, 201, 201, 201],
    answers.map(({ text }) => text).join('\n'),
  );
  assert.deepEqual(
    answers.map(({ json }) => [json.staged, json.sessionId, json.tag]),
    ids.map((id) => [false, null, `${id}/v1`]),
  );
  const onMain = git('ls-tree', '--name-only', 'main:apps').split('\n');
  for (const id of ids) assert.ok(onMain.includes(id), `${id} is on main`);
  assert.equal(git('fsck', '--strict', '--no-dangling').trim(), '');
});

test("ids that are taken are refused, and nothing discards another workspace's staged changes", async () => {
  await published('taken', 'x');
  failed(await gateway.call('POST', '/svc/_apps', { body: { id: 'taken' } }), 409, 'CONFLICT');
  failed(
    await gateway.call('POST', '/svc/_apps/_clone', { body: { templateId: 'todos', id: 'taken' } }),
    409,
    'CONFLICT',
  );
  for (const [id, code] of [
    ['_x', 'RESERVED_ID'],
    ['A b', 'INVALID_ID'],
    ['../x', 'INVALID_ID'],
    ['', 'BAD_REQUEST'],
  ] as const)
    failed(await gateway.call('POST', '/svc/_apps', { body: { id } }), 400, code);
  const sessionId = await open();
  const body = { id: 'staged-once', sessionId };
  assert.equal((await gateway.call('POST', '/svc/_apps', { body })).status, 201);
  await edit(sessionId, 'staged-once', { 'mine.txt': 'kept' });
  failed(await gateway.call('POST', '/svc/_apps', { body }), 409, 'CONFLICT');
  assert.equal(await fileOf(sessionId, 'staged-once', 'mine.txt'), 'kept');
  failed(
    await gateway.call('POST', '/svc/_apps', { body: { id: 'nowhere', sessionId: 'nobody' } }),
    404,
    'UNKNOWN_SESSION',
  );
  failed(await gateway.call('POST', '/svc/_apps/_clone', { body: { templateId: 'nothing' } }), 404, 'UNKNOWN_TEMPLATE');
  failed(await gateway.call('POST', '/svc/_apps', { body: { id: 'odd', publish: 'yes' } }), 400, 'BAD_REQUEST');
  assert.equal(
    (await gateway.call('GET', '/svc/_sessions')).json.filter(({ apps }: { apps: string[] }) =>
      apps.includes('nowhere'),
    ).length,
    0,
  );
});

test('names, descriptions and automations are changed without an editor', async () => {
  await published('meta', 'x', { manifest: { custom: { kept: true } } });
  const renamed = await gateway.call('POST', '/svc/_apps/meta/meta', {
    body: { name: 'Renamed', description: 'Says what it is.', publish: true },
  });
  assert.equal(renamed.status, 200, renamed.text);
  const record = (await gateway.call('GET', '/svc/_apps/meta')).json;
  assert.deepEqual(
    [record.name, record.description, record.manifest.custom],
    ['Renamed', 'Says what it is.', { kept: true }],
  );
  failed(await gateway.call('POST', '/svc/_apps/meta/meta', { body: {} }), 400, 'BAD_REQUEST');

  const icon = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="9" height="9"/></svg>';
  const shown = await gateway.call('POST', '/svc/_apps/meta/meta', {
    body: { icon, public: ['page', 'query word'], message: 'Open to all', publish: true },
  });
  assert.equal(shown.status, 200, shown.text);
  assert.match(git('log', '-1', '--format=%s', 'meta/v3'), /^Open to all$/m);
  assert.equal(git('show', 'main:apps/meta/icon.svg'), icon);
  assert.deepEqual((await gateway.call('GET', '/svc/_apps/meta')).json.public, ['page', 'query word']);
  const unknown = { public: ['query nothing'], publish: true };
  failed(await gateway.call('POST', '/svc/_apps/meta/meta', { body: unknown }), 400, 'BAD_REQUEST');
  await gateway.call('POST', '/svc/_apps/meta/meta', { body: { icon: null, public: [], publish: true } });
  assert.match(git('log', '-1', '--format=%s', 'meta/v4'), /^Change icon, public$/m);
  assert.equal((await gateway.call('GET', '/svc/_apps/meta')).json.public, undefined);
  assert.throws(() => git('show', 'main:apps/meta/icon.svg'));

  const manifest = {
    name: 'Inbox',
    prompt: 'Takes what comes.',
    enabled: true,
    triggers: [{ kind: 'webhook', pending: true }],
  };
  const made = await gateway.call('POST', '/svc/_automations', {
    body: {
      app: 'meta',
      id: 'inbox',
      manifest,
      handler: "export default ({ input }) => ({ summary: 'got ' + input.n });",
      publish: true,
    },
  });
  assert.equal(made.status, 201, made.text);
  const { webhook } = made.json;
  assert.deepEqual([webhook.automationId, webhook.ownerApp], ['inbox', 'meta']);
  const fired = await gateway.call('POST', new URL(webhook.url).pathname, {
    body: { n: 7 },
    token: null,
    headers: { authorization: `Bearer ${webhook.secret}` },
  });
  assert.equal(fired.status, 200, fired.text);
  assert.ok(
    !git('show', 'main:apps/meta/automations/inbox/automation.json').includes('secretHash'),
    'no secret is in the repository',
  );

  const patched = await gateway.call('PATCH', '/svc/_automations/meta/inbox', {
    body: { manifest: { name: 'Post box', description: 'x' }, publish: true },
  });
  assert.equal(patched.status, 200, patched.text);
  assert.equal(patched.json.webhook, undefined, 'a change keeps address and secret');
  assert.equal((await gateway.call('GET', '/svc/_automations/meta/inbox')).json.name, 'Post box');
  const again = await gateway.call('POST', new URL(webhook.url).pathname, {
    body: { n: 8 },
    token: null,
    headers: { authorization: `Bearer ${webhook.secret}` },
  });
  assert.equal(again.status, 200, again.text);

  // The legacy form of the only trigger is rewritten wherever the file is written.
  const cron = (expr: string) => ({ kind: 'cron', expr });
  const legacy = { name: 'Daily', prompt: 'Does it every day.', trigger: cron('0 8 * * *') };
  const body = { app: 'meta', id: 'daily', manifest: legacy };
  const daily = (await gateway.call('POST', '/svc/_automations', { body })).json.sessionId;
  const fileNow = async () => JSON.parse(await fileOf(daily, 'meta', 'automations/daily/automation.json'));
  assert.deepEqual([(await fileNow()).trigger, (await fileNow()).triggers], [undefined, [cron('0 8 * * *')]]);
  await gateway.call('PATCH', '/svc/_automations/meta/daily', {
    body: { manifest: { trigger: cron('0 9 * * *') }, sessionId: daily },
  });
  assert.deepEqual([(await fileNow()).trigger, (await fileNow()).triggers], [undefined, [cron('0 9 * * *')]]);
  const both = { ...legacy, triggers: [] };
  failed(
    await gateway.call('POST', '/svc/_automations', { body: { ...body, id: 'both', manifest: both } }),
    400,
    'INVALID_AUTOMATION',
  );

  const opened = (await gateway.call('GET', '/svc/_sessions')).json.length;
  for (const body of [{}, { manifest: {} }, { description: 'in the wrong place' }, { publish: null }])
    failed(await gateway.call('PATCH', '/svc/_automations/meta/inbox', { body }), 400, 'BAD_REQUEST');
  assert.equal(
    (await gateway.call('GET', '/svc/_sessions')).json.length,
    opened,
    'no workspace was opened for nothing',
  );
  const bad = failed(
    await gateway.call('PATCH', '/svc/_automations/meta/inbox', {
      body: { manifest: { triggers: [{ kind: 'cron', expr: 'never' }] } },
    }),
    400,
    'INVALID_AUTOMATION',
  );
  assert.match(bad.path ?? '', /automations\/inbox\/automation\.json#triggers\[0\]\.expr/);
  failed(
    await gateway.call('POST', '/svc/_automations', { body: { app: 'meta', id: 'inbox', manifest } }),
    409,
    'CONFLICT',
  );
  failed(
    await gateway.call('POST', '/svc/_automations', { body: { app: 'meta', id: '../x', manifest } }),
    400,
    'INVALID_ID',
  );
  failed(await gateway.call('DELETE', '/svc/_automations/meta/nothing', { body: {} }), 404, 'UNKNOWN_AUTOMATION');
  assert.equal((await gateway.call('DELETE', '/svc/_automations/meta/inbox', { body: { publish: true } })).status, 200);
  failed(await gateway.call('GET', '/svc/_automations/meta/inbox'), 404, 'UNKNOWN_AUTOMATION');
  assert.equal((await gateway.call('POST', new URL(webhook.url).pathname, { body: {}, token: null })).status, 404);
});

test('many files are written by one request, all or none, and a draft has them', async () => {
  await published('crowd', 'one');
  const { sessionId } = (await gateway.call('POST', '/svc/_sessions')).json;
  const path = `/svc/_sessions/${sessionId}/apps/crowd/files`;
  const put = (files: Record<string, string>) => gateway.call('POST', path, { body: tarball(files) });
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`many/${n}.css`, `of ${n}`]));
  const answer = await put({ ...many, 'queries/word.js': handler('two') });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.json.length, 501);
  const draft = `/svc/_draft/${sessionId}/crowd/`;
  assert.equal((await gateway.call('GET', `${draft}many/499.css`)).text, 'of 499');
  const refused = await put({ 'more.txt': 'x', 'run.sh': 'x' });
  assert.deepEqual(
    [refused.status, refused.json.error.code, refused.json.error.path],
    [400, 'ARCHIVE_EXTENSION', 'run.sh'],
  );
  assert.equal((await gateway.call('GET', `${path}/more.txt`)).status, 404);
  const cut = await gateway.call('POST', path, { body: tarball(many).subarray(0, 500) });
  assert.deepEqual([cut.status, cut.json.error.code], [400, 'INVALID_ARCHIVE']);
  const unknown = await gateway.call('POST', '/svc/_sessions/nobody/apps/crowd/files', { body: tarball(many) });
  assert.deepEqual([unknown.status, unknown.json.error.code], [404, 'UNKNOWN_SESSION']);
});

test('every byte of a file is kept, up to the largest one', async () => {
  const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const largest = Buffer.alloc(LIMITS.archiveFileBytes, every);
  await published('bytes', 'x', { files: { 'old.png': every } });
  const workspace = await open();
  const files = `/svc/_sessions/${workspace}/apps/bytes/files`;
  const send = (path: string, body: Buffer) => gateway.call('PUT', `${files}/${path}`, { body });
  const bytesAt = async (path: string) =>
    Buffer.from(
      await (await fetch(gateway.url + path, { headers: { authorization: `Bearer ${gateway.token}` } })).arrayBuffer(),
    );
  assert.equal((await send('largest.png', largest)).status, 201);
  failed(await send('larger.png', Buffer.concat([largest, every])), 413, 'PAYLOAD_TOO_LARGE');
  assert.equal((await send('empty.png', Buffer.alloc(0))).status, 201);
  assert.ok((await bytesAt(`${files}/largest.png`)).equals(largest), 'read back from the workspace');
  const { json } = await gateway.call('GET', `/svc/_sessions/${workspace}/diff?app=bytes`);
  assert.deepEqual(
    json.files.map(({ path, binary = false }: { path: string; binary?: boolean }) => [path, binary]),
    [
      ['empty.png', false],
      ['largest.png', true],
    ],
  );
  assert.equal((await publish(workspace)).status, 201);
  assert.ok((await bytesAt('/svc/bytes/largest.png')).equals(largest), 'served');
  assert.ok((await bytesAt('/svc/bytes/old.png')).equals(every), 'taken over');
  assert.equal((await bytesAt('/svc/bytes/empty.png')).length, 0);
});

test('workspaces and versions are listed a page at a time, the newest first', async () => {
  const opened: string[] = [];
  for (let n = 0; n < 5; n++) opened.unshift(await open());
  const page = async (query: string): Promise<string[]> =>
    (await gateway.call('GET', `/svc/_sessions${query}`)).json.map(({ sessionId }: { sessionId: string }) => sessionId);
  assert.deepEqual(new Set((await page('')).slice(0, 5)), new Set(opened), 'those of one millisecond in any order');
  const all = await page('?limit=500');
  const first = await page('?limit=2');
  const second = await page(`?limit=2&before=${first[1]}`);
  assert.deepEqual([...first, ...second], all.slice(0, 4));
  assert.deepEqual(await page(`?before=${all.at(-1)}`), []);
  failed(await gateway.call('GET', '/svc/_sessions?before=nobody'), 404, 'UNKNOWN_SESSION');
  failed(await gateway.call('GET', '/svc/_sessions?limit=501'), 400, 'BAD_REQUEST');

  await published('paged', 'one');
  for (const word of ['two', 'three'])
    assert.equal((await gateway.upload('paged', appOf('paged', { queries: { word: `() => '${word}'` } }))).status, 201);
  const versions = async (query: string): Promise<string[]> =>
    (await gateway.call('GET', `/svc/_apps/paged/versions${query}`)).json.map(
      ({ versionId }: { versionId: string }) => versionId,
    );
  assert.deepEqual(await versions('?limit=2'), ['paged/v3', 'paged/v2']);
  assert.deepEqual(await versions('?limit=2&before=paged/v2'), ['paged/v1']);
  failed(await gateway.call('GET', '/svc/_apps/paged/versions?limit=501'), 400, 'BAD_REQUEST');
});

test('a damaged repository is reported, live versions keep serving, and a restart does not make it worse', async (t) => {
  const own = await startGateway(t, STORE);
  const on = { gateway: own };
  assert.equal(
    (
      await own.upload(
        'hurt',
        appOf('hurt', { queries: { word: "() => 'alive'" }, files: { 'big.txt': 'x'.repeat(2000) } }),
      )
    ).status,
    201,
  );
  const workspace = await open(on);
  await edit(workspace, 'hurt', { 'big.txt': 'changed' }, on);
  const objects = join(own.dataDir, 'code-store', 'apps.git', 'objects');
  const damaged: string[] = [];
  for (const folder of readdirSync(objects).filter((name) => /^[0-9a-f]{2}$/.test(name))) {
    for (const name of readdirSync(join(objects, folder))) {
      const path = join(objects, folder, name);
      truncateSync(path, 3);
      damaged.push(folder + name);
    }
  }
  const error = failed(await publish(workspace, {}, on), 500, 'STORE_DAMAGED') as { message: string };
  assert.ok(
    damaged.some((id) => error.message.includes(id)),
    error.message,
  );
  assert.ok(!error.message.includes(own.dataDir), 'no path leaves the gateway');
  assert.equal((await own.read('hurt', 'word', {})).json.data, 'alive');
  await own.stop();
  await own.start();
  assert.equal((await own.read('hurt', 'word', {})).json.data, 'alive');
});

test('without the git store authoring says what is missing', async (t) => {
  const own = await startGateway(t, {});
  for (const [method, path] of [
    ['POST', '/svc/_sessions'],
    ['GET', '/svc/_sessions'],
    ['POST', '/svc/_apps'],
    ['POST', '/svc/_apps/_clone'],
    ['GET', '/svc/_draft/s/app/'],
    ['POST', '/svc/_automations'],
    ['GET', '/svc/_draft/s/app/_changes'],
    ['POST', '/svc/_draft/s/_tool/svc_read'],
    ['GET', '/svc/_draft/s/_logs?app=app'],
    ['GET', '/svc/_draft/s/_apps/app/settings'],
    ['POST', '/svc/_sessions/s/apps/app/reset-data'],
    ['POST', '/svc/_sessions/s/apps/app/check'],
    ['POST', '/svc/_sessions/s/apps/app/tests'],
    ['GET', '/svc/_sessions/s/apps/app/folder'],
  ] as const) {
    const body = method === 'POST' ? { id: 'x', templateId: 'todos', app: 'x', name: 'x' } : undefined;
    failed(await own.call(method, path, { body }), 409, 'NO_GIT_STORE');
  }
  assert.ok((await own.call('GET', '/svc/_templates')).json.length > 0, 'templates are told on both backends');
});

test('after a crash there is no partial workspace, and the data directory keeps the backend that it began with', async () => {
  await published('stays', 'x');
  assert.equal((await gateway.call('GET', '/svc/_apps/stays')).json.backend, 'git');
  const dir = join(gateway.dataDir, 'code-store', 'worktrees', 'sessions');
  writeFileSync(join(dir, '.left'), '');
  await gateway.kill();
  await gateway.start();
  assert.equal((await gateway.read('stays', 'word', {})).json.data, 'x');
  assert.ok(!existsSync(join(dir, '.left')), 'the unfinished workspace is gone');
  assert.ok(
    readFileSync(join(gateway.dataDir, 'code-store', 'active-main'), 'utf8').trim() === git('rev-parse', 'main').trim(),
    'active-main is main',
  );
  rmSync(join(dir, '.left'), { force: true });
});
