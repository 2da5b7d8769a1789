const PUT = `INSERT INTO notes (id, title, body, updated_at) VALUES (?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body, updated_at = excluded.updated_at`;

export default async function putTransaction({ body, db }) {
  const updatedAt = Date.now();
  await db.transaction((tx) => {
    for (const { id, title, body: text } of body.notes) tx.run(PUT, id, title, text, updatedAt);
  });
  return { body: { count: body.notes.length, updatedAt } };
}
