import { COLUMNS, countWords, emptyEntry } from '../lib/entries.js';

export default async function save({ body, db }) {
  const { day, text, seen } = body;
  return db.transaction(async (tx) => {
    const entry = (await tx.get(`SELECT ${COLUMNS} FROM entries WHERE day = ?`, day)) ?? emptyEntry(day);
    if (seen !== undefined && seen !== entry.updatedAt) {
      return { status: 409, body: { code: 'CHANGED', message: 'This day was changed elsewhere meanwhile.', entry } };
    }
    if (text.trim() === '') {
      await tx.run('DELETE FROM entries WHERE day = ?', day);
      return { body: emptyEntry(day) };
    }
    await tx.run(
      `INSERT INTO entries (day, text, words, created_at, updated_at) VALUES (@day, @text, @words, @now, @now)
       ON CONFLICT (day) DO UPDATE
         SET text = excluded.text, words = excluded.words, updated_at = max(updated_at + 1, excluded.updated_at)`,
      { day, text, words: countWords(text), now: Date.now() },
    );
    return { body: await tx.get(`SELECT ${COLUMNS} FROM entries WHERE day = ?`, day) };
  });
}
