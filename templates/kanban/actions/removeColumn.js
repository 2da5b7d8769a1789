import { unknown } from '../lib/answers.js';

export default async function removeColumn({ body, db }) {
  const [, { changes }] = await db.batch([
    ['DELETE FROM cards WHERE column_id = ?', body.id],
    ['DELETE FROM columns WHERE id = ?', body.id],
  ]);
  return changes === 0 ? unknown('column', body.id) : { body: { removed: changes } };
}
