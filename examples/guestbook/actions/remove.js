export default async function remove({ body, db }) {
  const { changes } = await db.run('DELETE FROM entries WHERE id = ?', body.id);
  if (changes === 0) return { status: 404, body: { message: `There is no entry ${body.id}.` } };
  return { body: { id: body.id } };
}
