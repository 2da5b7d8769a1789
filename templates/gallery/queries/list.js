import { PHOTO } from '../lib/photos.js';

export default async function list({ input, db }) {
  const { limit = 60, before = null } = input;
  const { total } = await db.get('SELECT count(*) AS total FROM photos');
  const photos = await db.all(
    `SELECT ${PHOTO} FROM photos WHERE ? IS NULL OR id < ? ORDER BY id DESC LIMIT ?`,
    before,
    before,
    limit,
  );
  return { total, photos };
}
