// Actions write. Pages that are open hear of the tables that app.json lists under "writes".
export default async function add({ input, db, log }) {
  const createdAt = Date.now();
  const { lastInsertRowid } = await db.run('INSERT INTO notes (text, created_at) VALUES (?, ?)', input.text, createdAt);
  log.info('a note was added', { id: lastInsertRowid });
  return { status: 201, body: { id: lastInsertRowid, text: input.text, createdAt } };
}
