import { noExpense } from '../lib/expenses.js';

export default async function remove({ body, db }) {
  const { changes } = await db.run('DELETE FROM expenses WHERE id = ?', body.id);
  return changes === 0 ? noExpense(body.id) : { body: { removed: changes } };
}
