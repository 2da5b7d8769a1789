import { readPolls } from '../lib/polls.js';

export default async function poll({ input, db, ctx }) {
  const [found] = await readPolls(db, ctx, 'id = @id', { id: input.id });
  return found ?? null;
}
