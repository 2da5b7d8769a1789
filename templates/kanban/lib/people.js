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

/** The answer when a card is to be assigned to somebody whom the app does not know; null for others and for nobody. */
export async function strangerIn(tx, assignee) {
  if (assignee === undefined || assignee === null) return null;
  if (await tx.get('SELECT 1 FROM people WHERE id = ?', assignee)) return null;
  const message = 'This person has done nothing here yet, so no card can be assigned to them.';
  return { status: 400, body: { code: 'UNKNOWN_PERSON', message, path: '/assignee' } };
}
