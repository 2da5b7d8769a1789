import { EXPENSE, noCategory, noExpense } from '../lib/expenses.js';

export default async function update({ body, db }) {
  const { id, day, cents, category, note } = body;
  return db.transaction(async (tx) => {
    if (category !== undefined && !(await tx.get('SELECT 1 FROM categories WHERE id = ?', category))) {
      return noCategory(category);
    }
    const { changes } = await tx.run(
      `UPDATE expenses
          SET day = coalesce(@day, day), cents = coalesce(@cents, cents),
              category = coalesce(@category, category), note = coalesce(@note, note)
        WHERE id = @id`,
      { id, day, cents, category, note: note?.trim() },
    );
    if (changes === 0) return noExpense(id);
    return { body: await tx.get(`SELECT ${EXPENSE} FROM expenses WHERE id = ?`, id) };
  });
}
