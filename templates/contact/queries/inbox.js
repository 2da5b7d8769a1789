import { MESSAGE } from '../lib/messages.js';

const WHICH = { open: 'archived_at IS NULL', archived: 'archived_at IS NOT NULL', all: '1' };

export default async function inbox({ input, db }) {
  const { show = 'open', search, before, limit = 50 } = input;
  const rows = await db.all(
    `SELECT ${MESSAGE}
       FROM messages
      WHERE ${WHICH[show]}
        AND (@search IS NULL OR instr(lower(name || char(10) || email || char(10) || message), lower(@search)) > 0)
        AND (@before IS NULL OR id < @before)
      ORDER BY id DESC
      LIMIT @limit + 1`,
    { search, before, limit },
  );
  const messages = rows.slice(0, limit);
  return { messages, next: rows.length > limit ? messages.at(-1).id : null };
}
