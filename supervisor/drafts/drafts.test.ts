/** Drafts as their users see them, on the gateway's real processes; the workspaces are plain folders. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { draftKey } from '../../protocol/ids.ts';
import { appOf } from '../../testing/apps.ts';
import { type DraftGateway, startDrafts } from '../../testing/drafts.ts';
import type { Answer, TestGateway } from '../../testing/gateway.ts';

const NOTES = {
  queries: { list: "({ db }) => db.all('SELECT text FROM notes ORDER BY id')" },
  actions: {
    add: {
      run: "async ({ db, input, ctx }) => { console.log('adding', input.text); await db.run('INSERT INTO notes (text) VALUES (?)', [input.text]); return { body: { ok: true } }; }",
      writes: ['notes'],
    },
    linger: {
      run: "async () => { console.log('lingering'); await new Promise((done) => setTimeout(done, 300)); return { body: {} }; }",
      writes: ['notes'],
    },
    mark: { run: "() => { console.log('marking'); return { body: {} }; }", writes: ['notes'] },
  },
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);'],
  files: { 'index.html': '<!doctype html><title>Notes</title><p>one</p>' },
};

let it: DraftGateway;
let gateway: TestGateway;
let made = 0;

before(async () => {
  it = await startDrafts();
  gateway = it.gateway;
  await goLive('notes');
});

after(() => it.end());

/** Makes an app live that holds one row. */
async function goLive(app: string): Promise<void> {
  assert.equal((await gateway.upload(app, appOf(app, NOTES))).status, 201);
  assert.equal((await gateway.write(app, 'add', { text: 'live' })).status, 200);
}

/** A workspace that has the files of `app`: `notes` is live, and no test writes to it. */
function open(app = 'notes') {
  const { workspaces } = it;
  const workspace = `s${++made}`;
  const files = appOf(app, NOTES) as Record<string, string>;
  workspaces.write(workspace, app, files);
  const draft = `/svc/_draft/${workspace}`;
  const tool = (name: string, body: unknown): Promise<Answer> =>
    gateway.call('POST', `${draft}/_tool/${name}`, { body });
  return {
    app,
    workspace,
    draft,
    files,
    edit: (changed: Record<string, string>) => workspaces.write(workspace, app, changed),
    put: (changed: Record<string, string>) => workspaces.put(workspace, app, changed),
    tool,
    read: () => tool('svc_read', { app, query: 'list' }),
    write: (text: string) => tool('svc_write', { app, action: 'add', input: { text } }),
    page: (rest = '/', headers: Record<string, string> = {}) =>
      gateway.call('GET', `${draft}/${app}${rest}`, { headers }),
    follow: (query = '') => gateway.stream(`${draft}/${app}/_changes${query}`),
    logs: () => gateway.call('GET', `${draft}/_logs?app=${app}`),
  };
}

/** The same with an app of its own that is live, which the test changes. */
async function openLive(app: string) {
  await goLive(app);
  return open(app);
}

const texts = (answer: Answer): string[] => answer.json.data.map(({ text }: { text: string }) => text);

function codeOf(answer: Answer): [number, string] {
  assert.equal(answer.json.isError, true);
  return [answer.status, answer.json.error.code];
}

test('a draft has separate data, which begins as a copy of live', async () => {
  const { app, read, write } = await openLive('apart');
  assert.deepEqual(texts(await read()), ['live']);
  assert.equal((await write('draft')).status, 200);
  assert.deepEqual(texts(await read()), ['live', 'draft']);
  assert.deepEqual(texts(await gateway.read(app, 'list')), ['live']);
  await gateway.write(app, 'add', { text: 'later' });
  assert.deepEqual(texts(await read()), ['live', 'draft']);
});

test('an app that is not live begins without data', async () => {
  const { app, read, write } = open('unborn');
  assert.deepEqual(texts(await read()), []);
  await write('draft');
  assert.deepEqual(texts(await read()), ['draft']);
  assert.deepEqual(codeOf(await gateway.read(app, 'list')), [404, 'UNKNOWN_APP']);
});

test('two first calls at once get one copy of the data', async () => {
  const { read, write, logs } = open();
  const [first, wrote, last] = await Promise.all([read(), write('draft'), read()]);
  assert.deepEqual([first.status, wrote.status, last.status], [200, 200, 200]);
  assert.deepEqual(texts(await read()), ['live', 'draft']);
  assert.equal((await logs()).text.includes('copied from live'), false);
});

