import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { type DefaultTreeAdapterTypes, html, parse } from 'parse5';
import { bridgePage } from './html.ts';

const TAG = '<script src="/svc/_client.js" data-app="notes"></script>';

/** `▶` marks where the tag must stand. */
const PLACES: [name: string, page: string][] = [
  ['in the head', '<!doctype html><html><head>▶<title>x</title></head></html>'],
  ['a head with attributes', '<head lang="en" data-x="a > b">▶<title>x</title>'],
  ['upper case', '<!DOCTYPE HTML><HTML><HEAD>▶<TITLE>x</TITLE>'],
  ['no head', '<!doctype html><html lang=en>\n▶<body>text</body>'],
  ['no head but head content', '<!doctype html>\n▶<title>x</title><p>text'],
  ['text alone', '▶Hello'],
  ['nothing', '▶'],
  ['a byte order mark', '\uFEFF<!doctype html>▶<p>'],
  ['a head in a comment', '<!-- <head> --><!doctype html><!----><html><head >▶<meta charset=utf-8>'],
  ['short comments', '<!--><!---><html><head>▶'],
  ['a comment that is not closed', '<!-- <head>▶'],
  ['a processing instruction', '<?xml version="1.0"?><html><head>▶'],
  ['text before the head tag, which then means nothing', '▶text<head><title>x</title>'],
  ['a header element is no head', '▶<header>x</header>'],
  ['a script before the head', '▶<script>"<head>"</script><head>'],
  ['an end tag that means nothing', '</div></p><head>▶'],
  ['an end tag that begins the head', '▶</head><head>'],
];

for (const [name, page] of PLACES) {
  test(`the tag's place: ${name}`, () => {
    const bridged = bridgePage(page.replace('▶', ''), { app: 'notes' }, 'index.html');
    assert.equal(bridged.html, page.replace('▶', TAG));
  });
}

/** Pages, and the texts of their inline scripts as the browser hashes them. */
const SCRIPTS: [name: string, page: string, texts: string[]][] = [
  ['one', '<script>go()</script>', ['go()']],
  ['two and a module', '<script>a</script><p><SCRIPT type="module">b</SCRIPT >', ['a', 'b']],
  ['the same twice', '<script>a</script><script>a</script>', ['a']],
  ['with a source', '<script src="a.js">a</script><script defer SRC=b.js></script>', []],
  ['a data attribute is no source', '<script data-src="x">a</script>', ['a']],
  ['an attribute that holds an end', '<script data-x="></script>">a</script>', ['a']],
  ['empty', '<script></script>', []],
  ['line ends', '<script>\r\na\rb\n</script>', ['\na\nb\n']],
  ['a NUL', '<script>"\0"</script>', ['"\uFFFD"']],
  ['other characters', '<script>"é€😀"</script>', ['"é€😀"']],
  ['an end tag in a string', `<script>a = "</script>"</script>`, ['a = "']],
  ['what only looks like an end tag', '<script>a = "</scripty>"</script>', ['a = "</scripty>"']],
  ['a nested script in a comment', '<script><!-- <script>a</script> --></script>', ['<!-- <script>a</script> -->']],
  ['an escaped script that is closed', '<script><!-- a </script>', ['<!-- a ']],
  ['a comment that ends at once', '<script><!--><script></script>', ['<!--><script>']],
  ['one that is not closed', '<script>a', []],
  ['in a comment', '<!-- <script>a</script> -->', []],
  ['in text', '<textarea><script>a</script></textarea><style><script>b</script></style><title><script></title>', []],
  ['behind text that is not closed', '<textarea><script>a</script>', []],
  ['behind a stray less-than', '1 < 2 <script>a</script>', ['a']],
  ['in SVG', '<svg><script>a &lt; <![CDATA[b]]><g>c</g>d</script></svg>', ['a < bd']],
  ['in SVG, with a source', '<svg><script href=a.js>a</script><script xlink:href=a.js>a</script>', []],
  ['in SVG, where src means nothing', '<svg><script src=a.js>a</script>', ['a']],
  ['in SVG, where text is markup', '<svg><style><script>a</script></style><title><script>b</script>', ['a', 'b']],
  ['in SVG, ended by another tag', '<svg><script>a<script>b</script></svg><p>', ['b']],
  ['in MathML', '<math><script>a</script></math>', []],
  ['in a frameset', '<frameset><script>a</script></frameset>', []],
  ['in a body that a frameset takes the place of', '<script>a</script><p><script>b</script><frameset>', ['a', 'b']],
  ['in a template', '<template><script>a</script></template>', ['a']],
  ['in a table', '<table><tr><script>a</script>', ['a']],
];

for (const [name, page, texts] of SCRIPTS) {
  test(`inline scripts: ${name}`, () => {
    assert.deepEqual(bridgePage(page, { app: 'notes' }, 'index.html').scriptHashes, texts.map(hash));
  });
}

