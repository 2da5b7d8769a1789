export default async function mark({ body, db }) {
  const { id, read, starred } = body;
  const { changes } = await db.run(
    `UPDATE items
        SET read_at = CASE @read WHEN 1 THEN coalesce(read_at, @now) WHEN 0 THEN NULL ELSE read_at END,
            starred = coalesce(@starred, starred)
      WHERE id = @id`,
    { id, read, starred, now: Date.now() },
  );
  if (changes > 0) return { body: { id } };
  return { status: 404, body: { code: 'UNKNOWN_ITEM', message: `There is no item ${id}; it may have been removed.` } };
}
