/**
 * The order of columns in a board and of cards in a column. A place between two others is the number halfway; where there
 * is none left, the whole list gets new numbers. Everything is done in the transaction of whoever moves something.
 */
const STEP = 65_536;

/** Tables and the column of each that names the list: no name of a table comes from outside. */
const LISTS = { columns: 'board', cards: 'column_id' };

/**
 * A position in `list` before the row `before`, or at its end when that is null, undefined or no longer there.
 * `moving` is the row that will take it, if it is in a list already.
 */
export async function positionFor(tx, table, list, before, moving = 0) {
  const rows = await tx.all(
    `SELECT id, position FROM ${table} WHERE ${LISTS[table]} = ? AND id <> ? ORDER BY position, id`,
    list,
    moving,
  );
  const found = rows.findIndex(({ id }) => id === before);
  const at = found < 0 ? rows.length : found;
  if (at === rows.length) return (rows.at(-1)?.position ?? 0) + STEP;
  const [left, right] = [rows[at - 1]?.position ?? 0, rows[at].position];
  const middle = Math.floor((left + right) / 2);
  if (middle > left && middle < right) return middle;
  await tx.batch(
    rows.map(({ id }, index) => [
      `UPDATE ${table} SET position = ? WHERE id = ?`,
      (index + (index < at ? 1 : 2)) * STEP,
      id,
    ]),
  );
  return (at + 1) * STEP;
}
