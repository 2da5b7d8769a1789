import { ownerOf } from '../lib/owner.js';

export default async function calendar({ input, db, ctx }) {
  return db.all('SELECT day, words FROM pages WHERE person = @person AND day BETWEEN @from AND @to ORDER BY day', {
    ...input,
    person: ownerOf(ctx),
  });
}
