import { eachOf, FeedProblem, fetchFeed } from '../lib/fetch-feed.js';
import { noFeed, storeFetched } from '../lib/store.js';

/** The page's "Refresh now". What the automation of the same name does on schedule, an action can do as well. */
export default async function refresh({ body, db, ctx }) {
  const feeds = await db.all('SELECT id, url, etag, modified FROM feeds WHERE @id IS NULL OR id = @id', {
    id: body.id,
  });
  if (body.id !== undefined && feeds.length === 0) return noFeed(body.id);
  const outcome = { checked: feeds.length, added: 0, failed: 0 };
  const results = new Map();
  await eachOf(feeds, async (feed) => {
    const fetched = await fetchFeed(ctx.fetch, ctx.signal, feed).catch((error) => {
      if (!(error instanceof FeedProblem)) throw error;
      outcome.failed++;
      return { problem: error.message };
    });
    results.set(feed.id, fetched);
  });
  // One after the other: a call has one transaction at a time.
  for (const [id, fetched] of results) {
    outcome.added += (await db.transaction((tx) => storeFetched(tx, id, fetched, Date.now()))) ?? 0;
  }
  return { body: outcome };
}
