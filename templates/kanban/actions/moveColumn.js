import { COLUMN, unknown } from '../lib/answers.js';
import { positionFor } from '../lib/positions.js';

export default async function moveColumn({ body, db }) {
  const { id, before } = body;
  return db.transaction(async (tx) => {
    const column = await tx.get(`SELECT ${COLUMN} FROM columns WHERE id = ?`, id);
    if (column === null) return unknown('column', id);
    const position = await positionFor(tx, 'columns', column.board, before, id);
    await tx.run('UPDATE columns SET position = ? WHERE id = ?', position, id);
    return { body: column };
  });
}
