import { full, unknown } from '../lib/answers.js';
import { remember, strangerIn } from '../lib/people.js';
import { positionFor } from '../lib/positions.js';

const MOST = 500;

export default async function addCard({ body, db, ctx }) {
  const { column, notes = '', color = 'none', assignee = null } = body;
  const title = body.title.trim();
  return db.transaction(async (tx) => {
    await remember(tx, ctx.user);
    const stranger = await strangerIn(tx, assignee);
    if (stranger !== null) return stranger;
    if (!(await tx.get('SELECT 1 FROM columns WHERE id = ?', column))) return unknown('column', column);
    const { count } = await tx.get('SELECT count(*) AS count FROM cards WHERE column_id = ?', column);
    if (count >= MOST) return full(`A column holds at most ${MOST} cards. Remove some that are done.`);
    const position = await positionFor(tx, 'cards', column, null);
    const { lastInsertRowid: id } = await tx.run(
      `INSERT INTO cards (column_id, title, notes, color, assignee, position, created_at)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      [column, title, notes, color, assignee, position, Date.now()],
    );
    return { status: 201, body: { id, column, title, notes, color, assignee } };
  });
}
