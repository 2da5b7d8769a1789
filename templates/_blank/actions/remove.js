export default async function remove({ input, db }) {
  const { changes } = await db.run('DELETE FROM notes WHERE id = ?', input.id);
  if (changes === 0) return { status: 404, body: { message: `There is no note ${input.id}.` } };
  return { body: { id: input.id } };
}
