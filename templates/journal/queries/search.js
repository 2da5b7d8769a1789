import { ownerOf } from '../lib/owner.js';

/** Characters that no text has, around what was found. */
const [OPEN, CLOSE] = ['\u0002', '\u0003'];

/** Every word must be there, at least its beginning. */
const toMatch = (text) => (text.match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => `"${word}"*`).join(' ');

/** The excerpt cut where a found word begins and ends: every other part is such a word. */
const toParts = (excerpt) =>
  excerpt
    .replaceAll(CLOSE, OPEN)
    .split(OPEN)
    .map((text, at) => ({ text, found: at % 2 === 1 }))
    .filter(({ text }) => text !== '');

export default async function search({ input, db, ctx }) {
  const { before = '9999-12-31', limit = 30 } = input;
  const match = toMatch(input.text);
  if (match === '') return [];
  const rows = await db.all(
    `SELECT day, snippet(page_words, 0, @open, @close, '…', 18) AS excerpt
       FROM page_words JOIN pages ON pages.id = page_words.rowid
      WHERE page_words MATCH @match AND person = @person AND day < @before
      ORDER BY day DESC LIMIT @limit`,
    { match, person: ownerOf(ctx), before, limit, open: OPEN, close: CLOSE },
  );
  return rows.map(({ day, excerpt }) => ({ day, excerpt: toParts(excerpt) }));
}
