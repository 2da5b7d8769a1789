export default async function reviews({ input, db }) {
  const { before = '9999-12-31', limit = 8 } = input;
  return db.all(
    `SELECT day, days, words, memories, made_at AS madeAt
       FROM reviews WHERE day < @before ORDER BY day DESC LIMIT @limit`,
    { before, limit },
  );
}