test('events, logs and settings of a draft and of live are apart', async () => {
  const { app, draft: address, write, follow, logs } = await openLive('separate');
  const draft = await follow();
  const live = await gateway.stream(`/svc/${app}/_changes`);
  const lines = await gateway.stream('/svc/_logs?follow=1');
  await write('draft');
  const event = await draft.next();
  assert.deepEqual([event.event, JSON.parse(event.data).app, JSON.parse(event.data).action], ['change', app, 'add']);
  // What comes first of all is live's, so that nothing of the draft came before.
  await gateway.write(app, 'mark');
  assert.equal(JSON.parse((await live.next()).data).action, 'mark');
  assert.equal(JSON.parse((await lines.next()).data).msg, 'marking');
  const draftLog = (await logs()).json;
  assert.deepEqual(
    draftLog.map((line: { app: string; msg: string }) => [line.app, line.msg]),
    [[app, 'adding draft']],
  );
  const liveLog = (await gateway.call('GET', '/svc/_logs?app=notes')).text;
  assert.ok(!liveLog.includes('adding draft'), liveLog);

  await gateway.call('PUT', `/svc/_apps/${app}/settings`, { body: { theme: 'light' } });
  const put = await gateway.call('PUT', `${address}/_apps/${app}/settings`, { body: { theme: 'dark' } });
  assert.deepEqual(put.json.settings, { theme: 'dark' });
  assert.deepEqual((await gateway.call('GET', `${address}/_apps/${app}/settings`)).json.settings, { theme: 'dark' });
  assert.deepEqual((await gateway.call('GET', `/svc/_apps/${app}/settings`)).json.settings, { theme: 'light' });
});

test('an idempotency key of a draft is not that of live', async () => {
  const { app, draft, read } = await openLive('keyed');
  const headers = { 'idempotency-key': 'k' };
  const body = { app, action: 'add', input: { text: 'x' } };
  await gateway.write(app, 'add', { text: 'x' }, { headers });
  const inDraft = await gateway.call('POST', `${draft}/_tool/svc_write`, { body, headers });
  assert.equal(inDraft.headers['idempotency-replayed'], undefined);
  assert.equal((await read()).json.data.length, 3);
});

test('an edited file reaches the next call and the page, which gets an event', async () => {
  const { workspace, edit, put, read, page, follow, files } = open();
  await read();
  const first = await page();
  assert.match(
    first.text,
    new RegExp(
      `<script src="/svc/_client.js" data-app="notes" data-draft="${workspace}" data-version="\\w{16}"></script>`,
    ),
  );
  const stream = await follow();
  edit({ 'queries/list.js': "export default () => [{ text: 'edited' }];\n" });
  const reload = await stream.next();
  assert.equal(reload.event, 'reload');
  assert.deepEqual((await read()).json.data, [{ text: 'edited' }]);
  assert.notEqual((await page()).headers.etag, first.headers.etag);

  // A new folder, and a file in it; then one that the gateway wrote itself.
  edit({ 'img/dot.svg': '<svg/>' });
  assert.deepEqual({ ...(await stream.next()), data: '' }, { ...reload, data: '' }, 'it takes no number');
  assert.equal((await page('/img/dot.svg')).text, '<svg/>');
  edit({ 'img/dot.svg': '<svg id="b"/>' });
  assert.equal((await stream.next()).event, 'reload');
  put(files);
  assert.deepEqual((await read()).json.data, [{ text: 'live' }]);
});

test('a request sees what was written before it, though nothing was told of it yet', async () => {
  const { app, workspace, edit, read, files } = open();
  await read();
  const draft = await it.drafts().draft(workspace, app);
  const before = await draft.get();
  // The system is not asked for changes between a write and the question.
  edit({ 'queries/list.js': 'export default () => [];\n' });
  const after = await draft.get();
  assert.notEqual(after.active.versionId, before.active.versionId);
  edit({ 'app.json': '{' });
  await draft.refreshed();
  assert.equal(draft.fault?.code, 'INVALID_MANIFEST');
  edit({ 'app.json': files['app.json'] as string });
  await draft.refreshed();
  assert.equal(draft.fault, null);
  assert.equal(draft.snapshot.summary.versionId, after.active.versionId);
});

