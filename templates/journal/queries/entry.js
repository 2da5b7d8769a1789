import { COLUMNS, emptyEntry } from '../lib/entries.js';
import { ownerOf } from '../lib/owner.js';

export default async function entry({ input, db, ctx }) {
  const found = await db.get(`SELECT ${COLUMNS} FROM pages WHERE person = ? AND day = ?`, ownerOf(ctx), input.day);
  return found ?? emptyEntry(input.day);
}
