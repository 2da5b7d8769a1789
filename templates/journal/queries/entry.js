import { COLUMNS, emptyEntry } from '../lib/entries.js';

export default async function entry({ input, db }) {
  return (await db.get(`SELECT ${COLUMNS} FROM entries WHERE day = ?`, input.day)) ?? emptyEntry(input.day);
}
