import { PHOTO } from '../lib/photos.js';

/** A row for a file that the page has uploaded. The same file is one photo. */
export default async function add({ body, db, ctx }) {
  const { file, thumbnail = file, name, width = null, height = null, caption = '' } = body;
  const [stored, small] = await Promise.all([ctx.blobs.stat(file), ctx.blobs.stat(thumbnail)]);
  if (!stored || !small) return refused('UNKNOWN_FILE', 'Upload the photo first.');
  if (!stored.type.startsWith('image/') || !small.type.startsWith('image/'))
    return refused('NO_IMAGE', `“${name}” is no image.`);
  const { changes } = await db.run(
    `INSERT INTO photos (file, thumbnail, name, type, size, width, height, caption, added_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (file) DO NOTHING`,
    [file, thumbnail, name, stored.type, stored.size, width, height, caption.trim(), Date.now()],
  );
  return { status: changes > 0 ? 201 : 200, body: await db.get(`SELECT ${PHOTO} FROM photos WHERE file = ?`, file) };
}

const refused = (code, message) => ({ status: 422, body: { code, message } });
