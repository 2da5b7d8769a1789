import { makes, PAST, SAME_OPTION, SIGN_IN_TO_MAKE } from '../lib/people.js';
import { answer } from '../lib/polls.js';

export default async function add({ body, db, ctx }) {
  const { several = false, named = false, closesAt = null } = body;
  if (!makes(ctx)) return SIGN_IN_TO_MAKE;
  const now = Date.now();
  if (closesAt !== null && closesAt <= now) return PAST;
  const options = body.options.map((option) => option.trim());
  if (new Set(options.map((option) => option.toLowerCase())).size < options.length) return SAME_OPTION;
  return db.transaction(async (tx) => {
    const { lastInsertRowid: id } = await tx.run(
      `INSERT INTO polls (question, several, named, closes_at, maker, maker_name, created_at)
       VALUES (@question, @several, @named, @closesAt, @maker, @madeBy, @now)`,
      {
        ...{ question: body.question.trim(), several: Number(several), named: Number(named), closesAt, now },
        ...{ maker: ctx.user?.id ?? null, madeBy: ctx.user?.name ?? null },
      },
    );
    await tx.batch(options.map((option) => ['INSERT INTO options (poll, text) VALUES (?, ?)', id, option]));
    return answer(tx, ctx, id, 201);
  });
}