test('a folder that is replaced as a whole is followed', async () => {
  const { workspace, edit, page, follow, files } = open();
  await page();
  const stream = await follow();
  const { workspaces } = it;
  workspaces.write('other', 'notes', { ...files, 'index.html': '<p>other' });
  renameSync(workspaces.path(workspace, 'notes'), workspaces.path(workspace, 'aside'));
  renameSync(workspaces.path('other', 'notes'), workspaces.path(workspace, 'notes'));
  while (!(await page()).text.includes('other')) await stream.next();
  edit({ 'index.html': '<p>third' });
  while (!(await page()).text.includes('third')) await stream.next();
});

test('a page that shows an older state gets a reload when it connects', async () => {
  const { put, page, follow } = open();
  const version = /data-version="(\w+)"/.exec((await page()).text)?.[1];
  const same = await follow(`?version=${version}`);
  put({ 'index.html': '<p>two' });
  assert.equal((await same.next()).event, 'reload');
  const late = await follow(`?version=${version}`);
  assert.equal((await late.next()).event, 'reload');
  assert.ok(!(await page()).text.includes(`${version}`), 'the page names its new state');
});

test('a broken draft answers its error, shows it in a browser, and is whole again once it is mended', async () => {
  const { workspace, edit, read, page, follow, files, logs } = open();
  await read();
  const stream = await follow();
  edit({ 'app.json': '{ "id": "notes", ' });
  await stream.next();
  assert.deepEqual(codeOf(await read()), [400, 'INVALID_MANIFEST']);
  assert.deepEqual(codeOf(await page('/index.html')), [400, 'INVALID_MANIFEST']);
  const shown = await page('/', { accept: 'text/html,*/*' });
  assert.equal(shown.status, 400);
  assert.match(shown.headers['content-type'] as string, /^text\/html/);
  assert.match(shown.text, new RegExp(`data-app="notes" data-draft="${workspace}" data-version="\\w{16}"`));
  assert.match(shown.text, /INVALID_MANIFEST/);
  assert.ok((shown.headers['content-security-policy'] as string).includes("default-src 'self'"), 'it has a policy');
  assert.match((await logs()).text, /INVALID_MANIFEST/);
  // Live goes on.
  assert.equal((await gateway.read('notes', 'list')).status, 200);

  edit({ 'app.json': files['app.json'] as string });
  await stream.next();
  assert.equal((await read()).status, 200);
  assert.equal((await page()).status, 200);
});

test('the error page escapes its text', async () => {
  const { edit, page } = open();
  edit({ 'migrations/<img src=x onerror=alert(1)>.sql': 'SELECT 1' });
  const { text, status } = await page('/', { accept: 'text/html' });
  assert.equal(status, 400);
  assert.ok(!text.includes('<img'), text);
});

test('a handler that does not parse is the error of its calls alone', async () => {
  const { edit, read, page, write } = open();
  edit({ 'queries/list.js': 'export default (' });
  assert.deepEqual(codeOf(await read()), [500, 'HANDLER_ERROR']);
  assert.equal((await write('x')).status, 200);
  assert.equal((await page()).status, 200);
});

test('a migration that is added is applied to the draft alone, whose rows stay', async () => {
  const { put, write, read, logs } = open();
  await write('draft');
  put({ 'migrations/0002_done.sql': 'ALTER TABLE notes ADD COLUMN done INTEGER;' });
  put({
    'queries/list.js': "export default ({ db }) => db.all('SELECT text, done FROM notes');\n",
  });
  assert.deepEqual((await read()).json.data, [
    { text: 'live', done: null },
    { text: 'draft', done: null },
  ]);
  assert.deepEqual(texts(await gateway.read('notes', 'list')), ['live']);

  // Edited after it was applied: the data begins anew, and the log says so.
  put({ 'migrations/0002_done.sql': 'ALTER TABLE notes ADD COLUMN done TEXT;' });
  assert.deepEqual((await read()).json.data, [{ text: 'live', done: null }]);
  assert.match((await logs()).text, /copied from live again/);
});

