import { tagNames } from '../lib/bookmarks.js';
import { readLinks } from '../lib/import.js';

const MOST = 2000;

export default async function importLinks({ body, db }) {
  const { text, tags = [], later = false } = body;
  const { links, skipped } = readLinks(text);
  if (links.length > MOST) {
    return { status: 422, body: { message: `These are ${links.length} addresses; at most ${MOST} go in at a time.` } };
  }
  return db.transaction(async (tx) => {
    const now = Date.now();
    // The first line of the text shall be the newest, as it stands above the others.
    const results = await tx.batch(
      links.reverse().map((link) => [
        `INSERT INTO bookmarks (url, host, title, later, created_at) VALUES (@url, @host, @title, @later, @now)
         ON CONFLICT (url) DO NOTHING`,
        { ...link, later, now },
      ]),
    );
    const added = results.filter(({ changes }) => changes === 1);
    const ids = JSON.stringify(added.map(({ lastInsertRowid }) => lastInsertRowid));
    for (const tag of tagNames(tags)) {
      await tx.run('INSERT INTO tags (bookmark_id, tag) SELECT value, ? FROM json_each(?)', tag, ids);
    }
    return { body: { added: added.length, known: links.length - added.length, skipped } };
  });
}
