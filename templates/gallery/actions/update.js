import { PHOTO, unknown } from '../lib/photos.js';

export default async function update({ body, db }) {
  const { changes } = await db.run('UPDATE photos SET caption = ? WHERE id = ?', body.caption.trim(), body.id);
  return changes === 0 ? unknown(body.id) : { body: await db.get(`SELECT ${PHOTO} FROM photos WHERE id = ?`, body.id) };
}
