/** RSS 2.0 (and 0.9x, 1.0) and Atom, read into one shape. */
import { plain } from './entities.js';
import { parseXml } from './xml.js';

/** How many of a feed's items are taken; feeds have the newest first. */
const MAX_ITEMS = 200;
const MAX_TITLE = 300;
const MAX_SUMMARY = 500;
const MAX_URL = 2000;

const local = (name) => name.slice(name.indexOf(':') + 1);
const all = (element, name) => element.children.filter((child) => child.name === name);

/** The text of the first child of one of these names that has some. */
function textOf(element, ...names) {
  for (const name of names) {
    const text = all(element, name)
      .map(inner)
      .find((value) => value.trim() !== '');
    if (text !== undefined) return text.trim();
  }
  return '';
}

/** The text of an element and of everything in it: Atom may hold XHTML as elements. */
function inner(element) {
  return [element.text, ...element.children.map(inner)].join(' ');
}

/** The address if it is one that a page may link to, made absolute; null for anything else, such as `javascript:`. */
export function webAddress(text, base) {
  if (!text) return null;
  try {
    const url = new URL(text.trim(), base);
    return /^https?:$/.test(url.protocol) && url.href.length <= MAX_URL ? url.href : null;
  } catch {
    return null;
  }
}

/** Milliseconds since the epoch; null where there is no date, or none that can be understood. */
function timeOf(text) {
  const time = Date.parse(text);
  return Number.isNaN(time) || time < 0 ? null : time;
}

function atomLink(element, base) {
  const links = all(element, 'link').map(({ attributes }) => attributes);
  const link = links.find(({ rel = 'alternate' }) => rel === 'alternate') ?? links[0];
  return webAddress(link?.href, base);
}

function toItem({ guid, url, title, summary, date }) {
  const text = plain(summary, MAX_SUMMARY);
  const name = plain(title, MAX_TITLE) || plain(summary, 80) || url || 'Without a title';
  return { guid: (guid || url || name).slice(0, MAX_URL), url, title: name, summary: text, publishedAt: timeOf(date) };
}

function fromRss(element, base) {
  const guid = all(element, 'guid')[0];
  const permalink = guid && guid.attributes.isPermaLink !== 'false' ? guid.text : '';
  return toItem({
    guid: textOf(element, 'guid') || element.attributes['rdf:about'],
    url:
      webAddress(textOf(element, 'link'), base) ?? (/^https?:/i.test(permalink.trim()) ? webAddress(permalink) : null),
    title: textOf(element, 'title'),
    summary: textOf(element, 'description', 'content:encoded'),
    date: textOf(element, 'pubDate', 'dc:date'),
  });
}

function fromAtom(element, base) {
  return toItem({
    guid: textOf(element, 'id'),
    url: atomLink(element, base),
    title: textOf(element, 'title'),
    summary: textOf(element, 'summary', 'content'),
    date: textOf(element, 'published', 'updated'),
  });
}

/** One item for each guid: the first, which is the newest. */
function unique(items) {
  return [...new Map(items.reverse().map((item) => [item.guid, item])).values()].reverse();
}

/**
 * `{ title, site, items: [{ guid, url, title, summary, publishedAt }] }` of a feed's text, the newest first as the feed has
 * them. Titles and summaries are plain text. Throws an error that says what is wrong with it.
 */
export function parseFeed(text, base) {
  const root = parseXml(text.replace(/^\ufeff/, ''));
  const kind = local(root.name);
  if (kind === 'feed') {
    const items = all(root, 'entry')
      .slice(0, MAX_ITEMS)
      .map((entry) => fromAtom(entry, base));
    return { title: plain(textOf(root, 'title'), MAX_TITLE), site: atomLink(root, base), items: unique(items) };
  }
  const channel = all(root, 'channel')[0];
  if ((kind !== 'rss' && kind !== 'RDF') || !channel) throw new Error(`<${root.name}> is neither RSS nor Atom`);
  const items = all(kind === 'RDF' ? root : channel, 'item')
    .slice(0, MAX_ITEMS)
    .map((item) => fromRss(item, base));
  return {
    title: plain(textOf(channel, 'title'), MAX_TITLE),
    site: webAddress(textOf(channel, 'link'), base),
    items: unique(items),
  };
}
