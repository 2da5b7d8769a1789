import { EXPENSE, noCategory, noExpense } from '../lib/expenses.js';
import { remember, strangerIn } from '../lib/people.js';

export default async function update({ body, db, ctx }) {
  const { id, day, cents, category, note, payer } = body;
  return db.transaction(async (tx) => {
    await remember(tx, ctx.user);
    const stranger = await strangerIn(tx, payer);
    if (stranger !== null) return stranger;
    if (category !== undefined && !(await tx.get('SELECT 1 FROM categories WHERE id = ?', category))) {
      return noCategory(category);
    }
    const { changes } = await tx.run(
      `UPDATE expenses
          SET day = coalesce(@day, day), cents = coalesce(@cents, cents),
              category = coalesce(@category, category), note = coalesce(@note, note),
              payer = CASE WHEN @given THEN @payer ELSE payer END
        WHERE id = @id`,
      { id, day, cents, category, note: note?.trim(), payer, given: payer !== undefined },
    );
    if (changes === 0) return noExpense(id);
    return { body: await tx.get(`SELECT ${EXPENSE} FROM expenses WHERE id = ?`, id) };
  });
}
