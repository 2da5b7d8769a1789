/** Fetches one feed, politely: with what its server said last time, for a limited time, and not more than a feed has. */
import { decode } from './entities.js';
import { parseFeed, webAddress } from './feed.js';

const MAX_BYTES = 4 * 1024 * 1024;
const TIMEOUT_MS = 15_000;

/** What went wrong, in words for a person. */
export class FeedProblem extends Error {
  code = 'FEED_PROBLEM';
}

/** The body as text, in the character set that the header or the XML declaration names. */
async function readText(response) {
  const chunks = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new FeedProblem('It is larger than 4 MiB, so it is no feed.');
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  const header = /charset="?([\w-]+)/i.exec(response.headers.get('content-type') ?? '')?.[1];
  const declared = /^<\?xml[^>]{0,200}encoding=["']([\w-]+)/.exec(bytes.subarray(0, 300).toString('latin1'))?.[1];
  try {
    return new TextDecoder(header ?? declared ?? 'utf-8').decode(bytes);
  } catch {
    return bytes.toString('utf8');
  }
}

/** The address of the feed that a web page names in its head, or null. */
function feedOfPage(html, base) {
  for (const [tag] of html.slice(0, 300_000).matchAll(/<link\b[^<>]{0,2000}>/gi)) {
    const attribute = (name) => new RegExp(`\\b${name}\\s*=\\s*["']([^"']*)`, 'i').exec(tag)?.[1];
    if (/application\/(?:rss|atom)\+xml/i.test(attribute('type') ?? '')) {
      return webAddress(decode(attribute('href') ?? ''), base);
    }
  }
  return null;
}

/** Tries again when it fails: a connection that was kept from last time may just have been closed by the server. */
async function twice(run, signal) {
  try {
    return await run();
  } catch (error) {
    if (signal.aborted) throw error;
    return run();
  }
}

/**
 * `{ unchanged: true }`, or `{ url, etag, modified, text }` of what the address answers.
 * `get` is the `ctx.fetch` of the handler, which ends with the call; `signal` tells whether it did.
 */
async function request(get, signal, { url, etag, modified }) {
  const headers = { accept: 'application/rss+xml, application/atom+xml, application/xml, text/xml, */*;q=0.5' };
  if (etag) headers['if-none-match'] = etag;
  if (modified) headers['if-modified-since'] = modified;
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const response = await twice(() => get(url, { headers, signal: limit }), limit);
    if (response.status === 304) return { unchanged: true };
    if (!response.ok) throw new FeedProblem(`The server answers ${response.status}.`);
    return {
      url: response.url || url,
      etag: response.headers.get('etag')?.slice(0, 500) ?? null,
      modified: response.headers.get('last-modified')?.slice(0, 100) ?? null,
      text: await readText(response),
    };
  } catch (error) {
    if (error instanceof FeedProblem) throw error;
    throw new FeedProblem(
      limit.aborted && !signal.aborted ? 'The server does not answer.' : 'The server cannot be reached.',
    );
  }
}

/** What a feed has now: `{ unchanged }` or `{ etag, modified, title, site, items }`. Throws FeedProblem. */
export async function fetchFeed(get, signal, feed) {
  const { unchanged, url, etag, modified, text } = await request(get, signal, feed);
  if (unchanged) return { unchanged };
  try {
    return { etag, modified, ...parseFeed(text, url) };
  } catch (error) {
    throw new FeedProblem(`It cannot be read as a feed: ${error.message}.`);
  }
}

/** As `fetchFeed`, for an address that a person gave: of a feed, or of a page that names its feed. Has `url` too. */
export async function findFeed(get, signal, given) {
  const { text, url, ...rest } = await request(get, signal, { url: given });
  try {
    return { url: given, ...rest, ...parseFeed(text, url) };
  } catch (error) {
    const named = feedOfPage(text, url);
    if (named === null) throw new FeedProblem(`This is no feed, and no page that names one (${error.message}).`);
    return { url: named, ...(await fetchFeed(get, signal, { url: named })) };
  }
}

/** Runs `work` for each, a few at a time. */
export async function eachOf(list, work, atOnce = 6) {
  const rest = [...list];
  const next = async () => {
    for (let one = rest.shift(); one !== undefined; one = rest.shift()) await work(one);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, rest.length) }, next));
}
