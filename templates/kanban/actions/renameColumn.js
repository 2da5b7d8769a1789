import { COLUMN, unknown } from '../lib/answers.js';

export default async function renameColumn({ body, db }) {
  const { changes } = await db.run('UPDATE columns SET name = ? WHERE id = ?', body.name.trim(), body.id);
  if (changes === 0) return unknown('column', body.id);
  return { body: await db.get(`SELECT ${COLUMN} FROM columns WHERE id = ?`, body.id) };
}
