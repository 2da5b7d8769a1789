const PUT = `INSERT INTO notes (id, title, body, updated_at) VALUES (?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body, updated_at = excluded.updated_at`;

export default async function putBatch({ body, db }) {
  const updatedAt = Date.now();
  await db.batch(body.notes.map(({ id, title, body: text }) => [PUT, id, title, text, updatedAt]));
  return { body: { count: body.notes.length, updatedAt } };
}
