import { COLUMNS } from '../lib/habits.js';
import { streaksOf } from '../lib/streaks.js';

export default async function board({ input, db }) {
  const { from, to, today, archived = false } = input;
  const habits = await db.all(
    `SELECT ${COLUMNS} FROM habits WHERE (archived_at IS NOT NULL) = @archived ORDER BY id LIMIT 200`,
    { archived },
  );
  const [checks, streaks] = await Promise.all([
    db.all('SELECT habit_id AS id, day FROM checks WHERE day BETWEEN @from AND @to ORDER BY day', { from, to }),
    streaksOf(db, { habits, today, archived }),
  ]);
  return habits.map((habit) => ({
    ...habit,
    days: checks.filter(({ id }) => id === habit.id).map(({ day }) => day),
    ...streaks.get(habit.id),
  }));
}
