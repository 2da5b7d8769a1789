export default async function markAllRead({ body, db }) {
  const { feed, upTo } = body;
  const { changes } = await db.run(
    'UPDATE items SET read_at = @now WHERE read_at IS NULL AND id <= @upTo AND (@feed IS NULL OR feed = @feed)',
    { now: Date.now(), feed, upTo: upTo ?? Number.MAX_SAFE_INTEGER },
  );
  return { body: { marked: changes } };
}
