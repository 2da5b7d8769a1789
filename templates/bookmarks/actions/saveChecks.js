export default async function saveChecks({ body, db }) {
  const results = await db.batch(
    body.checks.map(({ id, url, status }) => [
      'UPDATE bookmarks SET status = ?, checked_at = ? WHERE id = ? AND url = ?',
      status,
      body.checkedAt,
      id,
      url,
    ]),
  );
  return { body: { saved: results.reduce((sum, { changes }) => sum + changes, 0) } };
}
