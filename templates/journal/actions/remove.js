import { NO_OWNER, ownerOf } from '../lib/owner.js';

export default async function remove({ body, db, ctx }) {
  const person = ownerOf(ctx);
  if (person === null) return NO_OWNER;
  const { changes } = await db.run('DELETE FROM pages WHERE person = ? AND day = ?', person, body.day);
  if (changes === 0) return { status: 404, body: { message: `Nothing was written on ${body.day}.` } };
  return { body: { removed: changes } };
}
