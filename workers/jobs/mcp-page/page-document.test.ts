import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Manifest } from '../../../protocol/manifest.ts';
import { VersionPaths } from '../../../storage/layout.ts';
import { writePage } from './page-document.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-mcp-page-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const MANIFEST = { id: 'site', name: 'A "site" & more', version: '1.0.0', queries: [], actions: [] } as Manifest;
let made = 0;

type Files = Record<string, string | Buffer>;

/** The document of an app with these files, and what is said of it. */
function make(files: Files) {
  const paths = new VersionPaths(join(folder, `${++made}`, 'code'), join(folder, `${made}`, 'prepared'));
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(paths.code, path)), { recursive: true });
    writeFileSync(join(paths.code, path), content);
  }
  mkdirSync(paths.prepared, { recursive: true });
  const page = writePage(Object.keys(files), MANIFEST, paths, new Map());
  return { page, text: existsSync(paths.page) ? readFileSync(paths.page, 'utf8') : '' };
}

function documentOf(files: Files): string {
  const { page, text } = make(files);
  assert.ok(page && 'bytes' in page, JSON.stringify(page));
  return text;
}

function faultsOf(files: Files): string[] {
  const { page, text } = make(files);
  assert.ok(page && 'faults' in page, 'it has faults');
  assert.equal(text, '', 'there is no document');
  return page.faults.map(({ path, message }) => `${path}: ${message}`);
}

const withBody = (body: string): string => `<!doctype html><html><head></head><body>${body}</body></html>`;
const dataOf = (type: string, content: string) => `data:${type};base64,${Buffer.from(content).toString('base64')}`;

test('the tag of the bridge is first in the head, says what the app is, and has its place named in bytes', () => {
  const html = '<!doctype html><!-- é --><html><head><title>Ü</title></head><body></body></html>';
  const { page, text } = make({ 'index.html': html });
  assert.ok(page && 'bytes' in page);
  const bytes = Buffer.from(text);
  assert.equal(bytes.length, page.bytes);
  assert.equal(bytes.subarray(page.bridgeAt, page.bridgeAt + 10).toString(), '></script>');
  const [, attribute = ''] = /<head><script data-app="([^"]*)"/.exec(text) ?? [];
  const app = JSON.parse(attribute.replaceAll('&quot;', '"').replaceAll('&amp;', '&'));
  assert.deepEqual(app, { ...MANIFEST, app: 'site' });
  assert.equal(make({ 'app.js': '' }).page, undefined, 'an app without a page');
});

