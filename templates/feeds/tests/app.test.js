import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

const PAGE = '<link rel="alternate" type="application/rss+xml" href="/feed.xml">';
const item = (title) => `<item><title>${title}</title><guid>${title}</guid></item>`;
const feed = (...titles) =>
  `<rss version="2.0"><channel><title>Tea</title>${titles.map(item).join('')}</channel></rss>`;

/** A site with a page, and the feed that it names. */
function serve(app, ...titles) {
  app.onFetch(({ url }) => new Response(url.endsWith('/feed.xml') ? feed(...titles) : PAGE));
}

const titlesOf = ({ items }) => items.map(({ title }) => title).sort();

test('a page leads to its feed, which is followed once', async (t) => {
  const app = await harness(t);
  serve(app, 'Green', 'Black');
  const subscribed = await app.action('subscribe', { url: 'tea.example' });
  assert.deepEqual([subscribed.feed.url, subscribed.added], ['https://tea.example/feed.xml', 2]);
  assert.deepEqual(titlesOf(await app.query('items')), ['Black', 'Green']);
  await assert.rejects(app.action('subscribe', { url: 'https://tea.example' }), { code: 'ALREADY_SUBSCRIBED' });
  app.onFetch(() => new Response('no feed'));
  await assert.rejects(app.action('subscribe', { url: 'https://cake.example' }), { code: 'FEED_PROBLEM', status: 422 });
});

test('an item is unread until it is marked, and a star keeps it in sight', async (t) => {
  const app = await harness(t);
  serve(app, 'Green', 'Black');
  await app.action('subscribe', { url: 'tea.example' });
  const [{ id }] = (await app.query('items')).items;
  await app.action('mark', { id, starred: true });
  assert.deepEqual(await app.action('markAllRead'), { marked: 2 });
  assert.deepEqual(titlesOf(await app.query('items')), []);
  assert.equal((await app.query('items', { show: 'starred' })).items.length, 1);
});

test('the newest items come first, as many as are asked for, and the next page goes on behind them', async (t) => {
  const app = await harness(t);
  serve(app, ...Array.from({ length: 5 }, (_, at) => `Tea ${at}`));
  const { feed: tea } = await app.action('subscribe', { url: 'tea.example' });
  const { items: all, next: none } = await app.query('items', { feed: tea.id });
  assert.deepEqual([all.length, none], [5, null]);
  const { items, next } = await app.query('items', { feed: tea.id, limit: 3 });
  assert.deepEqual(items, all.slice(0, 3));
  assert.deepEqual(await app.query('items', { before: next }), { items: all.slice(3), next: null });
});

test('every half hour new items come, and a feed that is away is noted', async (t) => {
  const app = await harness(t);
  serve(app, 'Green');
  await app.action('subscribe', { url: 'tea.example' });
  serve(app, 'Green', 'White');
  await app.clock.advance('30m');
  assert.deepEqual(titlesOf(await app.query('items')), ['Green', 'White']);
  app.onFetch(() => new Response(null, { status: 503 }));
  await app.clock.advance('30m');
  assert.equal((await app.runs('refresh'))[0].output.failed, 1);
});
