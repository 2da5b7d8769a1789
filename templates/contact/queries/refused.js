export default async function refused({ input, db }) {
  const { limit = 20 } = input;
  return db.all('SELECT id, reason, refused_at AS refusedAt FROM refused ORDER BY id DESC LIMIT @limit', { limit });
}
