export default async function entries({ input, db }) {
  const { limit = 50, before } = input;
  return db.all(
    `SELECT id, name, message, signed_at AS signedAt
       FROM entries
      WHERE @before IS NULL OR id < @before
      ORDER BY id DESC
      LIMIT @limit`,
    { limit, before },
  );
}
