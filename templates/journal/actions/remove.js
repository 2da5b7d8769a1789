export default async function remove({ body, db }) {
  const { changes } = await db.run('DELETE FROM entries WHERE day = ?', body.day);
  if (changes === 0) return { status: 404, body: { message: `Nothing was written on ${body.day}.` } };
  return { body: { removed: changes } };
}
