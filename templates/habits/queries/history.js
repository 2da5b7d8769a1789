export default async function history({ input, db }) {
  const { before = '9999-12-31', limit = 60 } = input;
  return db.all(
    `SELECT day, habits, done, longest, made_at AS madeAt
       FROM rollups WHERE day < @before ORDER BY day DESC LIMIT @limit`,
    { before, limit },
  );
}
