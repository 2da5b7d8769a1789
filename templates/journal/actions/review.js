import { REVIEW } from '../lib/entries.js';
import { NO_OWNER, ownerOf } from '../lib/owner.js';

/** Counts for whoever has pages, without a look at a text. A memory is a page of an earlier year, on a day of the week. */
const COUNT = `
  WITH week (day) AS (
    SELECT date(@day, -value || ' days') FROM json_each('[0, 1, 2, 3, 4, 5, 6]')
  ), owners (person) AS (
    SELECT @person UNION SELECT person FROM pages WHERE @person = ''
  )
  INSERT INTO weeks (person, day, days, words, memories, made_at)
  SELECT owners.person, @day,
         (SELECT count(*) FROM pages WHERE pages.person = owners.person AND day IN (SELECT day FROM week)),
         (SELECT coalesce(sum(words), 0) FROM pages
           WHERE pages.person = owners.person AND day IN (SELECT day FROM week)),
         (SELECT count(*) FROM pages JOIN week ON substr(pages.day, 6) = substr(week.day, 6) AND pages.day < week.day
           WHERE pages.person = owners.person),
         @madeAt
    FROM owners
   WHERE true
      ON CONFLICT (person, day) DO UPDATE
     SET days = excluded.days, words = excluded.words, memories = excluded.memories, made_at = excluded.made_at`;

export default async function review({ body, db, ctx }) {
  const person = ownerOf(ctx);
  if (person === null) return NO_OWNER;
  return db.transaction(async (tx) => {
    await tx.run(COUNT, { person, day: body.day, madeAt: body.madeAt });
    return { body: await tx.get(`SELECT ${REVIEW} FROM weeks WHERE person = ? AND day = ?`, person, body.day) };
  });
}
