import { manages, NOT_YOURS, unknownPoll } from '../lib/people.js';
import { answer } from '../lib/polls.js';

export default async function close({ body, db, ctx }) {
  return db.transaction(async (tx) => {
    const poll = await tx.get('SELECT maker FROM polls WHERE id = ?', body.id);
    if (poll === null) return unknownPoll(body.id);
    if (!manages(ctx, poll.maker)) return NOT_YOURS;
    await tx.run('UPDATE polls SET closed_at = coalesce(closed_at, ?) WHERE id = ?', Date.now(), body.id);
    return answer(tx, ctx, body.id);
  });
}
