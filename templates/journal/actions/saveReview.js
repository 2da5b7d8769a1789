export default async function saveReview({ body, db }) {
  await db.run(
    `INSERT INTO reviews (day, days, words, memories, made_at) VALUES (@day, @days, @words, @memories, @madeAt)
     ON CONFLICT (day) DO UPDATE
       SET days = excluded.days, words = excluded.words, memories = excluded.memories, made_at = excluded.made_at`,
    body,
  );
  return { body };
}
