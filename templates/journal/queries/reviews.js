import { REVIEW } from '../lib/entries.js';
import { ownerOf } from '../lib/owner.js';

export default async function reviews({ input, db, ctx }) {
  const { before = '9999-12-31', limit = 8 } = input;
  return db.all(`SELECT ${REVIEW} FROM weeks WHERE person = @person AND day < @before ORDER BY day DESC LIMIT @limit`, {
    person: ownerOf(ctx),
    before,
    limit,
  });
}
