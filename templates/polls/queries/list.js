import { readPolls } from '../lib/polls.js';

export default async function list({ input, db, ctx }) {
  const { before = null, limit = 20 } = input;
  const wanted = 'SELECT id FROM polls WHERE @before IS NULL OR id < @before ORDER BY id DESC LIMIT @limit';
  return readPolls(db, ctx, `id IN (${wanted})`, { before, limit });
}
