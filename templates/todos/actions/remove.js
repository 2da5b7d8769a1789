export default async function remove({ body, db }) {
  if (body.done) {
    const { changes } = await db.run('DELETE FROM todos WHERE done_at IS NOT NULL');
    return { body: { removed: changes } };
  }
  const { changes } = await db.run('DELETE FROM todos WHERE id = ?', body.id);
  if (changes === 0) return { status: 404, body: { message: `There is no todo ${body.id}.` } };
  return { body: { removed: changes } };
}
