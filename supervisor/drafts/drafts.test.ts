/** Drafts as their users see them, on the gateway's real processes; the sessions are plain folders. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { appOf } from '../../testing/apps.ts';
import { startDrafts } from '../../testing/drafts.ts';
import type { Answer } from '../../testing/gateway.ts';

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

/** A gateway with `notes` live, holding one row, and a session `s1` that has its files. */
async function setUp(t: TestContext, { live = true } = {}) {
  const it = await startDrafts(t);
  const { gateway, sessions } = it;
  const files = appOf('notes', NOTES);
  if (live) {
    assert.equal((await gateway.upload('notes', files)).status, 201);
    assert.equal((await gateway.write('notes', 'add', { text: 'live' })).status, 200);
  }
  sessions.write('s1', 'notes', files);
  const tool = (name: string, body: unknown, session = 's1'): Promise<Answer> =>
    gateway.call('POST', `/svc/_draft/${session}/_tool/${name}`, { body });
  const read = (query = 'list', session = 's1') => tool('svc_read', { app: 'notes', query }, session);
  const write = (text: string) => tool('svc_write', { app: 'notes', action: 'add', input: { text } });
  const texts = (answer: Answer): string[] => answer.json.data.map(({ text }: { text: string }) => text);
  const page = (rest = '/', headers: Record<string, string> = {}) =>
    gateway.call('GET', `/svc/_draft/s1/notes${rest}`, { headers });
  const follow = (query = '') => gateway.stream(`/svc/_draft/s1/notes/_changes${query}`);
  return { ...it, files, tool, read, write, texts, page, follow };
}

function codeOf(answer: Answer): [number, string] {
  assert.equal(answer.json.isError, true);
  return [answer.status, answer.json.error.code];
}

test('a draft has data of its own, which begins as that of live', async (t) => {
  const { gateway, read, write, texts } = await setUp(t);
  assert.deepEqual(texts(await read()), ['live']);
  assert.equal((await write('draft')).status, 200);
  assert.deepEqual(texts(await read()), ['live', 'draft']);
  assert.deepEqual(texts(await gateway.read('notes', 'list')), ['live']);
  await gateway.write('notes', 'add', { text: 'later' });
  assert.deepEqual(texts(await read()), ['live', 'draft']);
});

test('an app that is not live begins with nothing', async (t) => {
  const { gateway, read, write, texts } = await setUp(t, { live: false });
  assert.deepEqual(texts(await read()), []);
  await write('draft');
  assert.deepEqual(texts(await read()), ['draft']);
  assert.deepEqual(codeOf(await gateway.read('notes', 'list')), [404, 'UNKNOWN_APP']);
});

test('two first calls at once get one copy of the data', async (t) => {
  const { read, write, texts, gateway } = await setUp(t);
  const [first, wrote, last] = await Promise.all([read(), write('draft'), read()]);
  assert.deepEqual([first.status, wrote.status, last.status], [200, 200, 200]);
  assert.deepEqual(texts(await read()), ['live', 'draft']);
  assert.equal((await gateway.call('GET', '/svc/_draft/s1/_logs?app=notes')).text.includes('copied from live'), false);
});

