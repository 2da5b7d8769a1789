export default async function list({ input, db }) {
  const { after = 0, limit = 50 } = input;
  return db.json(
    'SELECT id, title, body, updated_at AS updatedAt FROM notes WHERE id > ? ORDER BY id LIMIT ?',
    after,
    limit,
  );
}
