import { CARD, unknown } from '../lib/answers.js';
import { remember, strangerIn } from '../lib/people.js';

export default async function updateCard({ body, db, ctx }) {
  const { id, title, notes, color, assignee } = body;
  return db.transaction(async (tx) => {
    await remember(tx, ctx.user);
    const stranger = await strangerIn(tx, assignee);
    if (stranger !== null) return stranger;
    const { changes } = await tx.run(
      `UPDATE cards
          SET title = coalesce(@title, title), notes = coalesce(@notes, notes), color = coalesce(@color, color),
              assignee = CASE WHEN @given THEN @assignee ELSE assignee END
        WHERE id = @id`,
      { id, title: title?.trim(), notes, color, assignee, given: assignee !== undefined },
    );
    return changes === 0 ? unknown('card', id) : { body: await tx.get(`SELECT ${CARD} FROM cards WHERE id = ?`, id) };
  });
}
