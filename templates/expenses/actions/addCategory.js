import { withUniqueName } from '../lib/expenses.js';

export default async function addCategory({ body, db }) {
  const category = { name: body.name.trim(), budget: body.budget ?? null };
  return withUniqueName(category.name, async () => {
    const { lastInsertRowid } = await db.run('INSERT INTO categories (name, budget) VALUES (@name, @budget)', category);
    return { status: 201, body: { id: lastInsertRowid, ...category } };
  });
}
