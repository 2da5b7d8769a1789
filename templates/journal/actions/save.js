import { COLUMNS, countWords, emptyEntry } from '../lib/entries.js';
import { NO_OWNER, ownerOf } from '../lib/owner.js';

export default async function save({ body, db, ctx }) {
  const { day, text, seen } = body;
  const person = ownerOf(ctx);
  if (person === null) return NO_OWNER;
  return db.transaction(async (tx) => {
    const stored = () => tx.get(`SELECT ${COLUMNS} FROM pages WHERE person = ? AND day = ?`, person, day);
    const entry = (await stored()) ?? emptyEntry(day);
    if (seen !== undefined && seen !== entry.updatedAt) {
      return { status: 409, body: { code: 'CHANGED', message: 'This day was changed elsewhere meanwhile.', entry } };
    }
    if (text.trim() === '') {
      await tx.run('DELETE FROM pages WHERE person = ? AND day = ?', person, day);
      return { body: emptyEntry(day) };
    }
    await tx.run(
      `INSERT INTO pages (person, day, text, words, created_at, updated_at)
       VALUES (@person, @day, @text, @words, @now, @now)
       ON CONFLICT (person, day) DO UPDATE
         SET text = excluded.text, words = excluded.words, updated_at = max(updated_at + 1, excluded.updated_at)`,
      { person, day, text, words: countWords(text), now: Date.now() },
    );
    return { body: await stored() };
  });
}
