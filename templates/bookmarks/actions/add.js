import { invalidAddress, parseAddress, readBookmark, tagStatements } from '../lib/bookmarks.js';

export default async function add({ body, db }) {
  const { title = '', note = '', tags = [], later = false } = body;
  const address = parseAddress(body.url);
  if (!address) return invalidAddress;
  return db.transaction(async (tx) => {
    const known = await tx.get('SELECT id FROM bookmarks WHERE url = ?', address.url);
    if (known) return { status: 409, body: { code: 'KNOWN', message: 'You have this one already.', id: known.id } };
    const { lastInsertRowid: id } = await tx.run(
      `INSERT INTO bookmarks (url, host, title, note, later, created_at)
       VALUES (@url, @host, @title, @note, @later, @now)`,
      { ...address, title: title.trim(), note: note.trim(), later, now: Date.now() },
    );
    await tx.batch(tagStatements(id, tags));
    return { status: 201, body: await readBookmark(tx, id) };
  });
}
