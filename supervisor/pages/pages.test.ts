import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { pino } from 'pino';
import type { StaticEntry, VersionSummary } from '../../protocol/manifest.ts';
import { AppPaths } from '../../storage/layout.ts';
import { writeSettings } from '../../storage/settings.ts';
import { type Answer, send, serveExchanges } from '../../testing/exchange-server.ts';
import { EMBEDDED } from '../http/access/places.ts';
import { ConsoleFiles } from './console-files.ts';
import { Pages } from './pages.ts';

const CSP =
  "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'";
const HASH = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
const HTML = 'text/html; charset=utf-8';
const JS = 'text/javascript; charset=utf-8';
const SCRIPT = 'export const answer = 42;\n'.repeat(200);

/** An app with two versions as activation leaves them, and a server: `/svc/todos/…` is v2, `/svc/todos/_v/<version>/…`. */
async function setUp(t: TestContext, log = pino({ enabled: false })) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-pages-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const app = new AppPaths(folder);
  const pathsOf = (versionId: string) => app.version(versionId);

  const write = (path: string, content: string | Buffer): void => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  };
  const entries: Record<string, StaticEntry> = {
    'index.html': { type: HTML, etag: '"page"', bytes: 9, prepared: true, scriptHashes: [HASH] },
    'docs/index.html': { type: HTML, etag: '"docs"', bytes: 11, prepared: true, scriptHashes: [] },
    'app.js': {
      type: JS,
      etag: '"script"',
      bytes: SCRIPT.length,
      br: brotliCompressSync(SCRIPT).length,
      gzip: gzipSync(SCRIPT).length,
    },
    'a b/ü.svg': { type: 'image/svg+xml', etag: '"image"', bytes: 6 },
    'digits.json': { type: 'application/json; charset=utf-8', etag: '"digits"', bytes: 10 },
    'empty.css': { type: 'text/css; charset=utf-8', etag: '"empty"', bytes: 0 },
    'gone.css': { type: 'text/css; charset=utf-8', etag: '"gone"', bytes: 9 },
    'link.css': { type: 'text/css; charset=utf-8', etag: '"link"', bytes: 9 },
    'linked/secret.css': { type: 'text/css; charset=utf-8', etag: '"linked"', bytes: 9 },
    // An index that lists what may never be served.
    'app.json': { type: 'application/json', etag: '"manifest"', bytes: 2 },
    'queries/list.js': { type: JS, etag: '"handler"', bytes: 2 },
    '.env.json': { type: JS, etag: '"hidden"', bytes: 2 },
    '../secret.css': { type: 'text/css', etag: '"outside"', bytes: 9 },
  };
  for (const versionId of ['v1', 'v2']) {
    const { code, static: index, staticDir } = pathsOf(versionId);
    write(index, JSON.stringify(entries));
    write(join(staticDir, 'index.html'), `<p>${versionId}</p>`);
    write(join(staticDir, 'docs/index.html'), '<p>docs</p>');
    write(join(staticDir, 'app.js.br'), brotliCompressSync(SCRIPT));
    write(join(staticDir, 'app.js.gz'), gzipSync(SCRIPT));
    write(join(code, 'index.html'), 'not this one');
    write(join(code, 'app.js'), SCRIPT);
    write(join(code, 'a b/ü.svg'), '<svg/>');
    write(join(code, 'digits.json'), '0123456789');
    write(join(code, 'empty.css'), '');
    write(join(code, 'app.json'), '{}');
    write(join(code, 'queries/list.js'), '{}');
    write(join(code, '.env.json'), '{}');
    write(join(code, 'not-listed.js'), 'secret');
    write(join(code, '../secret.css'), 'secret');
    symlinkSync('../secret.css', join(code, 'link.css'));
    symlinkSync('..', join(code, 'linked'));
  }
  const clientFile = join(folder, 'client.js');
  const drawn: object[] = [];
  const drawTile = async (job: object): Promise<Uint8Array> => {
    drawn.push(job);
    return Buffer.from('png');
  };
  const pages = new Pages(log, drawTile);
  const consoleFiles = new ConsoleFiles(pino({ enabled: false }), (name) => join(folder, name));
  const port = await serveExchanges(t, (exchange) => {
    if (exchange.path === '/svc/_client.js') {
      void consoleFiles.serve(exchange, EMBEDDED, 'client.js');
      return;
    }
    const [, pinned, rest = ''] = /^\/svc\/todos(?:\/_v\/(v\d))?(.*)$/.exec(exchange.path) ?? [];
    const versionId = pinned ?? 'v2';
    const summary = { versionId, name: 'Todos', knobs: [] as unknown[] } as VersionSummary;
    void pages.serve(exchange, EMBEDDED, { id: 'todos', app, summary }, rest, pinned !== undefined);
  });
  return { app, drawn, pages, port, clientFile, pathsOf };
}

