import { noSuchHabit } from '../lib/habits.js';

export default async function remove({ body, db }) {
  const { id } = body;
  const [checks, habits] = await db.batch([
    ['DELETE FROM checks WHERE habit_id = ?', id],
    ['DELETE FROM habits WHERE id = ?', id],
  ]);
  if (habits.changes === 0) return noSuchHabit(id);
  return { body: { removed: habits.changes, checks: checks.changes } };
}
