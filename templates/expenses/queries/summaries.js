export default async function summaries({ input, db }) {
  const { limit = 12 } = input;
  return db.all('SELECT month, total, count, text, made_at AS madeAt FROM summaries ORDER BY month DESC LIMIT @limit', {
    limit,
  });
}
