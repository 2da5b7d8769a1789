import { noFeed } from '../lib/store.js';

export default async function unsubscribe({ body, db }) {
  const [, { changes }] = await db.batch([
    ['DELETE FROM items WHERE feed = ?', body.id],
    ['DELETE FROM feeds WHERE id = ?', body.id],
  ]);
  return changes === 0 ? noFeed(body.id) : { body: { removed: changes } };
}
