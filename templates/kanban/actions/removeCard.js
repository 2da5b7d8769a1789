import { unknown } from '../lib/answers.js';

export default async function removeCard({ body, db }) {
  const { changes } = await db.run('DELETE FROM cards WHERE id = ?', body.id);
  return changes === 0 ? unknown('card', body.id) : { body: { removed: changes } };
}
