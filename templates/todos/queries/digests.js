export default async function digests({ input, db }) {
  const { limit = 7 } = input;
  return db.all('SELECT day, open, done, oldest, made_at AS madeAt FROM digests ORDER BY day DESC LIMIT @limit', {
    limit,
  });
}
