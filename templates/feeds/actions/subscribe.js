import { webAddress } from '../lib/feed.js';
import { FeedProblem, findFeed } from '../lib/fetch-feed.js';
import { FEED, storeFetched } from '../lib/store.js';

const known = (title) => ({
  status: 409,
  body: { code: 'ALREADY_SUBSCRIBED', message: `You follow “${title}” already.`, path: '/url' },
});
const wrong = (message) => ({ status: 422, body: { code: 'FEED_PROBLEM', message, path: '/url' } });

export default async function subscribe({ body, db, ctx }) {
  const text = body.url.trim();
  const given = webAddress(/^[a-z][a-z\d+.-]*:/i.test(text) && !/^[\w.-]+:\d/.test(text) ? text : `https://${text}`);
  if (given === null) return wrong('Give the address of a web page or of a feed.');
  let found;
  try {
    found = await findFeed(ctx.fetch, ctx.signal, given);
  } catch (error) {
    if (error instanceof FeedProblem) return wrong(error.message);
    throw error;
  }
  const now = Date.now();
  return db.transaction(async (tx) => {
    const there = await tx.get('SELECT title FROM feeds WHERE url = ?', found.url);
    if (there !== null) return known(there.title);
    const title = found.title || new URL(found.url).host;
    const { lastInsertRowid: id } = await tx.run(
      'INSERT INTO feeds (url, title, added_at) VALUES (?, ?, ?)',
      found.url,
      title,
      now,
    );
    const added = await storeFetched(tx, id, found, now);
    return { status: 201, body: { feed: await tx.get(`SELECT ${FEED} FROM feeds WHERE id = ?`, id), added } };
  });
}
