import { manages, NOT_YOURS, unknownPoll } from '../lib/people.js';

export default async function remove({ body, db, ctx }) {
  return db.transaction(async (tx) => {
    const poll = await tx.get('SELECT maker FROM polls WHERE id = ?', body.id);
    if (poll === null) return unknownPoll(body.id);
    if (!manages(ctx, poll.maker)) return NOT_YOURS;
    await tx.batch([
      ['DELETE FROM votes WHERE poll = ?', body.id],
      ['DELETE FROM options WHERE poll = ?', body.id],
      ['DELETE FROM polls WHERE id = ?', body.id],
    ]);
    return { body: { removed: 1 } };
  });
}
