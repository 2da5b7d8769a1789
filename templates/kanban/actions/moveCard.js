import { CARD, full, unknown } from '../lib/answers.js';
import { remember } from '../lib/people.js';
import { positionFor } from '../lib/positions.js';

const MOST = 500;

export default async function moveCard({ body, db, ctx }) {
  const { id, column, before } = body;
  return db.transaction(async (tx) => {
    await remember(tx, ctx.user);
    const card = await tx.get(`SELECT ${CARD} FROM cards WHERE id = ?`, id);
    if (card === null) return unknown('card', id);
    if (!(await tx.get('SELECT 1 FROM columns WHERE id = ?', column))) return unknown('column', column);
    const { count } = await tx.get('SELECT count(*) AS count FROM cards WHERE column_id = ? AND id <> ?', column, id);
    if (count >= MOST) return full(`A column holds at most ${MOST} cards. Remove some that are done.`);
    const position = await positionFor(tx, 'cards', column, before, id);
    await tx.run('UPDATE cards SET column_id = ?, position = ? WHERE id = ?', column, position, id);
    return { body: { ...card, column } };
  });
}
