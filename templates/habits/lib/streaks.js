/**
 * Streaks count days for a habit of every day, and weeks in which the goal was reached for any other. A Julian day number
 * is 0 modulo 7 on Mondays, so its seventh numbers the weeks. Numbers that follow one another, less their row's number,
 * are the same: that is a streak.
 */
const STREAKS = `
  WITH units AS (
    SELECT habits.id AS id,
           CAST(julianday(day) + 0.5 AS INTEGER) / (CASE goal WHEN 7 THEN 1 ELSE 7 END) AS unit
      FROM checks JOIN habits ON habits.id = checks.habit_id
     WHERE day <= @today AND (habits.archived_at IS NOT NULL) = @archived
     GROUP BY habits.id, unit
    HAVING count(*) >= CASE goal WHEN 7 THEN 1 ELSE goal END
  ), runs AS (
    SELECT id, unit, unit - row_number() OVER (PARTITION BY id ORDER BY unit) AS run FROM units
  )
  SELECT id, count(*) AS length, max(unit) AS last FROM runs GROUP BY id, run`;

const dayNumber = (day) => Math.floor(Date.parse(day) / 86_400_000) + 2_440_588;

/** By habit: the longest streak, and the one that goes on: it reaches the present day or week, or the one before. */
export async function streaksOf(db, { habits, today, archived }) {
  const streaks = new Map(habits.map(({ id }) => [id, { streak: 0, best: 0 }]));
  const now = new Map(habits.map(({ id, goal }) => [id, Math.floor(dayNumber(today) / (goal === 7 ? 1 : 7))]));
  for (const { id, length, last } of await db.all(STREAKS, { today, archived })) {
    const entry = streaks.get(id);
    if (!entry) continue;
    entry.best = Math.max(entry.best, length);
    if (last >= now.get(id) - 1) entry.streak = length;
  }
  return streaks;
}
