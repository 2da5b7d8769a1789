import { COLUMNS, toBookmark } from '../lib/bookmarks.js';

/** The text anywhere, taken as it stands. */
const pattern = (text) => `%${text.trim().replace(/[\\%_]/g, '\\$&')}%`;

export default async function list({ input, db }) {
  const { text, tag, state = 'all', before = Number.MAX_SAFE_INTEGER, limit = 50 } = input;
  const rows = await db.all(
    `SELECT ${COLUMNS} FROM bookmarks
      WHERE id < @before
        AND (@tag IS NULL OR id IN (SELECT bookmark_id FROM tags WHERE tag = @tag))
        AND (@state = 'all' OR (@state = 'later' AND later = 1) OR (@state = 'dead' AND dead = 1))
        AND (@text IS NULL OR title LIKE @text ESCAPE '\\' OR url LIKE @text ESCAPE '\\' OR note LIKE @text ESCAPE '\\'
             OR EXISTS (SELECT 1 FROM tags WHERE bookmark_id = bookmarks.id AND tag LIKE @text ESCAPE '\\'))
      ORDER BY id DESC LIMIT @limit`,
    { text: text && pattern(text), tag: tag?.toLowerCase(), state, before, limit },
  );
  return rows.map(toBookmark);
}
