/** Text out of XML and HTML: what feeds say is only ever shown as text. */

const NAMED = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: ' ',
  ndash: '–',
  mdash: '—',
  hellip: '…',
  lsquo: '‘',
  rsquo: '’',
  ldquo: '“',
  rdquo: '”',
  laquo: '«',
  raquo: '»',
  bull: '•',
  middot: '·',
  copy: '©',
  reg: '®',
  trade: '™',
  euro: '€',
  pound: '£',
  times: '×',
  auml: 'ä',
  ouml: 'ö',
  uuml: 'ü',
  Auml: 'Ä',
  Ouml: 'Ö',
  Uuml: 'Ü',
  szlig: 'ß',
  eacute: 'é',
  egrave: 'è',
  agrave: 'à',
  ccedil: 'ç',
  ntilde: 'ñ',
};

function decodeOne(whole, name) {
  if (name[0] !== '#') return NAMED[name] ?? whole;
  const code = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number.parseInt(name.slice(1), 10);
  const isText = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return isText ? String.fromCodePoint(code) : '\ufffd';
}

/** `&amp;`, `&#8217;`, `&#x2019;` → what they stand for. What is unknown stays as it is. */
export function decode(text) {
  return text.replace(/&(#\d{1,7}|#x[\da-f]{1,6}|[a-z]{2,8});/gi, decodeOne);
}

/** Without what stands between two marks; what has no end goes to the end. Each character is looked at once. */
function without(text, begin, end) {
  let kept = '';
  let at = 0;
  for (;;) {
    begin.lastIndex = at;
    const found = begin.exec(text);
    if (!found) return kept + text.slice(at);
    kept += `${text.slice(at, found.index)} `;
    end.lastIndex = begin.lastIndex;
    if (!end.exec(text)) return kept;
    at = end.lastIndex;
  }
}

/** The text of a piece of HTML, on one line, cut at `max` characters. */
export function plain(html, max) {
  const visible = without(html.slice(0, 50_000), /<(?:script|style)\b/gi, /<\/(?:script|style)\b[^>]*>/gi);
  const bare = without(visible, /<!--/g, /-->/g)
    // Tags within a word or sentence leave no gap.
    .replace(/<\/?(?:a|abbr|b|cite|code|em|i|mark|q|s|small|span|strong|sub|sup|u)(?:\s[^<>]*)?>/gi, '')
    .replace(/<\/?[a-z][^<>]*>/gi, ' ');
  const text = decode(bare).replace(/\s+/g, ' ').trim();
  return text.length <= max ? text : `${text.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
