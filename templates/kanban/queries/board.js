import { CARD } from '../lib/answers.js';

/** In one statement, so that a card that is being moved is seen exactly once. */
const EVERYTHING = `
  SELECT columns.id, columns.name,
         (SELECT json_group_array(json_object('id', id, 'column', "column", 'title', title, 'notes', notes, 'color', color,
                 'assignee', assignee))
            FROM (SELECT ${CARD} FROM cards WHERE column_id = columns.id ORDER BY position, id)) AS cards
    FROM columns
   WHERE board = ?
   ORDER BY position, id`;

export default async function board({ input, db }) {
  const found = await db.get('SELECT id, name FROM boards WHERE id = ?', input.id);
  if (found === null) return null;
  const columns = await db.all(EVERYTHING, input.id);
  return { ...found, columns: columns.map((column) => ({ ...column, cards: JSON.parse(column.cards) })) };
}
