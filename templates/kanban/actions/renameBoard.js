import { unknown } from '../lib/answers.js';

export default async function renameBoard({ body, db }) {
  const board = { id: body.id, name: body.name.trim() };
  const { changes } = await db.run('UPDATE boards SET name = @name WHERE id = @id', board);
  return changes === 0 ? unknown('board', body.id) : { body: board };
}