function assertPolicy(answer: Answer, label: string, csp = CSP): void {
  assert.equal(answer.headers['content-security-policy'], csp, label);
  assert.equal(answer.headers['x-content-type-options'], 'nosniff', label);
  assert.equal(answer.headers['referrer-policy'], 'no-referrer', label);
}

test('files are found by their decoded path only', async (t) => {
  const { port } = await setUp(t);
  const cases: [path: string, status: number, content: string][] = [
    ['/', 200, '<p>v2</p>'],
    ['/index.html', 200, '<p>v2</p>'],
    ['/docs/', 200, '<p>docs</p>'],
    ['/docs', 404, 'NOT_FOUND'],
    ['/docs//', 404, 'NOT_FOUND'],
    ['/app.js', 200, SCRIPT],
    ['/app%2ejs', 200, SCRIPT],
    ['/app.js?v=1', 200, SCRIPT],
    ['/a%20b/%C3%BC.svg', 200, '<svg/>'],
    ['/a%20b%2F%c3%bc.svg', 200, '<svg/>'],
    ['/empty.css', 200, ''],
    ['/_v/v1/', 200, '<p>v1</p>'],
    ['/_v/v1/index.html', 200, '<p>v1</p>'],
    ['/APP.JS', 404, 'NOT_FOUND'],
    ['//app.js', 404, 'NOT_FOUND'],
    ['/app.js/', 404, 'NOT_FOUND'],
    ['/app.js.br', 404, 'NOT_FOUND'],
    ['/not-listed.js', 404, 'NOT_FOUND'],
    ['/app.json', 404, 'NOT_FOUND'],
    ['/queries/list.js', 404, 'NOT_FOUND'],
    ['/.env.json', 404, 'NOT_FOUND'],
    ['/data.sqlite', 404, 'NOT_FOUND'],
    ['/../secret.css', 404, 'NOT_FOUND'],
    ['/%2e%2e/secret.css', 404, 'NOT_FOUND'],
    ['/..%2fsecret.css', 404, 'NOT_FOUND'],
    ['/..%5csecret.css', 404, 'NOT_FOUND'],
    ['/%252e%252e/secret.css', 404, 'NOT_FOUND'],
    ['/link.css', 404, 'NOT_FOUND'],
    ['/linked/secret.css', 404, 'NOT_FOUND'],
    ['/__proto__', 404, 'NOT_FOUND'],
    ['/toString.js', 404, 'NOT_FOUND'],
    ['/%', 400, 'BAD_REQUEST'],
    ['/%zz.js', 400, 'BAD_REQUEST'],
    ['/%ff.js', 400, 'BAD_REQUEST'],
    ['/index.html%00.js', 400, 'BAD_REQUEST'],
    ['/gone.css', 500, 'STORE_DAMAGED'],
  ];
  for (const [path, status, content] of cases) {
    const answer = await send(port, 'GET', `/svc/todos${path}`);
    const body = answer.body.toString();
    assert.equal(answer.status, status, path);
    assert.equal(status === 200 ? body : JSON.parse(body).error.code, content, path);
    assert.ok(status === 200 || !/secret|svc-pages|versions/.test(body), `${path}: ${body}`);
    assertPolicy(
      answer,
      path,
      path === '/' || path.endsWith('v1/') || path.endsWith('/index.html')
        ? CSP.replace("script-src 'self'", `script-src 'self' ${HASH}`)
        : CSP,
    );
  }
});

