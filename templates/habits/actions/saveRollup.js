export default async function saveRollup({ body, db }) {
  await db.run(
    `INSERT INTO rollups (day, habits, done, longest, made_at) VALUES (@day, @habits, @done, @longest, @madeAt)
     ON CONFLICT (day) DO UPDATE
       SET habits = excluded.habits, done = excluded.done, longest = excluded.longest, made_at = excluded.made_at`,
    body,
  );
  return { body };
}
