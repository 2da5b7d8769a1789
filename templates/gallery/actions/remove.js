import { unknown } from '../lib/photos.js';

/** The row first: what a row names is there. */
export default async function remove({ body, db, ctx }) {
  const photo = await db.get('SELECT file, thumbnail FROM photos WHERE id = ?', body.id);
  if (photo === null) return unknown(body.id);
  const { changes } = await db.run('DELETE FROM photos WHERE id = ?', body.id);
  for (const file of new Set([photo.file, photo.thumbnail])) {
    const used = await db.get('SELECT 1 AS used FROM photos WHERE file = ? OR thumbnail = ?', file, file);
    if (used === null) await ctx.blobs.delete(file);
  }
  return { body: { removed: changes } };
}
