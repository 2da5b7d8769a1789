export default async function put({ body, db }) {
  const note = { ...body, updatedAt: Date.now() };
  await db.run(
    `INSERT INTO notes (id, title, body, updated_at) VALUES (@id, @title, @body, @updatedAt)
     ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body, updated_at = excluded.updated_at`,
    note,
  );
  return { body: { id: note.id, updatedAt: note.updatedAt } };
}
