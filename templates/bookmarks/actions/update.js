import { invalidAddress, noSuchBookmark, parseAddress, readBookmark, tagStatements } from '../lib/bookmarks.js';

export default async function update({ body, db }) {
  const { id, url, title, note, tags, later } = body;
  const address = url === undefined ? {} : parseAddress(url);
  if (!address) return invalidAddress;
  return db.transaction(async (tx) => {
    const known = await tx.get('SELECT id FROM bookmarks WHERE url = ? AND id <> ?', address.url, id);
    if (known)
      return { status: 409, body: { code: 'KNOWN', message: 'Another bookmark has this address.', id: known.id } };
    const { changes } = await tx.run(
      `UPDATE bookmarks
          SET title = coalesce(@title, title), note = coalesce(@note, note), later = coalesce(@later, later),
              host = coalesce(@host, host),
              status = CASE WHEN coalesce(@url, url) = url THEN status END,
              checked_at = CASE WHEN coalesce(@url, url) = url THEN checked_at END,
              url = coalesce(@url, url)
        WHERE id = @id`,
      { id, url: address.url, host: address.host, title: title?.trim(), note: note?.trim(), later },
    );
    if (changes === 0) return noSuchBookmark(id);
    if (tags) await tx.batch(tagStatements(id, tags));
    return { body: await readBookmark(tx, id) };
  });
}