test('the folder without its slash redirects, with its query', async (t) => {
  const { port } = await setUp(t);
  const cases: [path: string, location: string][] = [
    ['/svc/todos', '/svc/todos/'],
    ['/svc/todos?theme=dark&x=/', '/svc/todos/?theme=dark&x=/'],
    ['/svc/todos/_v/v1?a', '/svc/todos/_v/v1/?a'],
  ];
  for (const [path, location] of cases) {
    const answer = await send(port, 'GET', path);
    assert.deepEqual([answer.status, answer.headers.location], [308, location]);
    assertPolicy(answer, path);
  }
});

test('HEAD answers like GET, without the body', async (t) => {
  const { port } = await setUp(t);
  for (const path of ['/', '/app.js', '/docs/', '/empty.css', '/_v/v1/app.js']) {
    const headers = { 'accept-encoding': 'br' };
    const get = await send(port, 'GET', `/svc/todos${path}`, headers);
    const head = await send(port, 'HEAD', `/svc/todos${path}`, { ...headers, range: 'bytes=0-1' });
    assert.equal(head.status, 200);
    assert.equal(head.body.length, 0);
    for (const name of [
      'content-type',
      'content-length',
      'content-encoding',
      'etag',
      'cache-control',
      'vary',
      'accept-ranges',
    ]) {
      assert.equal(head.headers[name], get.headers[name], `${path} ${name}`);
    }
  }
  assert.equal((await send(port, 'HEAD', '/svc/todos/nothing')).status, 404);
});

test('only files at addresses with a version are immutable, and pages never are', async (t) => {
  const { port } = await setUp(t);
  const cases: [path: string, cacheControl: string][] = [
    ['/', 'no-cache'],
    ['/app.js', 'no-cache'],
    ['/_v/v1/app.js', 'private, max-age=31536000, immutable'],
    ['/_v/v1/', 'no-cache'],
    ['/nothing.js', 'no-store'],
    ['/_v/v1/nothing.js', 'no-store'],
  ];
  for (const [path, cacheControl] of cases) {
    const answer = await send(port, 'GET', `/svc/todos${path}`);
    assert.equal(answer.headers['cache-control'], cacheControl, path);
  }
});

test('compressed copies go to clients that accept them, each with a separate tag', async (t) => {
  const { port } = await setUp(t);
  const cases: [
    accept: string | undefined,
    encoding: string | undefined,
    etag: string,
    decode: (body: Buffer) => Buffer,
  ][] = [
    ['gzip, deflate, br', 'br', '"script-br"', brotliDecompressSync],
    ['br;q=0, gzip', 'gzip', '"script-gzip"', gunzipSync],
    ['br;q=0.1, gzip;q=0.2', 'gzip', '"script-gzip"', gunzipSync],
    ['identity', undefined, '"script"', (body) => body],
    [undefined, undefined, '"script"', (body) => body],
  ];
  for (const [accept, encoding, etag, decode] of cases) {
    const answer = await send(
      port,
      'GET',
      '/svc/todos/app.js',
      accept === undefined ? {} : { 'accept-encoding': accept },
    );
    assert.deepEqual([answer.headers['content-encoding'], answer.headers.etag], [encoding, etag], accept);
    assert.equal(answer.headers.vary, 'accept-encoding');
    assert.equal(answer.headers['content-length'], String(answer.body.length));
    assert.equal(decode(answer.body).toString(), SCRIPT);
  }
  assert.equal(
    (await send(port, 'GET', '/svc/todos/digits.json', { 'accept-encoding': 'br' })).headers.vary,
    undefined,
  );
});

