import { daysOf } from '../lib/expenses.js';
import { balancesOf } from '../lib/people.js';

export default async function people({ input, db }) {
  const { first, last } = daysOf(input.month);
  const year = String(Number(first.slice(0, 4)) - 1).padStart(4, '0');
  const all = await db.all(
    `SELECT people.id, name,
            coalesce(sum(cents) FILTER (WHERE day >= @first), 0) AS paid, count(cents) > 0 AS shares
       FROM people LEFT JOIN expenses ON payer = people.id AND day BETWEEN @since AND @last
      GROUP BY people.id
      ORDER BY name COLLATE NOCASE, people.id`,
    { first, last, since: year + first.slice(4) },
  );
  const sharing = all.filter(({ shares }) => shares === 1);
  const balances = balancesOf(sharing.map(({ paid }) => paid));
  return all.map(({ id, name, paid }) => {
    const at = sharing.findIndex((one) => one.id === id);
    return { id, name, paid, shares: at >= 0, balance: balances[at] ?? 0 };
  });
}
