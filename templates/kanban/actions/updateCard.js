import { CARD, unknown } from '../lib/answers.js';

export default async function updateCard({ body, db }) {
  const { id, title, notes, color } = body;
  const { changes } = await db.run(
    `UPDATE cards
        SET title = coalesce(@title, title), notes = coalesce(@notes, notes), color = coalesce(@color, color)
      WHERE id = @id`,
    { id, title: title?.trim(), notes, color },
  );
  return changes === 0 ? unknown('card', id) : { body: await db.get(`SELECT ${CARD} FROM cards WHERE id = ?`, id) };
}
