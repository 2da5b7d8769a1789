/** A bookmark as the tools show it; of the table `bookmarks`. */
export const COLUMNS = `id, url, host, title, note, later, status, dead, created_at AS createdAt, checked_at AS checkedAt,
  (SELECT json_group_array(tag) FROM (SELECT tag FROM tags WHERE bookmark_id = bookmarks.id ORDER BY tag)) AS tags`;

export const toBookmark = ({ later, dead, tags, ...row }) => ({
  ...row,
  later: later === 1,
  dead: dead === 1,
  tags: JSON.parse(tags),
});

export const noSuchBookmark = (id) => ({ status: 404, body: { message: `There is no bookmark ${id}.` } });

export async function readBookmark(db, id) {
  return toBookmark(await db.get(`SELECT ${COLUMNS} FROM bookmarks WHERE id = ?`, id));
}

/** The address as it is kept, with its host; null when it is none of the web. */
export function parseAddress(text) {
  try {
    const { href, hostname, protocol } = new URL(text);
    if (!/^https?:$/.test(protocol) || href.length > 2000) return null;
    return { url: href, host: hostname.replace(/^www\./, '') };
  } catch {
    return null;
  }
}

export const invalidAddress = {
  status: 422,
  body: { code: 'INVALID_ADDRESS', path: '/url', message: 'This is not the address of a web page.' },
};

export const tagNames = (tags) => [...new Set(tags.map((tag) => tag.trim().toLowerCase()))];

/** Statements that give a bookmark these tags and no others. */
export function tagStatements(id, tags) {
  return [
    ['DELETE FROM tags WHERE bookmark_id = ?', id],
    ...tagNames(tags).map((tag) => ['INSERT INTO tags (bookmark_id, tag) VALUES (?, ?)', id, tag]),
  ];
}
