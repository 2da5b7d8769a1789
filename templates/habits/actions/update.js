import { COLUMNS, noSuchHabit } from '../lib/habits.js';

export default async function update({ body, db }) {
  const { id, name, goal, color, archived } = body;
  const { changes } = await db.run(
    `UPDATE habits
        SET name = coalesce(@name, name), goal = coalesce(@goal, goal), color = coalesce(@color, color),
            archived_at = CASE @archived WHEN 1 THEN coalesce(archived_at, @now) WHEN 0 THEN NULL ELSE archived_at END
      WHERE id = @id`,
    { id, name: name?.trim(), goal, color, archived, now: Date.now() },
  );
  if (changes === 0) return noSuchHabit(id);
  return { body: await db.get(`SELECT ${COLUMNS} FROM habits WHERE id = ?`, id) };
}
