const WHICH = { unread: 'items.read_at IS NULL', starred: 'items.starred = 1', all: '1' };

export default async function items({ input, db }) {
  const { show = 'unread', feed, before, limit = 50 } = input;
  const rows = await db.all(
    `SELECT items.id, feed, feeds.title AS feedTitle, items.url, items.title, summary,
            published_at AS publishedAt, read_at AS readAt, starred
       FROM items JOIN feeds ON feeds.id = feed
      WHERE ${WHICH[show]}
        ${feed === undefined ? '' : 'AND feed = @feed'}
        AND (@at IS NULL OR (published_at, items.id) < (@at, @id))
      ORDER BY published_at DESC, items.id DESC
      LIMIT @limit + 1`,
    { ...(feed === undefined ? {} : { feed }), at: before?.publishedAt, id: before?.id, limit },
  );
  const page = rows.slice(0, limit).map((row) => ({ ...row, starred: row.starred === 1 }));
  const last = page.at(-1);
  return { items: page, next: rows.length > limit ? { publishedAt: last.publishedAt, id: last.id } : null };
}