test('a migration that fails is the error of every call until it is mended', async () => {
  const { put, write, read, page } = open();
  await write('draft');
  put({ 'migrations/0002_more.sql': 'ALTER TABLE nothing ADD COLUMN done;' });
  for (let i = 0; i < 2; i++) {
    const failed = await read();
    assert.deepEqual(codeOf(failed), [422, 'MIGRATION_FAILED']);
    assert.equal(failed.json.error.path, 'migrations/0002_more.sql');
  }
  assert.equal((await page()).status, 200);
  assert.equal((await gateway.read('notes', 'list')).status, 200);
  put({ 'migrations/0002_more.sql': 'CREATE TABLE more (id);' });
  assert.equal((await read()).json.data.length, 2);
});

test('the data can be copied from live again', async () => {
  const { app, workspace, put, write, read, follow } = await openLive('again');
  await write('draft');
  put({ 'migrations/0002_more.sql': 'CREATE TABLE more (id);' });
  await gateway.write(app, 'add', { text: 'second' });
  const stream = await follow();
  const reset = await gateway.call('POST', `/svc/_sessions/${workspace}/apps/${app}/reset-data`);
  assert.deepEqual([reset.status, reset.json], [200, { seeded: true, migrationsApplied: [2] }]);
  assert.equal((await stream.next()).event, 'reset');
  assert.deepEqual(texts(await read()), ['live', 'second']);
});

test('a workspace that is closed is gone, and live is never shown in its place', async () => {
  const { workspace, draft, edit, write, read, page, follow, logs, files } = open();
  await write('draft');
  const stream = await follow();
  await it.workspaces.close(workspace);
  await stream.ended();
  for (const answer of [
    await page(),
    await page('/index.html'),
    await read(),
    await gateway.call('POST', `${draft}/_tool/svc_describe`, { body: {} }),
    await gateway.call('GET', `${draft}/notes/_changes`),
    await logs(),
    await gateway.call('GET', `${draft}/_apps/notes/settings`),
    await gateway.call('POST', `/svc/_sessions/${workspace}/apps/notes/reset-data`),
  ])
    assert.deepEqual(codeOf(answer), [404, 'UNKNOWN_SESSION']);
  assert.ok(!existsSync(join(it.dataDir, 'apps/_drafts', workspace)), 'its data is gone');
  assert.ok(
    !(await gateway.call('GET', '/svc/_system')).text.includes(`"${draftKey(workspace, 'notes')}"`),
    'its actor is gone',
  );
  // Another one of the same id has nothing of it.
  edit(files);
  assert.deepEqual((await read()).json.data, [{ text: 'live' }]);
});

test('a draft whose last call ended while its workspace was closed is forgotten', async () => {
  const { workspace, draft, tool, read } = open();
  const known = it.changes().size;
  await read();
  const lines = await gateway.stream(`${draft}/_logs?app=notes&follow=1`);
  const last = tool('svc_write', { app: 'notes', action: 'linger' });
  assert.equal(JSON.parse((await lines.next()).data).msg, 'lingering');
  await it.workspaces.close(workspace);
  await last;
  assert.equal(it.changes().size, known);
});

test('a restart keeps the data of open workspaces and removes that of others', async () => {
  const { put, write, read } = open();
  const { dataDir, restart } = it;
  await write('draft');
  mkdirSync(join(dataDir, 'apps/_drafts/gone/notes'), { recursive: true });
  await restart();
  assert.ok(!existsSync(join(dataDir, 'apps/_drafts/gone')), 'what no workspace has is removed');
  assert.deepEqual(texts(await read()), ['live', 'draft']);
  put({ 'migrations/0002_more.sql': 'CREATE TABLE more (id);' });
  await write('again');
  await restart();
  assert.deepEqual(texts(await read()), ['live', 'draft', 'again']);
});

test('a live app that is removed leaves its drafts alone', async () => {
  const { app, write, read, page } = await openLive('removed');
  await write('draft');
  assert.equal((await gateway.call('DELETE', `/svc/_apps/${app}`)).status, 200);
  assert.deepEqual(texts(await read()), ['live', 'draft']);
  assert.equal((await page()).status, 200);
});