test('If-None-Match', async (t) => {
  const { port } = await setUp(t);
  const br = { 'accept-encoding': 'br' };
  const cases: [headers: Record<string, string>, status: number][] = [
    [{ 'if-none-match': '"script"' }, 304],
    [{ 'if-none-match': 'W/"x", W/"script"' }, 304],
    [{ 'if-none-match': '*' }, 304],
    [{ 'if-none-match': '"other"' }, 200],
    [{ 'if-none-match': '"script-br"' }, 200],
    [{ 'if-none-match': '"script-br"', ...br }, 304],
    [{ 'if-none-match': '"script"', ...br }, 200],
    [{ 'if-none-match': '"script"', range: 'bytes=0-1' }, 304],
  ];
  for (const [headers, status] of cases) {
    for (const method of ['GET', 'HEAD']) {
      const answer = await send(port, method, '/svc/todos/_v/v1/app.js', headers);
      assert.equal(answer.status, status, `${method} ${JSON.stringify(headers)}`);
      if (status !== 304) continue;
      assert.equal(answer.body.length, 0);
      assert.equal(answer.headers['cache-control'], 'private, max-age=31536000, immutable');
      assert.equal(answer.headers.vary, 'accept-encoding');
      assert.ok(answer.headers.etag);
      assertPolicy(answer, method);
    }
  }
});

test('ranges', async (t) => {
  const { port } = await setUp(t);
  const cases: [headers: Record<string, string>, status: number, body: string, contentRange: string | undefined][] = [
    [{ range: 'bytes=2-4' }, 206, '234', 'bytes 2-4/10'],
    [{ range: 'bytes=7-' }, 206, '789', 'bytes 7-9/10'],
    [{ range: 'bytes=-2' }, 206, '89', 'bytes 8-9/10'],
    [{ range: 'bytes=0-999' }, 206, '0123456789', 'bytes 0-9/10'],
    [{ range: 'bytes=0-1,4-5' }, 200, '0123456789', undefined],
    [{ range: 'bytes=4-2' }, 200, '0123456789', undefined],
    [{ range: 'items=0-1' }, 200, '0123456789', undefined],
    [{ range: 'bytes=2-4', 'if-range': '"digits"' }, 206, '234', 'bytes 2-4/10'],
    [{ range: 'bytes=2-4', 'if-range': '"older"' }, 200, '0123456789', undefined],
    [{ range: 'bytes=10-', 'if-range': '"older"' }, 200, '0123456789', undefined],
  ];
  for (const [headers, status, body, contentRange] of cases) {
    const answer = await send(port, 'GET', '/svc/todos/digits.json', headers);
    assert.equal(answer.status, status, JSON.stringify(headers));
    assert.equal(answer.body.toString(), body);
    assert.equal(answer.headers['content-range'], contentRange);
    assert.equal(answer.headers['accept-ranges'], 'bytes');
    assert.equal(answer.headers.etag, '"digits"');
  }
  for (const [path, size] of [
    ['digits.json', 10],
    ['empty.css', 0],
  ]) {
    const answer = await send(port, 'GET', `/svc/todos/${path}`, { range: 'bytes=10-' });
    assert.deepEqual([answer.status, answer.headers['content-range']], [416, `bytes */${size}`]);
    assert.equal(JSON.parse(answer.body.toString()).error.code, 'RANGE_NOT_SATISFIABLE');
    assertPolicy(answer, '416');
  }
});