test('events, logs and settings of a draft and of live are apart', async (t) => {
  const { gateway, write, follow } = await setUp(t);
  const draft = await follow();
  const live = await gateway.stream('/svc/notes/_changes');
  const lines = await gateway.stream('/svc/_logs?follow=1');
  await write('draft');
  const event = await draft.next();
  assert.deepEqual(
    [event.event, JSON.parse(event.data).app, JSON.parse(event.data).action],
    ['change', 'notes', 'add'],
  );
  // What comes first of all is live's, so that nothing of the draft came before.
  await gateway.write('notes', 'mark');
  assert.equal(JSON.parse((await live.next()).data).action, 'mark');
  assert.equal(JSON.parse((await lines.next()).data).msg, 'marking');
  const draftLog = (await gateway.call('GET', '/svc/_draft/s1/_logs?app=notes')).json;
  assert.deepEqual(
    draftLog.map(({ app, msg }: { app: string; msg: string }) => [app, msg]),
    [['notes', 'adding draft']],
  );
  const liveLog = (await gateway.call('GET', '/svc/_logs?app=notes')).text;
  assert.ok(!liveLog.includes('adding draft'), liveLog);

  await gateway.call('PUT', '/svc/_apps/notes/settings', { body: { theme: 'light' } });
  const put = await gateway.call('PUT', '/svc/_draft/s1/_apps/notes/settings', { body: { theme: 'dark' } });
  assert.deepEqual(put.json.settings, { theme: 'dark' });
  assert.deepEqual((await gateway.call('GET', '/svc/_draft/s1/_apps/notes/settings')).json.settings, { theme: 'dark' });
  assert.deepEqual((await gateway.call('GET', '/svc/_apps/notes/settings')).json.settings, { theme: 'light' });
});

test('an idempotency key of a draft is not that of live', async (t) => {
  const { gateway, tool } = await setUp(t);
  const headers = { 'idempotency-key': 'k' };
  const body = { app: 'notes', action: 'add', input: { text: 'x' } };
  await gateway.write('notes', 'add', { text: 'x' }, { headers });
  const inDraft = await gateway.call('POST', '/svc/_draft/s1/_tool/svc_write', { body, headers });
  assert.equal(inDraft.headers['idempotency-replayed'], undefined);
  assert.equal((await tool('svc_read', { app: 'notes', query: 'list' })).json.data.length, 3);
});

test('a file that is edited reaches the next call and the page, which is told', async (t) => {
  const { sessions, read, page, follow, files } = await setUp(t);
  await read();
  const first = await page();
  assert.match(
    first.text,
    /<script src="\/svc\/_client.js" data-app="notes" data-draft="s1" data-version="\w{16}"><\/script>/,
  );
  const stream = await follow();
  sessions.write('s1', 'notes', { 'queries/list.js': "export default () => [{ text: 'edited' }];\n" });
  assert.deepEqual({ ...(await stream.next()), data: '' }, { event: 'reload', id: '', data: '' });
  assert.deepEqual((await read()).json.data, [{ text: 'edited' }]);
  assert.notEqual((await page()).headers.etag, first.headers.etag);

  // A new folder, and a file in it; then one that the gateway wrote itself.
  sessions.write('s1', 'notes', { 'img/dot.svg': '<svg/>' });
  assert.equal((await stream.next()).event, 'reload');
  assert.equal((await page('/img/dot.svg')).text, '<svg/>');
  sessions.write('s1', 'notes', { 'img/dot.svg': '<svg id="b"/>' });
  assert.equal((await stream.next()).event, 'reload');
  sessions.put('s1', 'notes', files as Record<string, string>);
  assert.deepEqual((await read()).json.data, [{ text: 'live' }]);
});

test('a folder that is replaced as a whole is followed', async (t) => {
  const { sessions, page, follow, files } = await setUp(t);
  await page();
  const stream = await follow();
  sessions.write('s2', 'notes', { ...(files as Record<string, string>), 'index.html': '<p>other' });
  renameSync(sessions.path('s1', 'notes'), sessions.path('s1', 'aside'));
  renameSync(sessions.path('s2', 'notes'), sessions.path('s1', 'notes'));
  while (!(await page()).text.includes('other')) await stream.next();
  sessions.write('s1', 'notes', { 'index.html': '<p>third' });
  while (!(await page()).text.includes('third')) await stream.next();
});

test('a page that shows an older state is told so when it connects', async (t) => {
  const { sessions, page, follow } = await setUp(t);
  const version = /data-version="(\w+)"/.exec((await page()).text)?.[1];
  const same = await follow(`?version=${version}`);
  sessions.put('s1', 'notes', { 'index.html': '<p>two' });
  assert.equal((await same.next()).event, 'reload');
  const late = await follow(`?version=${version}`);
  assert.equal((await late.next()).event, 'reload');
  assert.ok(!(await page()).text.includes(`${version}`), 'the page names its new state');
});

