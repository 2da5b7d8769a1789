import { full, unknown } from '../lib/answers.js';
import { positionFor } from '../lib/positions.js';

const MOST = 30;

export default async function addColumn({ body, db }) {
  const { board } = body;
  const name = body.name.trim();
  return db.transaction(async (tx) => {
    if (!(await tx.get('SELECT 1 FROM boards WHERE id = ?', board))) return unknown('board', board);
    const { count } = await tx.get('SELECT count(*) AS count FROM columns WHERE board = ?', board);
    if (count >= MOST) return full(`A board has at most ${MOST} columns.`);
    const position = await positionFor(tx, 'columns', board, null);
    const { lastInsertRowid: id } = await tx.run(
      'INSERT INTO columns (board, name, position) VALUES (?, ?, ?)',
      board,
      name,
      position,
    );
    return { status: 201, body: { id, board, name } };
  });
}
