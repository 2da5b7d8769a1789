import { ownerOf } from '../lib/owner.js';

export default async function list({ input, db, ctx }) {
  const { before = '9999-12-31', limit = 30 } = input;
  return db.all(
    `SELECT day, substr(text, 1, 160) AS beginning, words
       FROM pages WHERE person = @person AND day < @before ORDER BY day DESC LIMIT @limit`,
    { person: ownerOf(ctx), before, limit },
  );
}
