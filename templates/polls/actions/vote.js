import { CLOSED, ONE_CHOICE, SIGN_IN_TO_VOTE, UNKNOWN_OPTION, unknownPoll } from '../lib/people.js';
import { answer, isOpen } from '../lib/polls.js';

/** What the person chose takes the place of what they chose before, so that nobody votes twice. */
export default async function vote({ body, db, ctx }) {
  const { poll: id } = body;
  if (ctx.user === null) return SIGN_IN_TO_VOTE;
  const { id: person, name } = ctx.user;
  const chosen = [...new Set(body.options)];
  return db.transaction(async (tx) => {
    const poll = await tx.get(
      'SELECT several, named, closes_at AS closesAt, closed_at AS closedAt FROM polls WHERE id = ?',
      id,
    );
    if (poll === null) return unknownPoll(id);
    if (!isOpen(poll, Date.now())) return CLOSED;
    if (chosen.length > 1 && poll.several === 0) return ONE_CHOICE;
    const options = await tx.all('SELECT id FROM options WHERE poll = ?', id);
    if (chosen.some((option) => !options.some((one) => one.id === option))) return UNKNOWN_OPTION;
    await tx.run('DELETE FROM votes WHERE poll = ? AND person = ?', id, person);
    for (const option of chosen) {
      await tx.run('INSERT INTO votes (poll, person, option, name) VALUES (?, ?, ?, ?)', [
        id,
        person,
        option,
        poll.named === 1 ? name : null,
      ]);
    }
    return answer(tx, ctx, id);
  });
}
