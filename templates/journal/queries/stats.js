/** Days that follow one another all have the same difference to their row's number. */
const STREAK = `
  SELECT count(*) AS streak FROM (
    SELECT day, julianday(day) + row_number() OVER (ORDER BY day DESC) AS run FROM entries WHERE day <= @today
  )
  WHERE run = (SELECT julianday(max(day)) + 1 FROM entries WHERE day <= @today AND day >= date(@today, '-1 day'))`;

export default async function stats({ input, db }) {
  const [totals, { streak }] = await Promise.all([
    db.get('SELECT count(*) AS days, coalesce(sum(words), 0) AS words FROM entries'),
    db.get(STREAK, { today: input.today }),
  ]);
  return { ...totals, streak };
}