test('a range is one of the file itself, not of a compressed copy', async (t) => {
  const { port } = await setUp(t);
  const answer = await send(port, 'GET', '/svc/todos/app.js', { range: 'bytes=7-11', 'accept-encoding': 'br' });
  assert.deepEqual([answer.status, answer.body.toString(), answer.headers.etag], [206, 'const', '"script"']);
  assert.equal(answer.headers['content-encoding'], undefined);
  const several = await send(port, 'GET', '/svc/todos/app.js', { range: 'bytes=0-1,3-4', 'accept-encoding': 'br' });
  assert.deepEqual([several.status, several.headers['content-encoding']], [200, 'br']);
});

test('the web app manifest is made of the version and the settings, with what every file is answered with', async (t) => {
  const { port, app } = await setUp(t);
  const answer = await send(port, 'GET', '/svc/todos/manifest.webmanifest');
  assert.deepEqual([answer.status, answer.headers['content-type']], [200, 'application/manifest+json']);
  assert.equal(answer.headers['cache-control'], 'no-cache');
  assertPolicy(answer, 'manifest');
  const { name, theme_color } = JSON.parse(answer.body.toString());
  assert.deepEqual([name, theme_color], ['Todos', undefined]);

  const head = await send(port, 'HEAD', '/svc/todos/manifest.webmanifest');
  assert.deepEqual([head.status, head.body.length], [200, 0]);
  for (const header of ['content-type', 'content-length', 'etag', 'cache-control'])
    assert.equal(head.headers[header], answer.headers[header], header);
  const known = { 'if-none-match': answer.headers.etag as string };
  assert.equal((await send(port, 'GET', '/svc/todos/manifest.webmanifest', known)).status, 304);
  await writeSettings(app, { appAccent: '#b22222' });
  const changed = await send(port, 'GET', '/svc/todos/manifest.webmanifest', known);
  assert.equal(JSON.parse(changed.body.toString()).theme_color, '#b22222');

  writeFileSync(app.settings, '{');
  const damaged = await send(port, 'GET', '/svc/todos/manifest.webmanifest');
  assert.deepEqual([damaged.status, JSON.parse(damaged.body.toString()).error.code], [500, 'STORE_DAMAGED']);
});

test('an app that brings a web app manifest has that one, and one without a page has none', async (t) => {
  const { port, pages, pathsOf } = await setUp(t);
  const { static: index, code } = pathsOf('v2');
  const own = { type: 'application/manifest+json', etag: '"own"', bytes: 2 };
  writeFileSync(join(code, 'manifest.webmanifest'), '{}');
  const get = async (entries: Record<string, StaticEntry>) => {
    writeFileSync(index, JSON.stringify(entries));
    pages.forget('todos');
    return send(port, 'GET', '/svc/todos/manifest.webmanifest');
  };
  const page = { type: HTML, etag: '"page"', bytes: 9, prepared: true };
  const answer = await get({ 'index.html': page, 'manifest.webmanifest': own });
  assert.deepEqual([answer.body.toString(), answer.headers.etag], ['{}', '"own"']);
  assert.equal((await get({ 'docs/index.html': page })).status, 404);
});

test('icons of an app without one are drawn once, for those who ask', async (t) => {
  const { drawn, pages, port, pathsOf } = await setUp(t);
  const get = (path: string, headers = {}) => send(port, 'GET', `/svc/todos${path}`, headers);
  const [icon] = await Promise.all([get('/icon-192.png'), get('/_v/v1/icon-192.png')]);
  assert.deepEqual([icon.status, icon.body.toString(), icon.headers['content-type']], [200, 'png', 'image/png']);
  assertPolicy(icon, 'icon');
  assert.equal((await get('/icon-192.png', { 'if-none-match': icon.headers.etag as string })).status, 304);
  assert.deepEqual(drawn, [{ app: 'todos', name: 'icon-192.png' }]);
  assert.equal((await get('/apple-touch-icon.png')).status, 200);
  assert.equal((await get('/icon-64.png')).status, 404);
  const { icons } = JSON.parse((await get('/manifest.webmanifest')).body.toString());
  assert.equal(icons.length, 3);

  const svg = { type: 'image/svg+xml', etag: '"svg"', bytes: 6 };
  writeFileSync(pathsOf('v2').static, JSON.stringify({ 'index.html': svg, 'icon.svg': svg }));
  pages.forget('todos');
  assert.equal((await get('/icon-192.png')).status, 404, 'it has one, of which nothing was drawn');
  writeFileSync(pathsOf('v2').static, JSON.stringify({ 'docs.html': svg }));
  pages.forget('todos');
  assert.equal((await get('/icon-192.png')).status, 404, 'it has no page');
});

