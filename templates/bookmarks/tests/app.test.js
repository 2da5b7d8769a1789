import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

test('an address is kept once, with its tags', async (t) => {
  const app = await harness(t);
  const { id } = await app.action('add', { url: 'https://www.example.org', tags: [' News', 'news', 'daily'] });
  const [bookmark] = await app.query('list', { tag: 'news' });
  assert.deepEqual([bookmark.id, bookmark.host, bookmark.tags], [id, 'example.org', ['daily', 'news']]);
  await assert.rejects(app.action('add', { url: 'https://www.example.org/' }), { code: 'KNOWN', status: 409 });
});

test('pasted text is imported line by line', async (t) => {
  const app = await harness(t);
  const text = '[One](https://one.example/)\nTwo: https://two.example/\nno address';
  assert.deepEqual(await app.action('import', { text, tags: ['read'] }), { added: 2, known: 0, skipped: 1 });
  assert.equal((await app.action('import', { text })).known, 2);
  const bookmarks = await app.query('list', { tag: 'read' });
  assert.deepEqual(
    bookmarks.map(({ title }) => title),
    ['One', 'Two'],
  );
});

test('the title comes from the page, or stays empty when it does not answer', async (t) => {
  const app = await harness(t);
  const { id } = await app.action('add', { url: 'https://example.org/' });
  app.onFetch(() => {
    throw new Error('It is down.');
  });
  assert.equal((await app.action('fetchTitle', { id })).title, '');
  app.onFetch(() => new Response('<title>Tea &amp;\n cake</title>'));
  assert.equal((await app.action('fetchTitle', { id })).title, 'Tea & cake');
});

test('dead links are found', async (t) => {
  const app = await harness(t);
  await app.action('add', { url: 'https://here.example/' });
  await app.action('add', { url: 'https://gone.example/' });
  app.onFetch(({ url }) => new Response(null, { status: url.includes('gone') ? 404 : 200 }));
  assert.deepEqual((await app.run('dead-links')).output, { checked: 2, dead: 1 });
  const [gone] = await app.query('list', { state: 'dead' });
  assert.deepEqual([gone.host, gone.status], ['gone.example', 404]);
});
