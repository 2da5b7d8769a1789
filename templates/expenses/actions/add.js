import { noCategory } from '../lib/expenses.js';
import { remember, strangerIn } from '../lib/people.js';

export default async function add({ body, db, ctx }) {
  const { day, cents, category, payer = ctx.user?.id ?? null } = body;
  const expense = { day, cents, category, note: body.note?.trim() ?? '', payer, createdAt: Date.now() };
  return db.transaction(async (tx) => {
    await remember(tx, ctx.user);
    const stranger = await strangerIn(tx, payer);
    if (stranger !== null) return stranger;
    if (!(await tx.get('SELECT 1 FROM categories WHERE id = ?', category))) return noCategory(category);
    const { lastInsertRowid } = await tx.run(
      `INSERT INTO expenses (day, cents, category, note, payer, created_at)
       VALUES (@day, @cents, @category, @note, @payer, @createdAt)`,
      expense,
    );
    return { status: 201, body: { id: lastInsertRowid, ...expense } };
  });
}
