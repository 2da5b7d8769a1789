export default async function counts({ db }) {
  return db.get(
    `SELECT (SELECT count(*) FROM messages WHERE archived_at IS NULL AND read_at IS NULL) AS unread,
            (SELECT count(*) FROM messages WHERE archived_at IS NULL) AS open,
            (SELECT count(*) FROM messages WHERE archived_at IS NOT NULL) AS archived,
            (SELECT count(*) FROM refused) AS refused`,
  );
}