function hash(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

const MARKUP = [
  ...[
    '<',
    '</',
    '<!--',
    '-->',
    '--!>',
    '<?x>',
    '<![CDATA[',
    ']]>',
    '>',
    '"',
    "'",
    '=',
    '/',
    ' b ',
    '\r\n',
    '\0',
    '&lt;',
  ],
  ...[
    '<!doctype html>',
    '<html lang=en>',
    '<head>',
    '</head>',
    '<body>',
    '</body>',
    '</html>',
    '</br>',
    '\u00a0',
    '<br/>',
  ],
  ...[
    '<script>',
    '</script>',
    '<script src=x>',
    '<script href=x>',
    '<script/>',
    '<a href="',
    '<p>',
    '</p>',
    '<b>',
    '</b>',
  ],
  ...[
    '<svg>',
    '</svg>',
    '<math>',
    '<mi>',
    '<desc>',
    '<foreignObject>',
    '<annotation-xml encoding=text/html>',
    '<title>',
  ],
  ...[
    '<style>',
    '</style>',
    '</title>',
    '<textarea>',
    '</textarea>',
    '<select>',
    '</select>',
    '<noscript>',
    '</noscript>',
  ],
  ...[
    '<table>',
    '<td>',
    '</table>',
    '<template>',
    '</template>',
    '<plaintext>',
    '<xmp>',
    '</xmp>',
    '<script>a</script>',
  ],
];

/** The scripts of a whole tree that their own tags end, in its order; but those in MathML, which are not run. */
function scriptsIn(node: DefaultTreeAdapterTypes.Node): DefaultTreeAdapterTypes.Element[] {
  const within = 'content' in node ? [node.content] : 'childNodes' in node ? node.childNodes : [];
  const nested = within.flatMap(scriptsIn);
  const isRun = node.nodeName === 'script' && 'attrs' in node && node.namespaceURI !== html.NS.MATHML;
  return isRun && node.sourceCodeLocation?.endTag ? [node, ...nested] : nested;
}

function inlineText({ namespaceURI, attrs, childNodes }: DefaultTreeAdapterTypes.Element): string[] {
  const source = namespaceURI === html.NS.SVG ? 'href' : 'src';
  const text = childNodes.map((child) => (child.nodeName === '#text' && 'value' in child ? child.value : '')).join('');
  return text === '' || attrs.some(({ name }) => name === source) ? [] : [text];
}

test('the scripts are those of the whole tree, and the tag stands before them', () => {
  const piece = fc.oneof(
    fc.constantFrom(...MARKUP),
    fc.constant('<script>a</script>'),
    fc.constant('<script>b</script>'),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const page = pieces.join('');
      const bridged = bridgePage(page, { app: 'notes' }, 'index.html');
      const before = scriptsIn(parse(page, { sourceCodeLocationInfo: true }));
      const [first, ...after] = scriptsIn(parse(bridged.html, { sourceCodeLocationInfo: true }));
      // As sets: in tables, the tree's order is not that of the text.
      const texts = new Set(before.flatMap(inlineText));
      assert.deepEqual(new Set(bridged.scriptHashes), new Set([...texts].map(hash)));
      assert.deepEqual(new Set(after.flatMap(inlineText)), texts);
      if (before.length > 0) assert.equal(first?.attrs[0]?.value, '/svc/_client.js');
    }),
    { numRuns: 1000 },
  );
});

test('a page of nothing but markup characters takes linear time', () => {
  for (const piece of ['<', '<!', '</', '<a ', '<!--', '<script ', '"', '<a b="', '<div>', '<b>', '<p>', '</p>']) {
    // Linear is 10 and square is 100; what is over in no time proves nothing. Once is enough: other programs only add to it.
    const isLinear = (): boolean => {
      const [small, large] = [cpuTime(piece.repeat(2000)), cpuTime(piece.repeat(20_000))];
      return large < 10_000 || large / small < 40;
    };
    assert.ok([1, 2, 3, 4, 5].some(isLinear), piece);
  }
});

/** Microseconds that the least disturbed of three takes. */
function cpuTime(page: string): number {
  const times = [1, 2, 3].map(() => {
    const before = process.cpuUsage();
    bridgePage(page, { app: 'notes' }, 'index.html');
    return process.cpuUsage(before).user;
  });
  return Math.min(...times);
}

test('a page that opens its formatting again and again is refused', () => {
  const page = Array.from({ length: 500 }, (_, i) => `<p><b id=${i}>`).join('');
  assert.throws(() => bridgePage(page, { app: 'notes' }, 'a/b.html'), { code: 'ARCHIVE_TOO_LARGE', path: 'a/b.html' });
});
