/** Finds bookmarks in text that somebody pasted: a line each, Markdown links, or the HTML that browsers export. */
import { parseAddress } from './bookmarks.js';

const HTML = /<a\s[^>]*?href="(https?:[^"]+)"[^>]*>([^<]*)/i;
const MARKDOWN = /\[([^\]]*)\]\((https?:[^\s)]+)\)/i;
const PLAIN = /https?:\/\/[^\s<>"]+/i;

const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };
export const decode = (html) => html.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ENTITIES[name]);

function readLine(line) {
  const html = HTML.exec(line);
  if (html) return { address: decode(html[1]), title: decode(html[2]) };
  const markdown = MARKDOWN.exec(line);
  if (markdown) return { address: markdown[2], title: markdown[1] };
  const [address] = PLAIN.exec(line) ?? [];
  return address && { address, title: line.replace(address, '').replace(/^[\s\-*•:|–]+|[\s\-:|–]+$/g, '') };
}

/** `{ links: [{ url, host, title }], skipped }`: lines that have text and no address are skipped. */
export function readLinks(text) {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const links = lines.flatMap((line) => {
    const found = readLine(line);
    const address = found && parseAddress(found.address);
    return address ? [{ ...address, title: found.title.trim().slice(0, 300) }] : [];
  });
  return { links, skipped: lines.length - links.length };
}
