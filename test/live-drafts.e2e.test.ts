/** Live queries of a draft: they follow the draft's data and saved code, never those of the live app. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { type Stream, startGateway } from '../testing/gateway.ts';

const NOTES = appOf('notes', {
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);'],
  queries: { list: "({ db }) => db.all('SELECT text FROM notes ORDER BY id')" },
  actions: { add: "({ db, input }) => db.run('INSERT INTO notes (text) VALUES (?)', input.text)" },
});
const WORKSPACE = '/svc/_sessions/s1';
const code = (word: string) =>
  `export default async ({ db }) => (await db.all('SELECT text FROM notes ORDER BY id')).map(({ text }) => text + ' ${word}');\n`;

test('live queries of a draft follow its data and its code, those of the live app do not', async (t) => {
  const gateway = await startGateway(t, { store: 'git' });
  assert.equal((await gateway.upload('notes', NOTES)).status, 201);
  await gateway.write('notes', 'add', { text: 'both' });
  assert.equal((await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } })).status, 201);
  const put = async (path: string, body: string) => {
    const answer = await gateway.call('PUT', `${WORKSPACE}/apps/notes/files/${path}`, { body });
    assert.ok(answer.status < 300, answer.text);
  };
  const add = async (text: string) => {
    const body = { app: 'notes', action: 'add', input: { text } };
    const answer = await gateway.call('POST', '/svc/_draft/s1/_tool/svc_write', { body });
    assert.equal(answer.status, 200, answer.text);
  };
  const draft = await gateway.stream('/svc/_draft/s1/notes/_live?query=list');
  const page = await gateway.stream('/svc/_draft/s1/notes/_live?query=list&changes');
  const live = await gateway.stream('/svc/notes/_live?query=list');
  /** The next result, and nothing else before it. */
  const result = async (stream: Stream) => {
    const { event, data } = await stream.next();
    assert.equal(event, 'data', data);
    return JSON.parse(data).data;
  };
  /** The next result of a page's stream, which has other events too. */
  const resultOfPage = async () => {
    for (;;) {
      const { event, data } = await page.next();
      if (event === 'data') return JSON.parse(data).data;
    }
  };
  const both = { text: 'both' };
  for (const stream of [draft, live]) assert.deepEqual(await result(stream), [both]);
  assert.deepEqual(await resultOfPage(), [both]);

  await add('of the draft');
  assert.deepEqual(await result(draft), [both, { text: 'of the draft' }]);
  assert.deepEqual(await resultOfPage(), [both, { text: 'of the draft' }]);
  await gateway.write('notes', 'add', { text: 'of live' });
  assert.deepEqual(await result(live), [both, { text: 'of live' }]);

  await put('queries/list.js', code('saved'));
  assert.deepEqual(await result(draft), ['both saved', 'of the draft saved']);
  assert.deepEqual(await resultOfPage(), ['both saved', 'of the draft saved']);
  writeFileSync(join(gateway.dataDir, 'code-store/worktrees/sessions/s1/apps/notes/queries/list.js'), code('by hand'));
  assert.deepEqual(await result(draft), ['both by hand', 'of the draft by hand']);

  await put('app.json', '{');
  const failed = await draft.next();
  assert.deepEqual([failed.event, JSON.parse(failed.data).error.code], ['error', 'INVALID_MANIFEST']);
  await put('app.json', NOTES['app.json'] as string);
  assert.deepEqual(await result(draft), ['both by hand', 'of the draft by hand']);

  assert.equal((await gateway.call('POST', `${WORKSPACE}/apps/notes/reset-data`)).status, 200);
  assert.deepEqual(await result(draft), ['both by hand', 'of live by hand'], 'a copy of the live data');
  await gateway.write('notes', 'add', { text: 'last' });
  assert.deepEqual(await result(live), [both, { text: 'of live' }, { text: 'last' }], 'nothing of the draft came');

  assert.equal((await gateway.call('DELETE', WORKSPACE)).status, 200);
  await Promise.all([draft.ended(), page.ended()]);
  await assert.rejects(gateway.stream('/svc/_draft/s1/notes/_live?query=list'), /UNKNOWN_SESSION/);
  await gateway.write('notes', 'add', { text: 'after it' });
  assert.equal((await result(live)).length, 4);
  live.close();
});
