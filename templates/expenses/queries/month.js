import { daysOf } from '../lib/expenses.js';

/** The month before, `2026-01` → `2025-12`. */
function before(month) {
  const [year, number] = month.split('-').map(Number);
  return number === 1
    ? `${year - 1}-12`.padStart(7, '0')
    : `${month.slice(0, 5)}${String(number - 1).padStart(2, '0')}`;
}

export default async function month({ input, db }) {
  const categories = await db.all(
    `SELECT categories.id, name, budget, coalesce(sum(cents), 0) AS spent, count(expenses.id) AS count
       FROM categories
       LEFT JOIN expenses ON category = categories.id AND day BETWEEN @first AND @last
      GROUP BY categories.id
      ORDER BY spent DESC, name COLLATE NOCASE`,
    daysOf(input.month),
  );
  const previous = await db.get(
    'SELECT coalesce(sum(cents), 0) AS total FROM expenses WHERE day BETWEEN @first AND @last',
    daysOf(before(input.month)),
  );
  const sum = (key) => categories.reduce((total, category) => total + category[key], 0);
  return { month: input.month, total: sum('spent'), count: sum('count'), previousTotal: previous.total, categories };
}