test('a file is read once, for many at a time, until its version is forgotten', async (t) => {
  const { pages, port, pathsOf } = await setUp(t);
  const get = async (path: string) => (await send(port, 'GET', `/svc/todos${path}`)).body.toString();
  const first = await Promise.all(Array.from({ length: 20 }, () => get('/digits.json')));
  assert.deepEqual(new Set(first), new Set(['0123456789']));
  assert.equal(await get('/_v/v1/digits.json'), '0123456789');

  for (const versionId of ['v1', 'v2']) writeFileSync(join(pathsOf(versionId).code, 'digits.json'), 'is changed');
  assert.equal(await get('/digits.json'), '0123456789');
  pages.forget('todos', 'v2');
  assert.deepEqual([await get('/digits.json'), await get('/_v/v1/digits.json')], ['is changed', '0123456789']);
  pages.forget('todos');
  assert.equal(await get('/_v/v1/digits.json'), 'is changed');
});

test('a file of another size is not served under its tag, and is named in the log once', async (t) => {
  const lines: string[] = [];
  const { port, pathsOf } = await setUp(
    t,
    pino({ level: 'error' }, { write: (line: string) => void lines.push(line) }),
  );
  const { code, staticDir } = pathsOf('v1');
  writeFileSync(join(code, 'digits.json'), '01234');
  writeFileSync(join(staticDir, 'app.js.br'), 'short');
  for (const [path, encoding, what] of [
    ['digits.json', 'identity', 'digits.json'],
    ['app.js', 'br', 'the copy app.js.br that is served'],
  ] as const) {
    for (let turn = 0; turn < 2; turn++) {
      const answer = await send(port, 'GET', `/svc/todos/_v/v1/${path}`, { 'accept-encoding': encoding });
      const { error } = JSON.parse(answer.body.toString());
      assert.deepEqual([answer.status, error.code], [500, 'STORE_DAMAGED'], path);
      assert.match(error.message, new RegExp(`"todos" is damaged: ${what} is missing or has another size`));
      assert.equal(answer.headers['cache-control'], 'no-store');
      assert.equal(answer.headers.etag, undefined);
    }
    assert.equal(lines.filter((line) => line.includes(what)).length, 1);
  }
  assert.equal((await send(port, 'GET', '/svc/todos/_v/v1/app.js')).body.toString(), SCRIPT, 'the others are served');
});

test('the client script', async (t) => {
  const { port, clientFile } = await setUp(t);
  assert.equal((await send(port, 'GET', '/svc/_client.js')).status, 500, 'not built yet');
  const script = 'window.svc = {};';
  writeFileSync(clientFile, script);
  writeFileSync(`${clientFile}.br`, brotliCompressSync(script));
  writeFileSync(`${clientFile}.gz`, gzipSync(script));
  const answer = await send(port, 'GET', '/svc/_client.js');
  assert.deepEqual([answer.status, answer.body.toString()], [200, script]);
  assert.deepEqual([answer.headers['content-type'], answer.headers['cache-control']], [JS, 'no-cache']);
  assertPolicy(answer, 'client script');
  const again = await send(port, 'GET', '/svc/_client.js', { 'if-none-match': answer.headers.etag as string });
  assert.equal(again.status, 304);
});
