export default async function add({ body, db }) {
  const todo = { title: body.title.trim(), createdAt: Date.now() };
  const { lastInsertRowid } = await db.run('INSERT INTO todos (title, created_at) VALUES (@title, @createdAt)', todo);
  return { status: 201, body: { id: lastInsertRowid, ...todo, doneAt: null } };
}
