import { COLUMNS } from '../lib/entries.js';
import { ownerOf } from '../lib/owner.js';

export default async function onThisDay({ input, db, ctx }) {
  const { day, limit = 10 } = input;
  return db.all(
    `SELECT ${COLUMNS} FROM pages
      WHERE person = @person AND substr(day, 6) = substr(@day, 6) AND day < @day ORDER BY day DESC LIMIT @limit`,
    { person: ownerOf(ctx), day, limit },
  );
}
