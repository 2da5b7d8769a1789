import { noCategory } from '../lib/expenses.js';

export default async function removeCategory({ body, db }) {
  return db.transaction(async (tx) => {
    const { count } = await tx.get('SELECT count(*) AS count FROM expenses WHERE category = ?', body.id);
    if (count > 0) {
      const [are, them] = count === 1 ? ['expense is', 'it'] : ['expenses are', 'them'];
      const message = `${count} ${are} in this category. Give ${them} another one first.`;
      return { status: 409, body: { code: 'CATEGORY_IN_USE', message } };
    }
    const { changes } = await tx.run('DELETE FROM categories WHERE id = ?', body.id);
    return changes === 0 ? noCategory(body.id) : { body: { removed: changes } };
  });
}