test('a broken draft answers its error, shows it in a browser, and is whole again once it is mended', async (t) => {
  const { sessions, read, page, follow, files, gateway } = await setUp(t);
  await read();
  const stream = await follow();
  sessions.write('s1', 'notes', { 'app.json': '{ "id": "notes", ' });
  await stream.next();
  assert.deepEqual(codeOf(await read()), [400, 'INVALID_MANIFEST']);
  assert.deepEqual(codeOf(await page('/index.html')), [400, 'INVALID_MANIFEST']);
  const shown = await page('/', { accept: 'text/html,*/*' });
  assert.equal(shown.status, 400);
  assert.match(shown.headers['content-type'] as string, /^text\/html/);
  assert.match(shown.text, /data-app="notes" data-draft="s1" data-version="\w{16}"/);
  assert.match(shown.text, /INVALID_MANIFEST/);
  assert.ok((shown.headers['content-security-policy'] as string).includes("default-src 'self'"), 'it has a policy');
  assert.match((await gateway.call('GET', '/svc/_draft/s1/_logs?app=notes')).text, /INVALID_MANIFEST/);
  // Live goes on.
  assert.equal((await gateway.read('notes', 'list')).status, 200);

  sessions.write('s1', 'notes', { 'app.json': files['app.json'] as string });
  await stream.next();
  assert.equal((await read()).status, 200);
  assert.equal((await page()).status, 200);
});

test('what the error page shows is text', async (t) => {
  const { sessions, page } = await setUp(t);
  sessions.write('s1', 'notes', { 'migrations/<img src=x onerror=alert(1)>.sql': 'SELECT 1' });
  const { text, status } = await page('/', { accept: 'text/html' });
  assert.equal(status, 400);
  assert.ok(!text.includes('<img'), text);
});

test('a handler that does not parse is the error of its calls alone', async (t) => {
  const { sessions, read, page, tool } = await setUp(t);
  sessions.write('s1', 'notes', { 'queries/list.js': 'export default (' });
  assert.deepEqual(codeOf(await read()), [500, 'HANDLER_ERROR']);
  assert.equal((await tool('svc_write', { app: 'notes', action: 'add', input: { text: 'x' } })).status, 200);
  assert.equal((await page()).status, 200);
});

test('a migration that is added is applied to the draft alone, whose rows stay', async (t) => {
  const { sessions, gateway, write, texts, read } = await setUp(t);
  await write('draft');
  sessions.put('s1', 'notes', { 'migrations/0002_done.sql': 'ALTER TABLE notes ADD COLUMN done INTEGER;' });
  sessions.put('s1', 'notes', {
    'queries/list.js': "export default ({ db }) => db.all('SELECT text, done FROM notes');\n",
  });
  assert.deepEqual((await read()).json.data, [
    { text: 'live', done: null },
    { text: 'draft', done: null },
  ]);
  assert.deepEqual(texts(await gateway.read('notes', 'list')), ['live']);

  // Edited after it was applied: the data begins anew, and the log says so.
  sessions.put('s1', 'notes', { 'migrations/0002_done.sql': 'ALTER TABLE notes ADD COLUMN done TEXT;' });
  assert.deepEqual((await read()).json.data, [{ text: 'live', done: null }]);
  assert.match((await gateway.call('GET', '/svc/_draft/s1/_logs?app=notes')).text, /copied from live again/);
});

test('a migration that fails is the error of every call until it is mended', async (t) => {
  const { sessions, write, read, page, gateway } = await setUp(t);
  await write('draft');
  sessions.put('s1', 'notes', { 'migrations/0002_more.sql': 'ALTER TABLE nothing ADD COLUMN done;' });
  for (let i = 0; i < 2; i++) {
    const failed = await read();
    assert.deepEqual(codeOf(failed), [422, 'MIGRATION_FAILED']);
    assert.equal(failed.json.error.path, 'migrations/0002_more.sql');
  }
  assert.equal((await page()).status, 200);
  assert.equal((await gateway.read('notes', 'list')).status, 200);
  sessions.put('s1', 'notes', { 'migrations/0002_more.sql': 'CREATE TABLE more (id);' });
  assert.equal((await read()).json.data.length, 2);
});

