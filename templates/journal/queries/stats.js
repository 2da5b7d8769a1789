import { ownerOf } from '../lib/owner.js';

/** Days that follow one another all have the same difference to their row's number. */
const STREAK = `
  WITH mine AS (SELECT day FROM pages WHERE person = @person AND day <= @today)
  SELECT count(*) AS streak FROM (
    SELECT julianday(day) + row_number() OVER (ORDER BY day DESC) AS run FROM mine
  )
  WHERE run = (SELECT julianday(max(day)) + 1 FROM mine WHERE day >= date(@today, '-1 day'))`;

export default async function stats({ input, db, ctx }) {
  const person = ownerOf(ctx);
  const [totals, { streak }] = await Promise.all([
    db.get('SELECT count(*) AS days, coalesce(sum(words), 0) AS words FROM pages WHERE person = ?', person),
    db.get(STREAK, { today: input.today, person }),
  ]);
  return { ...totals, streak };
}
