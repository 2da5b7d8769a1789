import { daysOf, EXPENSE } from '../lib/expenses.js';

export default async function list({ input, db }) {
  const { month, category, search, before, limit = 100 } = input;
  const days = month === undefined ? { first: '0000', last: '9999' } : daysOf(month);
  const expenses = await db.all(
    `SELECT ${EXPENSE}
       FROM expenses
      WHERE day BETWEEN @first AND @last
        AND (@category IS NULL OR category = @category)
        AND (@search IS NULL OR instr(lower(note), lower(@search)) > 0)
        AND (@day IS NULL OR (day, id) < (@day, @id))
      ORDER BY day DESC, id DESC
      LIMIT @limit + 1`,
    { ...days, category, search, day: before?.day, id: before?.id, limit },
  );
  if (expenses.length <= limit) return { expenses, next: null };
  const { day, id } = expenses[limit - 1];
  return { expenses: expenses.slice(0, limit), next: { day, id } };
}