test('the data can be copied from live again', async (t) => {
  const { sessions, gateway, write, read, texts, follow } = await setUp(t);
  await write('draft');
  sessions.put('s1', 'notes', { 'migrations/0002_more.sql': 'CREATE TABLE more (id);' });
  await gateway.write('notes', 'add', { text: 'second' });
  const stream = await follow();
  const reset = await gateway.call('POST', '/svc/_sessions/s1/apps/notes/reset-data');
  assert.deepEqual([reset.status, reset.json], [200, { seeded: true, migrationsApplied: [2] }]);
  assert.equal((await stream.next()).event, 'reset');
  assert.deepEqual(texts(await read()), ['live', 'second']);
});

test('a session that is closed is gone, and live is never shown in its place', async (t) => {
  const { sessions, gateway, write, read, page, follow, dataDir, files } = await setUp(t);
  await write('draft');
  const stream = await follow();
  await sessions.close('s1');
  await stream.ended();
  for (const answer of [
    await page(),
    await page('/index.html'),
    await read(),
    await gateway.call('POST', '/svc/_draft/s1/_tool/svc_describe', { body: {} }),
    await gateway.call('GET', '/svc/_draft/s1/notes/_changes'),
    await gateway.call('GET', '/svc/_draft/s1/_logs?app=notes'),
    await gateway.call('GET', '/svc/_draft/s1/_apps/notes/settings'),
    await gateway.call('POST', '/svc/_sessions/s1/apps/notes/reset-data'),
  ])
    assert.deepEqual(codeOf(answer), [404, 'UNKNOWN_SESSION']);
  assert.ok(!existsSync(join(dataDir, 'apps/_drafts/s1')), 'its data is gone');
  assert.ok(!(await gateway.call('GET', '/svc/_system')).text.includes('_drafts'), 'its actor is gone');
  // Another one of the same id has nothing of it.
  sessions.write('s1', 'notes', files as Record<string, string>);
  assert.deepEqual((await read()).json.data, [{ text: 'live' }]);
});

test('nothing is remembered of a draft whose last call ended while its session was closed', async (t) => {
  const { gateway, sessions, tool, read, changes } = await setUp(t);
  const before = changes().size;
  await read();
  const lines = await gateway.stream('/svc/_draft/s1/_logs?app=notes&follow=1');
  const last = tool('svc_write', { app: 'notes', action: 'linger' });
  assert.equal(JSON.parse((await lines.next()).data).msg, 'lingering');
  await sessions.close('s1');
  await last;
  assert.equal(changes().size, before);
});

test('a restart keeps the data of open sessions and removes that of others', async (t) => {
  const { sessions, write, read, texts, restart, dataDir } = await setUp(t);
  await write('draft');
  mkdirSync(join(dataDir, 'apps/_drafts/gone/notes'), { recursive: true });
  await restart();
  assert.ok(!existsSync(join(dataDir, 'apps/_drafts/gone')), 'what no session has is removed');
  assert.deepEqual(texts(await read()), ['live', 'draft']);
  sessions.put('s1', 'notes', { 'migrations/0002_more.sql': 'CREATE TABLE more (id);' });
  await write('again');
  await restart();
  assert.deepEqual(texts(await read()), ['live', 'draft', 'again']);
});

test('a live app that is removed leaves its drafts alone', async (t) => {
  const { gateway, write, read, texts, page } = await setUp(t);
  await write('draft');
  assert.equal((await gateway.call('DELETE', '/svc/_apps/notes')).status, 200);
  assert.deepEqual(texts(await read()), ['live', 'draft']);
  assert.equal((await page()).status, 200);
});

