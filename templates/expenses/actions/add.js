import { noCategory } from '../lib/expenses.js';

export default async function add({ body, db }) {
  const { day, cents, category } = body;
  const expense = { day, cents, category, note: body.note?.trim() ?? '', createdAt: Date.now() };
  return db.transaction(async (tx) => {
    if (!(await tx.get('SELECT 1 FROM categories WHERE id = ?', category))) return noCategory(category);
    const { lastInsertRowid } = await tx.run(
      `INSERT INTO expenses (day, cents, category, note, created_at)
       VALUES (@day, @cents, @category, @note, @createdAt)`,
      expense,
    );
    return { status: 201, body: { id: lastInsertRowid, ...expense } };
  });
}
