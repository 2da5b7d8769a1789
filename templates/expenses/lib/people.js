/** The people whom the app knows: those who have done something in it. */

/** Remembers who calls, with the name that they have now. Callers without an account are nobody. */
export async function remember(db, user) {
  if (user === null) return;
  await db.run(
    `INSERT INTO people (id, name) VALUES (?, ?)
     ON CONFLICT (id) DO UPDATE SET name = excluded.name WHERE name <> excluded.name`,
    user.id,
    user.name,
  );
}

/** The answer when somebody is to have paid whom the app does not know; null for others and for nobody. */
export async function strangerIn(tx, payer) {
  if (payer === undefined || payer === null) return null;
  if (await tx.get('SELECT 1 FROM people WHERE id = ?', payer)) return null;
  const message = 'This person has done nothing here yet, so no expense can be theirs.';
  return { status: 400, body: { code: 'UNKNOWN_PERSON', message, path: '/payer' } };
}

/** What each has paid more than an equal share, in cents. The first ones have the cents that are left over. */
export function balancesOf(paid) {
  const total = paid.reduce((sum, cents) => sum + cents, 0);
  const share = Math.floor(total / paid.length);
  const left = total - share * paid.length;
  return paid.map((cents, at) => cents - share - (at < left ? 1 : 0));
}
