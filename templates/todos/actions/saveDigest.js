export default async function saveDigest({ body, db }) {
  const { day, open, done, oldest = null, madeAt } = body;
  await db.run(
    `INSERT INTO digests (day, open, done, oldest, made_at) VALUES (@day, @open, @done, @oldest, @madeAt)
     ON CONFLICT (day) DO UPDATE
       SET open = excluded.open, done = excluded.done, oldest = excluded.oldest, made_at = excluded.made_at`,
    { day, open, done, oldest, madeAt },
  );
  return { body: { day, open, done, oldest, madeAt } };
}
