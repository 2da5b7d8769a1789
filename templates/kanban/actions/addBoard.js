import { full } from '../lib/answers.js';
import { remember } from '../lib/people.js';

const FIRST_COLUMNS = ['To do', 'Doing', 'Done'];
const MOST = 100;

export default async function addBoard({ body, db, ctx }) {
  const name = body.name.trim();
  return db.transaction(async (tx) => {
    await remember(tx, ctx.user);
    const { count } = await tx.get('SELECT count(*) AS count FROM boards');
    if (count >= MOST) return full(`There are already ${MOST} boards, the maximum.`);
    const { lastInsertRowid: id } = await tx.run(
      'INSERT INTO boards (name, created_at) VALUES (?, ?)',
      name,
      Date.now(),
    );
    await tx.batch(
      FIRST_COLUMNS.map((column, at) => [
        'INSERT INTO columns (board, name, position) VALUES (?, ?, ?)',
        id,
        column,
        (at + 1) * 65_536,
      ]),
    );
    return { status: 201, body: { id, name } };
  });
}
