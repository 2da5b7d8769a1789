/** Stores what was fetched of a feed. */

/** Of each feed this many stay; further ones go, the oldest first, but none that is starred. */
const KEEP = 1000;

export const FEED = 'id, url, title, site, added_at AS addedAt, checked_at AS checkedAt, problem';

export const noFeed = (id) => ({
  status: 404,
  body: { code: 'UNKNOWN_FEED', message: `There is no feed ${id}; it may have been removed.` },
});

/**
 * Notes when the feed was checked and what came of it, and adds the items that it did not have. Known items are
 * left as they are, so what was read stays read. Resolves to how many were new; null when there is no such feed.
 * `fetched` is `{ problem }`, `{ unchanged: true }`, or has `items` and perhaps `title`, `site`, `etag` and `modified`.
 */
export async function storeFetched(tx, id, fetched, now) {
  const feed = await tx.get('SELECT title FROM feeds WHERE id = ?', id);
  if (feed === null) return null;
  const { problem = null, items } = fetched;
  if (items === undefined) {
    await tx.run('UPDATE feeds SET checked_at = ?, problem = ? WHERE id = ?', now, problem, id);
    return 0;
  }
  const { site = null, etag = null, modified = null } = fetched;
  await tx.run(
    'UPDATE feeds SET checked_at = @now, problem = NULL, site = @site, etag = @etag, modified = @modified WHERE id = @id',
    { id, now, site, etag, modified },
  );
  // The last first: where there are no dates, the order of the feed is that of the ids.
  const results = await tx.batch(
    items.toReversed().map(({ guid, url, title, summary, publishedAt }) => [
      `INSERT INTO items (feed, guid, url, title, summary, published_at) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (feed, guid) DO NOTHING`,
      [id, guid, url, title, summary, Math.min(publishedAt ?? now, now)],
    ]),
  );
  await tx.run(
    `DELETE FROM items WHERE feed = @id AND starred = 0 AND id IN
       (SELECT id FROM items WHERE feed = @id ORDER BY published_at DESC, id DESC LIMIT -1 OFFSET @keep)`,
    { id, keep: KEEP },
  );
  return results.reduce((sum, { changes }) => sum + changes, 0);
}
