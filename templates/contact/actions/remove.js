import { noMessage } from '../lib/messages.js';

export default async function remove({ body, db }) {
  const { changes } = await db.run('DELETE FROM messages WHERE id = ?', body.id);
  return changes === 0 ? noMessage(body.id) : { body: { removed: changes } };
}