test('style sheets are in the page with what they import, and with their pictures and fonts', () => {
  const text = documentOf({
    'index.html':
      '<head><link rel="stylesheet" href="css/app.css?v=1" media="print"><link rel="icon" href="icon.svg"><link rel="alternate" href="feed.xml"></head>' +
      '<p style="background: url(dot.png)">',
    'css/app.css':
      '@charset "utf-8";\n@import "base.css";\n@import url("./base.css") layer(base) supports(display: grid) screen and (min-width: 1px);\n' +
      '@font-face { font-family: Own; src: url(../own.woff2) format("woff2") }\n' +
      'a { background: url( "../dot.png" ) , image-set("../dot.png" 1x), url(missing.png), url(#local); content: "url(../dot.png)" }',
    'css/base.css': '@import "app.css"; b { color: red } /* </style> */',
    'dot.png': 'PNG',
    'own.woff2': 'FONT',
    'icon.svg': '<svg/>',
  });
  const [, attributes, css = ''] = /<style([^>]*)>(.*?)<\/style>/s.exec(text) ?? [];
  assert.equal(attributes, ' media="print"');
  const dot = dataOf('image/png', 'PNG');
  assert.match(css, /^\s*b \{ color: red \}/);
  assert.match(
    css,
    /@media screen and \(min-width: 1px\) \{@supports \(display: grid\) \{@layer base \{\s*b \{ color: red \}/,
  );
  assert.ok(css.includes(`src: url("${dataOf('font/woff2', 'FONT')}") format("woff2")`), css);
  assert.ok(
    css.includes(`url( "${dot}" ) , image-set("${dot}" 1x), url(missing.png), url(#local); content: "url(../dot.png)"`),
  );
  assert.doesNotMatch(css, /@charset|@import|<\/style/);
  assert.ok(text.includes(`<p style="background: url(&quot;${dot}&quot;)">`));
  assert.doesNotMatch(text, /<link rel="icon"/);
  assert.match(text, /<link rel="alternate"/);
});

test('heights of the window can be set, but in conditions', () => {
  const html = '<style>@media (min-height: 50vh) { p { height: calc(100dvh - 2rem); width: 3vw } }</style>';
  assert.match(
    documentOf({ 'index.html': html }),
    /@media \(min-height: 50vh\) \{ p \{ height: calc\(calc\(100 \* var\(--svc-vh, 1dvh\)\) - 2rem\); width: 3vw \} \}/,
  );
});

test('pictures of the page are in it, wherever it names them', () => {
  const png = dataOf('image/png', 'PNG');
  const text = documentOf({
    'index.html': withBody(
      '<img alt="a>b" src=dot.png><img srcset=",dot.png 1x,dot.png 2x , /svc/site/dot.png, data:image/gif;base64,x 3x"><video poster="dot.png"></video>' +
        '<svg><image xlink:href="dot.png"/><use href="#x"/></svg><img src="data:image/gif;base64,x"><img src="_blobs/abc">' +
        '<template><img src="dot.png"></template><a href="dot.png">',
    ),
    'dot.png': 'PNG',
  });
  assert.ok(
    text.includes(
      `<img alt="a>b" src="${png}"><img srcset="${png} 1x, ${png} 2x, ${png}, data:image/gif;base64,x 3x"><video poster="${png}">`,
    ),
    text,
  );
  assert.ok(text.includes(`<image xlink:href="${png}"/><use href="#x"/>`));
  assert.ok(text.includes('<img src="data:image/gif;base64,x"><img src="_blobs/abc">'));
  assert.ok(text.includes(`<template><img src="${png}"></template><a href="dot.png">`));
});

test('addresses count from what the page says', () => {
  const text = documentOf({
    'index.html': '<head><base href="img/"></head><img src="dot.png"><style>p { background: url(dot.png) }</style>',
    'img/dot.png': 'PNG',
  });
  assert.equal(text.split(dataOf('image/png', 'PNG')).length, 3);
  assert.doesNotMatch(text, /<base/);
});

test('scripts stay in their place and order, and end nothing', () => {
  const text = documentOf({
    'index.html': withBody(
      '<script src="one.js" integrity="x"></script><script>two()</script><script defer src="three.js"></script>' +
        '<script type="module" src="four.js"></script><script type="module">five()</script>' +
        '<script type="application/json">{"a": 1}</script><script nomodule src="one.js"></script>',
    ),
    'one.js': 'const a = "</script><!--"; if (1</script/.length) b; // </script>',
    'three.js': 'three("</script>")',
    'four.js': 'four()',
  });
  const body = text.slice(text.indexOf('<body>'));
  assert.equal(
    body,
    '<body><script>const a = "\\x3C/script>\\x3C!--"; if (1< /script/.length) b; // < /script></script><script>two()</script>' +
      '<script type="module">svcScript("three(\\"\\u003c/script>\\")");</script>' +
      '<script type="module">await svcRun("four.js");</script><script type="module">await svcRun("index.html#2");</script>' +
      '<script type="application/json">{"a": 1}</script></body></html>',
  );
});

test('what keeps a page from being one document is named, with its file', () => {
  const files = {
    'index.html': withBody(
      '<script src="https://cdn.example/x.js"></script><iframe src="other.html"></iframe><img src="//img.example/a.png">' +
        '<script type="module" src="app.js"></script>',
    ),
    'app.js': "import './gone.js'; import 'bare'; import 'https://cdn.example/y.js'; import './wrong.js';",
    'wrong.js': 'let = 1 1;',
    'other.html': '',
  };
  assert.deepEqual(faultsOf(files), [
    'index.html: It needs https://cdn.example, and there is only what is in the app.',
    'index.html: It shows something in a frame, <iframe>, and hosts show no frames in a page.',
    'index.html: It needs http://img.example, and there is only what is in the app.',
    'app.js: It imports "./gone.js", and the app serves no such file.',
    'app.js: It imports "bare", and the app serves no such file.',
    'app.js: It needs https://cdn.example, and there is only what is in the app.',
    "wrong.js: Line 1, column 1: It does not parse: The keyword 'let' is reserved.",
  ]);
  assert.deepEqual(
    faultsOf({ 'index.html': '<link rel=stylesheet href=a.css>', 'a.css': '@import "http://x.example/b.css";' }),
    ['a.css: It needs http://x.example, and there is only what is in the app.'],
  );
});

test('what has no end ends at the limit', () => {
  const picture = Buffer.alloc(500_000);
  const many = 'p { background: url(a.png) }'.repeat(2000);
  assert.match(faultsOf({ 'index.html': `<style>${many}</style>`, 'a.png': picture }).join(), /^a\.png: The page has/);
  const sheets = Object.fromEntries(
    Array.from({ length: 40 }, (_, n) => [`${n}.css`, `@import "${n + 1}.css"; @import "${n + 1}.css?2";`]),
  );
  const page = { 'index.html': '<link rel="stylesheet" href="0.css">', ...sheets, '40.css': 'p { color: red }' };
  assert.match(faultsOf(page).join(), /^\d+\.css: The page has/);
  const texts = `let a = [${'"</script>", '.repeat(100_000)}]`;
  assert.ok(documentOf({ 'index.html': '<script src="a.js"></script>', 'a.js': texts }).includes('"\\x3C/script>"'));
});

test('files that are never served are not in it', () => {
  const files = { 'index.html': '<script type=module>import "./queries/list.js"</script>', 'queries/list.js': '1' };
  assert.deepEqual(faultsOf(files), ['index.html: It imports "./queries/list.js", and the app serves no such file.']);
});

test('a document has its limit, and what exceeds it is named', () => {
  const most = LIMITS.mcpPageBytes - LIMITS.mcpBridgeBytes;
  const page = '<img src="a.png"><img src="b.png">';
  const empty = documentOf({ 'index.html': `${page}<!---->`, 'a.png': '', 'b.png': '' }).length;
  const fits = { 'index.html': `${page}<!--${'x'.repeat(most - empty)}-->`, 'a.png': '', 'b.png': '' };
  assert.equal(documentOf(fits).length, most);
  assert.match(
    faultsOf({ ...fits, 'index.html': `${fits['index.html']} ` }).join(),
    /^index\.html: The page has 1,985 KiB/,
  );
  assert.deepEqual(faultsOf({ 'index.html': page, 'a.png': Buffer.alloc(900_000), 'b.png': Buffer.alloc(1_000_000) }), [
    'b.png: The page has 2,475 KiB with everything that it loads, and 1,984 KiB at most fit: b.png 1,303 KiB, a.png 1,172 KiB, index.html 1 KiB.',
  ]);
});
