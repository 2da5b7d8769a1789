import { MESSAGE, noMessage } from '../lib/messages.js';

export default async function mark({ body, db }) {
  const { id, read, archived } = body;
  const { changes } = await db.run(
    `UPDATE messages
        SET read_at = CASE @read WHEN 1 THEN coalesce(read_at, @now) WHEN 0 THEN NULL ELSE read_at END,
            archived_at = CASE @archived WHEN 1 THEN coalesce(archived_at, @now) WHEN 0 THEN NULL ELSE archived_at END
      WHERE id = @id`,
    { id, read, archived, now: Date.now() },
  );
  return changes === 0 ? noMessage(id) : { body: await db.get(`SELECT ${MESSAGE} FROM messages WHERE id = ?`, id) };
}
