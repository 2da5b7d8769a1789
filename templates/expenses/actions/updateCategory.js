import { noCategory, withUniqueName } from '../lib/expenses.js';

export default async function updateCategory({ body, db }) {
  const { id, name, budget } = body;
  return withUniqueName(name, async () => {
    const { changes } = await db.run(
      `UPDATE categories
          SET name = coalesce(@name, name), budget = CASE WHEN @given THEN @budget ELSE budget END
        WHERE id = @id`,
      { id, name: name?.trim(), budget, given: budget !== undefined },
    );
    if (changes === 0) return noCategory(id);
    return { body: await db.get('SELECT id, name, budget FROM categories WHERE id = ?', id) };
  });
}
