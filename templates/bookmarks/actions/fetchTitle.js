import { noSuchBookmark } from '../lib/bookmarks.js';
import { decode } from '../lib/import.js';

const WAIT_MS = 8000;
const MOST_BYTES = 256 * 1024;

/** The title of the page, or an empty text when it says none in its beginning. */
async function titleOf(url, ctx) {
  const response = await ctx.fetch(url, {
    signal: AbortSignal.timeout(WAIT_MS),
    headers: { accept: 'text/html', range: `bytes=0-${MOST_BYTES - 1}` },
  });
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const chunk of response.ok ? response.body : []) {
    text += decoder.decode(chunk, { stream: true });
    bytes += chunk.length;
    if (bytes > MOST_BYTES || /<\/title>/i.test(text)) break;
  }
  const [, title = ''] = /<title[^>]*>([^<]*)<\/title>/i.exec(text) ?? [];
  return decode(title).replace(/\s+/g, ' ').trim().slice(0, 300);
}

export default async function fetchTitle({ body, db, ctx, log }) {
  const { id } = body;
  const bookmark = await db.get('SELECT url, title FROM bookmarks WHERE id = ?', id);
  if (!bookmark) return noSuchBookmark(id);
  if (bookmark.title === '') {
    const title = await titleOf(bookmark.url, ctx).catch((error) => {
      log.info('the page gave no title', { url: bookmark.url, error: String(error) });
      return '';
    });
    await db.run("UPDATE bookmarks SET title = ? WHERE id = ? AND title = ''", title, id);
  }
  return { body: { id, title: (await db.get('SELECT title FROM bookmarks WHERE id = ?', id))?.title ?? '' } };
}
