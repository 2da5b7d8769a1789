import { noSuchHabit } from '../lib/habits.js';

export default async function check({ body, db }) {
  const { id, day, done } = body;
  if ((await db.get('SELECT 1 FROM habits WHERE id = ?', id)) === null) return noSuchHabit(id);
  await db.run(
    done
      ? 'INSERT INTO checks (habit_id, day) SELECT id, @day FROM habits WHERE id = @id ON CONFLICT DO NOTHING'
      : 'DELETE FROM checks WHERE habit_id = @id AND day = @day',
    { id, day },
  );
  return { body: { id, day, done } };
}
