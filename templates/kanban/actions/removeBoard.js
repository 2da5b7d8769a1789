import { unknown } from '../lib/answers.js';

export default async function removeBoard({ body, db }) {
  const results = await db.batch([
    ['DELETE FROM cards WHERE column_id IN (SELECT id FROM columns WHERE board = ?)', body.id],
    ['DELETE FROM columns WHERE board = ?', body.id],
    ['DELETE FROM boards WHERE id = ?', body.id],
  ]);
  return results[2].changes === 0 ? unknown('board', body.id) : { body: { removed: 1 } };
}
