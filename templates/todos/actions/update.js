import { TODO } from '../lib/todos.js';

export default async function update({ body, db, ctx }) {
  const { id, done } = body;
  // What is done stays done by whom it was, and what is open is done by nobody.
  const { changes } = await db.run(
    `UPDATE todos
        SET title = coalesce(@title, title),
            done_at = CASE @done WHEN 1 THEN coalesce(done_at, @now) WHEN 0 THEN NULL ELSE done_at END,
            done_by = CASE @done WHEN 1 THEN iif(done_at IS NULL, @person, done_by) WHEN 0 THEN NULL ELSE done_by END,
            done_name = CASE @done WHEN 1 THEN iif(done_at IS NULL, @name, done_name) WHEN 0 THEN NULL ELSE done_name END
      WHERE id = @id`,
    {
      ...{ id, title: body.title?.trim(), done, now: Date.now() },
      ...{ person: ctx.user?.id ?? null, name: ctx.user?.name ?? null },
    },
  );
  if (changes === 0) return { status: 404, body: { message: `There is no todo ${id}.` } };
  return { body: await db.get(`SELECT ${TODO} FROM todos WHERE id = ?`, id) };
}
