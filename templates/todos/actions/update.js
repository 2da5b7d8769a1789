export default async function update({ body, db }) {
  const { id, done } = body;
  const { changes } = await db.run(
    `UPDATE todos
        SET title = coalesce(@title, title),
            done_at = CASE @done WHEN 1 THEN coalesce(done_at, @now) WHEN 0 THEN NULL ELSE done_at END
      WHERE id = @id`,
    { id, title: body.title?.trim(), done, now: Date.now() },
  );
  if (changes === 0) return { status: 404, body: { message: `There is no todo ${id}.` } };
  return {
    body: await db.get('SELECT id, title, created_at AS createdAt, done_at AS doneAt FROM todos WHERE id = ?', id),
  };
}
