export default async function list({ input, db }) {
  const { before = '9999-12-31', limit = 30 } = input;
  return db.all(
    `SELECT day, substr(text, 1, 160) AS beginning, words
       FROM entries WHERE day < @before ORDER BY day DESC LIMIT @limit`,
    { before, limit },
  );
}
