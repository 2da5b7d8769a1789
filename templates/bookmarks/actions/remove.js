import { noSuchBookmark } from '../lib/bookmarks.js';

export default async function remove({ body, db }) {
  const [, { changes }] = await db.batch([
    ['DELETE FROM tags WHERE bookmark_id = ?', body.id],
    ['DELETE FROM bookmarks WHERE id = ?', body.id],
  ]);
  return changes === 0 ? noSuchBookmark(body.id) : { body: { removed: changes } };
}
