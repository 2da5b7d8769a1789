export default async function add({ body, db }) {
  const { goal = 7, color = 'green' } = body;
  const habit = { name: body.name.trim(), goal, color, createdAt: Date.now() };
  const { lastInsertRowid } = await db.run(
    'INSERT INTO habits (name, goal, color, created_at) VALUES (@name, @goal, @color, @createdAt)',
    habit,
  );
  return { status: 201, body: { id: lastInsertRowid, ...habit, archivedAt: null } };
}
