import { COLUMNS } from '../lib/entries.js';

export default async function onThisDay({ input, db }) {
  const { day, limit = 10 } = input;
  return db.all(
    `SELECT ${COLUMNS} FROM entries
      WHERE substr(day, 6) = substr(@day, 6) AND day < @day ORDER BY day DESC LIMIT @limit`,
    { day, limit },
  );
}
