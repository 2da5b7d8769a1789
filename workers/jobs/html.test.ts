import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
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
    const { html } = bridgePage(page.replace('▶', ''), { app: 'notes' });
    assert.equal(html, page.replace('▶', TAG));
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
];

for (const [name, page, texts] of SCRIPTS) {
  test(`inline scripts: ${name}`, () => {
    const hashes = texts.map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`);
    assert.deepEqual(bridgePage(page, { app: 'notes' }).scriptHashes, hashes);
  });
}

test('a page of nothing but markup characters takes linear time', () => {
  for (const piece of ['<', '<!', '</', '<a ', '<!--', '<script ', '"', '<a b="'])
    bridgePage(piece.repeat(100_000), { app: 'notes' });
});
