/**
 * Puts the page bridge into a page and finds its inline scripts, by the HTML standard's tokenizer rules as far as they
 * matter for that (decisions, section 5). Pure.
 */
import { createHash } from 'node:crypto';
import { bridgeTag, type PageOwner } from '../../protocol/bridge.ts';

/** `scriptHashes` are sources for the page's policy, `'sha256-…'` with their quotes, each once. */
export type BridgedPage = { html: string; scriptHashes: string[] };

/** The page with the bridge's tag first in its head. */
export function bridgePage(html: string, owner: PageOwner): BridgedPage {
  const { headAt, inlineScripts } = scan(html);
  const tag = bridgeTag(owner);
  const scriptHashes = [...new Set(inlineScripts.map(scriptHash))];
  return { html: html.slice(0, headAt) + tag + html.slice(headAt), scriptHashes };
}

/** As the browser hashes it: after its input stream has made every line end a LF and every NUL a U+FFFD. */
function scriptHash(text: string): string {
  const asParsed = text.replace(/\r\n?/g, '\n').replaceAll('\0', '\uFFFD');
  return `'sha256-${createHash('sha256').update(asParsed).digest('base64')}'`;
}

// Between these nothing counts as markup. `noscript` and the others are text when scripts run; `plaintext` never ends.
const RAW_TEXT = new Set(['style', 'textarea', 'title', 'xmp', 'iframe', 'noembed', 'noframes', 'noscript']);

const COMMENT = /<!--(?:-?>|[\s\S]*?(?:--!?>|$))/y;
const BOGUS_COMMENT = /<(?:[!?]|\/[^A-Za-z])[^>]*(?:>|$)/y;
const TAG = /<(\/?)([A-Za-z][^\s/>]*)/y;
const SPACE = /[\s\uFEFF]+/y;

type Page = { headAt: number; inlineScripts: string[] };

function scan(html: string): Page {
  const inlineScripts: string[] = [];
  /** Where the head begins: behind its tag, or before the first thing that makes the parser begin one itself. */
  let headAt: number | null = null;
  let at = 0;
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    return pattern.exec(html);
  };
  while (at < html.length) {
    const skipped = match(COMMENT) ?? match(BOGUS_COMMENT) ?? match(SPACE);
    if (skipped !== null) {
      at += skipped[0].length;
      continue;
    }
    const tag = match(TAG);
    if (tag === null) {
      headAt ??= at;
      at = nextMarkup(html, at);
      continue;
    }
    const name = (tag[2] as string).toLowerCase();
    const isEnd = tag[1] === '/';
    const { end, hasSource } = attributes(html, at + tag[0].length);
    if (name === 'head' && !isEnd) headAt ??= end;
    else if (name !== 'html' && !isIgnoredBeforeHead(name, isEnd)) headAt ??= at;
    at = end;
    if (isEnd) continue;
    if (name === 'plaintext') break;
    if (name === 'script') {
      const close = scriptEnd(html, at);
      if (close !== null && !hasSource && close > at) inlineScripts.push(html.slice(at, close));
      at = close ?? html.length;
    } else if (RAW_TEXT.has(name)) {
      at = rawTextEnd(html, at, name);
    }
  }
  return { headAt: headAt ?? html.length, inlineScripts };
}

/** End tags that the parser drops while it has seen no head; the others begin one. */
function isIgnoredBeforeHead(name: string, isEnd: boolean): boolean {
  return isEnd && !['head', 'body', 'br'].includes(name);
}

function nextMarkup(html: string, at: number): number {
  const next = html.indexOf('<', at + 1);
  return next < 0 ? html.length : next;
}

const ATTRIBUTE = /[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*(?:"[^"]*(?:"|$)|'[^']*(?:'|$)|[^\s>]*))?/y;
const TAG_END = /[\s/]*(?:>|$)/y;

/** Reads a tag from behind its name on. `end` is behind its `>`, which no quoted value can hold. */
function attributes(html: string, from: number): { end: number; hasSource: boolean } {
  let at = from;
  let hasSource = false;
  for (;;) {
    TAG_END.lastIndex = at;
    const close = TAG_END.exec(html);
    if (close !== null) return { end: at + close[0].length, hasSource };
    ATTRIBUTE.lastIndex = at;
    const attribute = ATTRIBUTE.exec(html);
    if (attribute === null) return { end: html.length, hasSource };
    if (attribute[1]?.toLowerCase() === 'src') hasSource = true;
    at += attribute[0].length;
  }
}

function rawTextEnd(html: string, from: number, name: string): number {
  const close = new RegExp(`</${name}(?=[\\s/>])`, 'gi');
  close.lastIndex = from;
  return close.exec(html)?.index ?? html.length;
}

/**
 * Where `</script` ends the text; null when nothing does, and the browser then runs none of it. Inside `<!-- … -->` a nested
 * `<script>` hides one end tag ("script data double escaped state").
 */
function scriptEnd(html: string, from: number): number | null {
  const markers = /<!--|-->|<(\/?)script(?=[\s/>])/gi;
  markers.lastIndex = from;
  let state: 'plain' | 'escaped' | 'nested' = 'plain';
  for (let found = markers.exec(html); found !== null; found = markers.exec(html)) {
    if (found[0] === '<!--') {
      if (state === 'plain') state = 'escaped';
      // The dashes may be those of the end as well: `<!-->`.
      markers.lastIndex = found.index + 2;
    } else if (found[0] === '-->') {
      state = 'plain';
    } else if (found[1] === '/') {
      if (state !== 'nested') return found.index;
      state = 'escaped';
    } else if (state === 'escaped') {
      state = 'nested';
    }
  }
  return null;
}
