export default async function saveSummary({ body, db }) {
  const { month, total, count, text, madeAt } = body;
  const summary = { month, total, count, text, madeAt };
  await db.run(
    `INSERT INTO summaries (month, total, count, text, made_at) VALUES (@month, @total, @count, @text, @madeAt)
     ON CONFLICT (month) DO UPDATE
       SET total = excluded.total, count = excluded.count, text = excluded.text, made_at = excluded.made_at`,
    summary,
  );
  return { body: summary };
}
