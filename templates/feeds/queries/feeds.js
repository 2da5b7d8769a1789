import { FEED } from '../lib/store.js';

export default async function feeds({ db }) {
  return db.all(
    `SELECT ${FEED}, etag, modified,
            (SELECT count(*) FROM items WHERE feed = feeds.id AND read_at IS NULL) AS unread
       FROM feeds
      ORDER BY title COLLATE NOCASE, id`,
  );
}