test('svc_describe lists the apps that were taken into the session', async (t) => {
  const { tool, sessions } = await setUp(t);
  sessions.write('s1', 'other', appOf('other') as Record<string, string>);
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

test('ids of every bad kind are refused in the one shape', async (t) => {
  const { gateway, tool } = await setUp(t);
  for (const app of ['nope', 'No', 'a b', 'x'.repeat(64), '__proto__', 'notes%2f..', '\u{1F600}']) {
    const answer = await gateway.call('GET', `/svc/_draft/s1/${encodeURIComponent(app)}/`);
    assert.deepEqual(codeOf(answer), [404, 'UNKNOWN_APP'], app);
    assert.deepEqual(codeOf(await tool('svc_read', { app, query: 'list' })), [404, 'UNKNOWN_APP'], app);
  }
  for (const session of ['nope', '-s', 'a b', 'x'.repeat(65), '_drafts', '%00']) {
    const name = encodeURIComponent(session);
    assert.deepEqual(
      codeOf(await gateway.call('GET', `/svc/_draft/${name}/notes/`)),
      [404, 'UNKNOWN_SESSION'],
      session,
    );
    const read = await tool('svc_read', { app: 'notes', query: 'list' }, name);
    assert.deepEqual(codeOf(read), [404, 'UNKNOWN_SESSION'], session);
  }
  assert.deepEqual(codeOf(await gateway.call('GET', '/svc/_draft/%/notes/')), [400, 'BAD_REQUEST']);
  assert.deepEqual(codeOf(await gateway.call('GET', '/svc/_draft/s1/_logs')), [400, 'BAD_REQUEST']);
});

test('files are served under the rules of live ones', async (t) => {
  const { page, sessions } = await setUp(t);
  sessions.write('s1', 'notes', { 'a.css': 'p{}' });
  const file = await page('/a.css');
  assert.deepEqual([file.status, file.headers['cache-control']], [200, 'no-cache']);
  assert.equal((await page('/a.css', { 'if-none-match': file.headers.etag as string })).status, 304);
  assert.equal((await page('/a.css', { range: 'bytes=0-0' })).text, 'p');
  assert.deepEqual(codeOf(await page('/a.css', { range: 'bytes=9-' })), [416, 'RANGE_NOT_SATISFIABLE']);
  assert.deepEqual([(await page('')).status, (await page('')).headers.location], [308, '/svc/_draft/s1/notes/']);
  for (const hidden of ['/app.json', '/queries/list.js', '/migrations/0001_step.sql', '/_v/v1/a.css', '/nope.css'])
    assert.deepEqual(codeOf(await page(hidden)), [404, 'NOT_FOUND'], hidden);
  symlinkSync('/etc/passwd', join(sessions.path('s1', 'notes'), 'b.css'));
  assert.deepEqual(codeOf(await page('/b.css')), [400, 'ARCHIVE_ENTRY_TYPE']);
});

test('what editors leave beside a file for a moment is no part of the draft', async (t) => {
  const { page, sessions } = await setUp(t);
  sessions.write('s1', 'notes', { '.index.html.swp': 'x', 'index.html~': 'x', '.index.html.0f.tmp': 'x' });
  symlinkSync('me@host.1', join(sessions.path('s1', 'notes'), '.#index.html'));
  assert.equal((await page()).status, 200);
});

test('automations of a draft are checked, and never fire', async (t) => {
  const { gateway, sessions, page } = await setUp(t);
  const { 'automations/tick/automation.json': manifest = '', 'automations/tick/handler.js': handler = '' } = appOf(
    'notes',
    {
      automations: { tick: { run: '() => ({})', triggers: [{ kind: 'cron', expr: '* * * * * *', tz: 'UTC' }] } },
    },
  ) as Record<string, string>;
  sessions.write('s1', 'notes', { 'automations/tick/handler.js': handler, 'automations/tick/automation.json': '{}' });
  assert.deepEqual(codeOf(await page()), [400, 'INVALID_AUTOMATION']);
  sessions.write('s1', 'notes', { 'automations/tick/automation.json': manifest });
  assert.equal((await page()).status, 200);
  assert.deepEqual((await gateway.call('GET', '/svc/_automations')).json.rows, []);
});