test('svc_describe lists the apps that were taken into the workspace', async () => {
  const { workspace, tool } = open();
  it.workspaces.write(workspace, 'other', appOf('other'));
  const { json } = await tool('svc_describe', {});
  assert.deepEqual(
    json.data.apps.map(({ app }: { app: string }) => app),
    ['notes', 'other'],
  );
  const one = await tool('svc_describe', { app: 'notes' });
  assert.deepEqual(
    one.json.data.queries.map(({ name }: { name: string }) => name),
    ['list'],
  );
  assert.deepEqual(codeOf(await tool('svc_other', {})), [404, 'UNKNOWN_TOOL']);
  assert.deepEqual(codeOf(await tool('svc_read', { app: 'notes', query: 'none' })), [404, 'UNKNOWN_QUERY']);
});

test('ids of every bad kind are refused in the one shape', async () => {
  const { draft, tool } = open();
  for (const app of ['nope', 'No', 'a b', 'x'.repeat(64), '__proto__', 'notes%2f..', '\u{1F600}']) {
    const answer = await gateway.call('GET', `${draft}/${encodeURIComponent(app)}/`);
    assert.deepEqual(codeOf(answer), [404, 'UNKNOWN_APP'], app);
    assert.deepEqual(codeOf(await tool('svc_read', { app, query: 'list' })), [404, 'UNKNOWN_APP'], app);
  }
  for (const workspace of ['nope', '-s', 'a b', 'x'.repeat(65), '_drafts', '%00']) {
    const address = `/svc/_draft/${encodeURIComponent(workspace)}`;
    assert.deepEqual(codeOf(await gateway.call('GET', `${address}/notes/`)), [404, 'UNKNOWN_SESSION'], workspace);
    const read = await gateway.call('POST', `${address}/_tool/svc_read`, { body: { app: 'notes', query: 'list' } });
    assert.deepEqual(codeOf(read), [404, 'UNKNOWN_SESSION'], workspace);
  }
  assert.deepEqual(codeOf(await gateway.call('GET', '/svc/_draft/%/notes/')), [400, 'BAD_REQUEST']);
  assert.deepEqual(codeOf(await gateway.call('GET', `${draft}/_logs`)), [400, 'BAD_REQUEST']);
});

test('files are served under the rules of live ones', async () => {
  const { workspace, draft, edit, page } = open();
  edit({ 'a.css': 'p{}' });
  const file = await page('/a.css');
  assert.deepEqual([file.status, file.headers['cache-control']], [200, 'no-cache']);
  assert.equal((await page('/a.css', { 'if-none-match': file.headers.etag as string })).status, 304);
  assert.equal((await page('/a.css', { range: 'bytes=0-0' })).text, 'p');
  assert.deepEqual(codeOf(await page('/a.css', { range: 'bytes=9-' })), [416, 'RANGE_NOT_SATISFIABLE']);
  assert.deepEqual([(await page('')).status, (await page('')).headers.location], [308, `${draft}/notes/`]);
  for (const hidden of ['/app.json', '/queries/list.js', '/migrations/0001_step.sql', '/_v/v1/a.css', '/nope.css'])
    assert.deepEqual(codeOf(await page(hidden)), [404, 'NOT_FOUND'], hidden);
  symlinkSync('/etc/passwd', join(it.workspaces.path(workspace, 'notes'), 'b.css'));
  assert.deepEqual(codeOf(await page('/b.css')), [400, 'ARCHIVE_ENTRY_TYPE']);
});

test('temporary files of editors are not part of the draft', async () => {
  const { workspace, edit, page } = open();
  edit({ '.index.html.swp': 'x', 'index.html~': 'x', '.index.html.0f.tmp': 'x' });
  symlinkSync('me@host.1', join(it.workspaces.path(workspace, 'notes'), '.#index.html'));
  assert.equal((await page()).status, 200);
});

test('automations of a draft are checked, and never fire', async () => {
  const { edit, page } = open();
  const { 'automations/tick/automation.json': manifest = '', 'automations/tick/handler.js': handler = '' } = appOf(
    'notes',
    {
      automations: { tick: { run: '() => ({})', triggers: [{ kind: 'cron', expr: '* * * * * *', tz: 'UTC' }] } },
    },
  ) as Record<string, string>;
  edit({ 'automations/tick/handler.js': handler, 'automations/tick/automation.json': '{}' });
  assert.deepEqual(codeOf(await page()), [400, 'INVALID_AUTOMATION']);
  edit({ 'automations/tick/automation.json': manifest });
  assert.equal((await page()).status, 200);
  assert.deepEqual((await gateway.call('GET', '/svc/_automations')).json.rows, []);
});
