export default async function unchecked({ input, db }) {
  const { since, limit = 50 } = input;
  return db.all(
    `SELECT id, url FROM bookmarks WHERE checked_at IS NULL OR checked_at < @since
      ORDER BY checked_at, id LIMIT @limit`,
    { since, limit },
  );
}
