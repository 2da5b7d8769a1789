import { FEED, noFeed } from '../lib/store.js';

export default async function rename({ body, db }) {
  const { changes } = await db.run('UPDATE feeds SET title = ? WHERE id = ?', body.title.trim(), body.id);
  return changes === 0 ? noFeed(body.id) : { body: await db.get(`SELECT ${FEED} FROM feeds WHERE id = ?`, body.id) };
}
