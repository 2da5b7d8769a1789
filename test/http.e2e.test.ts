/**
 * The HTTP surface around the apps, on both edges: access, methods, limits, static files, settings (specification,
 * "Conventions of HTTP").
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { LIMITS } from '../protocol/limits.ts';
import { rotateToken } from '../storage/token.ts';
import { appOf, automation } from '../testing/apps.ts';
import { eventually, onEachEdge, rawRequest, sendRaw } from '../testing/edges.ts';
import { openEvents } from '../testing/exchange-server.ts';
import { type Answer, root } from '../testing/gateway.ts';
import { Origin, sessionOf } from '../testing/origins.ts';

const PNG = Buffer.from('89504e470d0a1a0a0001ff', 'hex');
const STYLE = 'body { color: black; }\n'.repeat(200);
const INLINE = "document.title = 'x';";
const BRIDGE = '<script src="/svc/_client.js" data-app="site"></script>';
const KNOBS = [
  {
    key: 'size',
    label: 'Size',
    type: 'segmented',
    default: 'm',
    options: [
      { value: 'm', label: 'M' },
      { value: 'l', label: 'L' },
    ],
  },
];

const SITE = appOf('site', {
  manifest: { knobs: KNOBS },
  migrations: ['CREATE TABLE t (x)'],
  queries: { echo: '({ input, log }) => { log.info("asked", { input }); return input; }' },
  actions: { go: { run: '() => null', writes: ['t'] } },
  files: {
    'index.html': `<!doctype html><head><title>Site</title></head><script>${INLINE}</script><p>Hello`,
    'plain.html': '<p>No script',
    'sub/index.html': '<p>Below',
    'style.css': STYLE,
    'small.js': 'let a;',
    'picture.png': PNG,
    'a b+ü.json': '{}',
    'notes.txt': 'not served',
    'readme.md': 'not served',
    'sub/app.json': '{}',
    'automations/x/automation.json': automation({ triggers: [{ kind: 'webhook', pending: true }] }),
    'automations/x/handler.js': 'export default () => {};',
  },
});

const policy = (hashes = '') =>
  `default-src 'self'; script-src 'self'${hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self' http://svc.localhost:PORT`;
const PLAIN = policy();
const HASHED = policy(` 'sha256-${createHash('sha256').update(INLINE).digest('base64')}'`);

function isError({ status, headers, json }: Answer, wanted: number, code: string): void {
  assert.deepEqual([status, json.isError, json.error.code], [wanted, true, code]);
  assert.equal(typeof json.error.message, 'string');
  assert.equal(headers['content-type'], 'application/json; charset=utf-8');
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['referrer-policy'], 'no-referrer');
}

function decoded({ headers, bytes }: Pick<Answer, 'headers' | 'bytes'>): Buffer {
  const encoding = headers['content-encoding'];
  return encoding === 'br' ? brotliDecompressSync(bytes) : encoding === 'gzip' ? gunzipSync(bytes) : bytes;
}

/** Paths → what they are served as. */
const FILES: [path: string, type: string, body: string | Buffer, policy: string][] = [
  [
    '',
    'text/html; charset=utf-8',
    `<!doctype html><head>${BRIDGE}<title>Site</title></head><script>${INLINE}</script><p>Hello`,
    HASHED,
  ],
  [
    'index.html',
    'text/html; charset=utf-8',
    `<!doctype html><head>${BRIDGE}<title>Site</title></head><script>${INLINE}</script><p>Hello`,
    HASHED,
  ],
  ['plain.html', 'text/html; charset=utf-8', `${BRIDGE}<p>No script`, PLAIN],
  ['sub/', 'text/html; charset=utf-8', `${BRIDGE}<p>Below`, PLAIN],
  ['style.css', 'text/css; charset=utf-8', STYLE, PLAIN],
  ['style.css?v=1', 'text/css; charset=utf-8', STYLE, PLAIN],
  ['%73tyle.css', 'text/css; charset=utf-8', STYLE, PLAIN],
  ['small.js', 'text/javascript; charset=utf-8', 'let a;', PLAIN],
  ['picture.png', 'image/png', PNG, PLAIN],
  ['a%20b+%C3%BC.json', 'application/json; charset=utf-8', '{}', PLAIN],
];

/** Sent unchanged; none of them is a file. */
const NO_FILES: [target: string, status: number][] = [
  ['/svc/site/missing.html', 404],
  ['/svc/site/sub', 404],
  ['/svc/site/app.json', 404],
  ['/svc/site/APP.JSON', 404],
  ['/svc/site/%61pp.json', 404],
  ['/svc/site/sub/app.json', 404],
  ['/svc/site/_registry.json', 404],
  ['/svc/site/data.sqlite', 404],
  ['/svc/site/queries/echo.js', 404],
  ['/svc/site/Queries/echo.js', 404],
  ['/svc/site/queries%2fecho.js', 404],
  ['/svc/site//queries/echo.js', 404],
  ['/svc/site/./queries/echo.js', 404],
  ['/svc/site/sub/../queries/echo.js', 404],
  ['/svc/site/actions/go.js', 404],
  ['/svc/site/migrations/0001_step.sql', 404],
  ['/svc/site/automations/x/automation.json', 404],
  ['/svc/site/automations/x/handler.js', 404],
  ['/svc/site/notes.txt', 404],
  ['/svc/site/readme.md', 404],
  ['/svc/site/.env.json', 404],
  ['/svc/site/sub//index.html', 404],
  ['/svc/site/../site/style.css', 404],
  ['/svc/site/%2e%2e/site/style.css', 404],
  ['/svc/site/..%2f..%2f..%2f..%2ftoken.bin', 404],
  ['/svc/site/%2e%2e%2f%2e%2e%2fcurrent.json', 404],
  ['/svc/site/..%5c..%5ccurrent.json', 404],
  ['/svc/site/..\\..\\current.json', 404],
  ['/svc/site/%252e%252e/current.json', 404],
  ['/svc/site/....//current.json', 404],
  ['/svc/site/%2fetc/passwd.html', 404],
  ['/svc/site/style.css%00.html', 400],
  ['/svc/site/%00', 400],
  ['/svc/site/%', 400],
  ['/svc/site/%zz.html', 400],
  ['/svc/site/%c3.html', 400],
  ['/svc/%c3/index.html', 400],
  ['/svc/%zz/', 400],
  ['/svc/_tool/%', 400],
  ['/svc/_apps/%e0%a4%a', 400],
  ['/svc/site/__proto__', 404],
  ['/svc/site/constructor.js', 404],
  ['/svc/site/_v/nothing/style.css', 404],
  ['/svc/site/_v/..%2f..%2f/style.css', 404],
  ['/svc/site/_v/v_20200101T000000000Z_abcdef/style.css', 404],
  ['/svc/nobody/', 404],
  ['/svc/nobody', 404],
  ['/svc/Site/', 404],
  ['/svc/_unknown', 404],
  ['/svc/_tool', 404],
  ['/svcx', 404],
  ['/svcx/site/', 404],
  ['/svc.', 404],
  ['/SVC/', 404],
  ['/svc//', 404],
  ['//svc/site/', 404],
  ['//', 404],
  ['/', 404],
  ['/_svc-userx/id', 404],
  ['/_svc-user', 404],
];

/** Method, path → the methods that `Allow` names. */
const WRONG_METHODS: [method: string, path: string, allow: string][] = [
  ['GET', '/svc/_tool/svc_read', 'POST, OPTIONS'],
  ['HEAD', '/svc/_tool/svc_read', 'POST, OPTIONS'],
  ['PUT', '/svc/_apps', 'GET, HEAD, POST, OPTIONS'],
  ['PUT', '/svc/_apps/site', 'GET, HEAD, DELETE, OPTIONS'],
  ['GET', '/svc/_apps/site/upload', 'POST, OPTIONS'],
  ['PATCH', '/svc/_apps/site/settings', 'GET, HEAD, PUT, OPTIONS'],
  ['DELETE', '/svc/_health', 'GET, HEAD, OPTIONS'],
  ['POST', '/svc/site/style.css', 'GET, HEAD, OPTIONS'],
  ['POST', '/svc/', 'GET, HEAD, OPTIONS'],
  ['PUT', '/svc/_session', 'POST, GET, HEAD, DELETE, OPTIONS'],
];

/** The build names the parts of the console's script by what is in them. */
const CONSOLE_PART = readdirSync(join(root, 'dist/console/_console')).find((name) => name.endsWith('.js'));

/** Whose GET takes no token. */
const OPEN = [
  '/svc',
  '/svc/',
  '/svc/_health',
  '/svc/_openapi.json',
  '/svc/_client.js',
  '/svc/_dev.js',
  '/svc/_console.js',
  `/svc/_console/${CONSOLE_PART}`,
  '/svc/_console.css',
  '/svc/_enter',
  '/svc/_enter.js',
  '/svc/_push.js',
  '/svc/_docs/backup.md',
  '/favicon.ico',
];
const CLOSED = [
  '/svc/_apps',
  '/svc/_system',
  '/svc/_metrics',
  '/svc/site/_openapi.json',
  '/svc/_logs?app=site',
  '/svc/site/',
  '/svc/site',
  '/svc/site/_changes',
  '/svc/nobody/',
  '/_svc-user/id',
  '/nothing',
];

const ACCEPTED: [accept: string, encoding: string | undefined][] = [
  ['br', 'br'],
  ['gzip', 'gzip'],
  ['gzip, deflate, br', 'br'],
  ['gzip;q=1, br;q=0.5', 'gzip'],
  ['*', 'br'],
  ['br;q=0, gzip', 'gzip'],
  ['identity', undefined],
  ['deflate', undefined],
  ['', undefined],
  ['br;q=0', undefined],
];

const RANGES: [range: string, status: number, contentRange: string | undefined, body: string | undefined][] = [
  ['bytes=0-3', 206, `bytes 0-3/${STYLE.length}`, 'body'],
  ['bytes=5-5', 206, `bytes 5-5/${STYLE.length}`, '{'],
  ['bytes=-3', 206, `bytes ${STYLE.length - 3}-${STYLE.length - 1}/${STYLE.length}`, ' }\n'.slice(-3)],
  [`bytes=${STYLE.length - 2}-`, 206, `bytes ${STYLE.length - 2}-${STYLE.length - 1}/${STYLE.length}`, '}\n'],
  ['bytes=0-999999', 206, `bytes 0-${STYLE.length - 1}/${STYLE.length}`, STYLE],
  ['bytes=999999-', 416, `bytes */${STYLE.length}`, undefined],
  ['bytes=-0', 416, `bytes */${STYLE.length}`, undefined],
  ['bytes=3-1', 200, undefined, STYLE],
  ['bytes=0-1,3-4', 200, undefined, STYLE],
  ['lines=1-2', 200, undefined, STYLE],
  ['bytes=a-b', 200, undefined, STYLE],
];

// As few descriptors as `svc serve` takes.
onEachEdge({ descriptors: 512 }, (gateway, edge) => {
  const get = (path: string, headers: Record<string, string> = {}) => gateway.call('GET', path, { headers });
  let versionId = '';
  before(async () => {
    const answer = await gateway.upload('site', SITE);
    assert.equal(answer.status, 201, answer.text);
    versionId = answer.json.versionId;
  });

  test('the log names the limit of open files that is too low for the apps that may be live, and what it should be', () => {
    assert.match(gateway.log, /may open 512 files here.*ulimit -n (\d+), in a service LimitNOFILE=\1/);
  });

  test('an address that no app can have is NOT_FOUND, one that an app may have UNKNOWN_APP', async () => {
    for (const path of ['/svc/_zzz', '/svc/_zzz/', '/svc/_apps/', '/svc/Site/', '/svc/_zzz/_changes'])
      isError(await gateway.call('GET', path), 404, 'NOT_FOUND');
    for (const path of ['/svc/nobody/', '/svc/nobody/_changes'])
      isError(await gateway.call('GET', path), 404, 'UNKNOWN_APP');
    isError(await gateway.call('GET', '/_svc-conversations/apps/site/nothing'), 404, 'NOT_FOUND');
  });

  test('lists come in pages, by the keys of their rows', async () => {
    const ids = async (query: string) =>
      (await gateway.call('GET', `/svc/_apps${query}`)).json.map(({ id }: { id: string }) => id);
    for (const id of ['aa', 'zz']) assert.equal((await gateway.upload(id, appOf(id))).status, 201);
    const all = await ids('');
    assert.deepEqual(all, [...all].sort());
    assert.deepEqual(await ids('?limit=1'), ['aa']);
    assert.deepEqual(await ids('?limit=1&after=aa'), [all[1]]);
    assert.deepEqual(await ids('?limit=1&before=zz'), [all.at(-2)]);
    assert.deepEqual(await ids('?after=aa&before=zz'), all.slice(1, -1));
    const refs = async (query: string) => {
      const { rows, total } = (await gateway.call('GET', `/svc/_automations${query}`)).json;
      return [rows.map(({ ref }: { ref: string }) => ref), total];
    };
    assert.equal(
      (await gateway.upload('zz', appOf('zz', { automations: { a: '() => ({})', b: '() => ({})' } }))).status,
      201,
    );
    assert.deepEqual(await refs('?app=zz&limit=1'), [['zz/a'], 2]);
    assert.deepEqual(await refs('?app=zz&after=zz/a'), [['zz/b'], 2]);
    assert.deepEqual(await refs('?app=zz&before=zz/b'), [['zz/a'], 2]);
    for (const [path, name] of [
      ['/svc/_apps?limit=0', 'limit'],
      ['/svc/_apps?limit=501', 'limit'],
      ['/svc/_apps?before=_x', 'before'],
      ['/svc/_automations?limit=x', 'limit'],
      ['/svc/_automations?after=zz', 'after'],
    ] as const) {
      const answer = await gateway.call('GET', path);
      isError(answer, 400, 'BAD_REQUEST');
      assert.equal(answer.json.error.path, name);
    }
    for (const id of ['aa', 'zz']) await gateway.call('DELETE', `/svc/_apps/${id}?purge=1`);
  });

  describe('access', () => {
    const bad: [what: string, headers: Record<string, string>][] = [
      ['nothing', {}],
      ['a wrong token', { authorization: `Bearer ${'0'.repeat(64)}` }],
      ['an empty token', { authorization: 'Bearer ' }],
      ['another scheme', { authorization: 'Basic YTpi' }],
      ['a made-up cookie', { cookie: `svc_session=${Date.now() + 1e6}/${'0'.repeat(16)}/console/${'0'.repeat(64)}` }],
    ];
    for (const [what, headers] of bad) {
      test(`${what} is UNAUTHORIZED`, async () => {
        for (const path of CLOSED) {
          const answer = await gateway.call('GET', path, { token: null, headers });
          isError(answer, 401, 'UNAUTHORIZED');
          assert.equal(answer.headers['www-authenticate'], 'Bearer');
        }
        for (const path of ['/svc/_tool/svc_read', '/svc/_apps/site/upload', '/svc/_session', '/svc/_tool/nothing']) {
          isError(await gateway.call('POST', path, { token: null, headers, body: '{}' }), 401, 'UNAUTHORIZED');
        }
      });
    }

    test('the token works with a scheme in any case, but not in the address', async () => {
      assert.equal(
        (
          await gateway.call('GET', '/svc/_apps', {
            token: null,
            headers: { authorization: `bearer ${gateway.token}` },
          })
        ).status,
        200,
      );
      assert.equal((await gateway.call('GET', `/svc/_apps?token=${gateway.token}`, { token: null })).status, 401);
    });

    for (const path of OPEN) {
      test(`${path} is open`, async () => assert.ok((await gateway.call('GET', path, { token: null })).status < 400));
    }

    test('health says only that the gateway is up', async () => {
      const { json, headers } = await gateway.call('GET', '/svc/_health', { token: null });
      assert.deepEqual(Object.keys(json), ['ok', 'version']);
      assert.equal(json.ok, true);
      assert.equal(headers['cache-control'], 'no-store');
    });
  });

  describe('the session cookie', () => {
    const port = () => new URL(gateway.url).port;
    const site = () => `site.svc.localhost:${port()}`;
    const withCookie = (method: string, path: string, headers: Record<string, string>, body?: unknown) =>
      gateway.call(method, path, {
        token: null,
        headers: { host: site(), cookie: `a=b; ${cookie}`, 'svc-page-key': pageKey, ...headers },
        ...(body === undefined ? {} : { body }),
      });
    let cookie = '';
    let pageKey = '';

    test('is given for the token, at the console, and handed on to a page', async () => {
      const host = `svc.localhost:${port()}`;
      const answer = await gateway.call('POST', '/svc/_session', { headers: { host } });
      const [header] = answer.headers['set-cookie'] as string[];
      assert.deepEqual([answer.status, answer.json.ok, answer.headers['cache-control']], [200, true, 'no-store']);
      assert.match(
        header ?? '',
        /^__Host-svc_session=[^;]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure$/,
      );
      assert.ok(!header?.includes(gateway.token));
      const console = (header ?? '').split(';')[0] as string;
      assert.match(answer.json.pageKey, /^[0-9a-f]{64}$/);
      const browser = new Origin(gateway, host, console, answer.json.pageKey);
      const way = await browser.wayTo(`http://${site()}/svc/site/plain.html?a=1`);
      const entered = await new Origin(gateway, site(), '').enter(way);
      assert.deepEqual([entered.status, entered.json.to], [200, '/svc/site/plain.html?a=1']);
      assert.equal(entered.headers['cache-control'], 'no-store');
      ({ cookie, pageKey } = sessionOf(gateway, site(), entered));
    });

    const own = () => `http://${site()}`;
    const cases: [what: string, method: string, path: string, headers: () => Record<string, string>, status: number][] =
      [
        ['a page', 'GET', '/svc/site/', () => ({ 'sec-fetch-site': 'same-origin' }), 200],
        [
          'a page that the user opens by its address',
          'GET',
          '/svc/site/',
          () => ({ 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' }),
          200,
        ],
        [
          'a call from our page',
          'POST',
          '/svc/_tool/svc_describe',
          () => ({ 'sec-fetch-site': 'same-origin', origin: own() }),
          200,
        ],
        ['a call from our page, without Sec-Fetch', 'POST', '/svc/_tool/svc_describe', () => ({ origin: own() }), 200],
        [
          'a call from another site',
          'POST',
          '/svc/_tool/svc_describe',
          () => ({ 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }),
          403,
        ],
        [
          'a call from another port of this host',
          'POST',
          '/svc/_tool/svc_describe',
          () => ({ 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:1' }),
          403,
        ],
        [
          'a call from another origin, without Sec-Fetch',
          'POST',
          '/svc/_tool/svc_describe',
          () => ({ origin: 'https://evil.example' }),
          403,
        ],
        ['a call from nowhere', 'POST', '/svc/_tool/svc_describe', () => ({}), 403],
        ['a call from a sandboxed frame', 'POST', '/svc/_tool/svc_describe', () => ({ origin: 'null' }), 403],
        [
          'a deletion by an address that the user opens',
          'DELETE',
          '/svc/_apps/site',
          () => ({ 'sec-fetch-site': 'none' }),
          403,
        ],
        [
          'a frame in another origin of the site, which the policy of the page does not let show it',
          'GET',
          '/svc/site/',
          () => ({ 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' }),
          200,
        ],
        [
          'an event stream of another site',
          'GET',
          '/svc/site/_changes',
          () => ({ 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }),
          403,
        ],
        [
          'a script of another origin of the site',
          'GET',
          '/svc/site/small.js',
          () => ({ 'sec-fetch-site': 'same-site', 'sec-fetch-dest': 'script' }),
          403,
        ],
      ];
    for (const [what, method, path, headers, status] of cases) {
      test(`${what}: ${status}`, async () => {
        const answer = await withCookie(method, path, headers(), method === 'POST' ? {} : undefined);
        assert.equal(answer.status, status, answer.text);
        if (status === 403) isError(answer, 403, 'FORBIDDEN');
      });
    }

    test('opens a change stream', async () => {
      const headers = { host: site(), cookie, 'svc-page-key': pageKey, 'sec-fetch-site': 'same-origin' };
      const stream = await openEvents(Number(port()), '/svc/site/_changes', headers);
      assert.equal(stream.headers['content-type'], 'text/event-stream');
      stream.close();
    });

    test('cannot be made to last longer', async () => {
      const longer = cookie.replace(/=(\d+)/, (_all, expires) => `=${Number(expires) + 1000}`);
      const headers = { host: site(), cookie: longer, 'sec-fetch-site': 'same-origin' };
      assert.equal((await gateway.call('GET', '/svc/site/', { token: null, headers })).status, 401);
    });

    test('ends, like the token, when the token is rotated under the running daemon', async () => {
      const old = gateway.token;
      const open = await Promise.all(
        ['/svc/site/_changes', '/svc/_runs/_events', '/svc/_logs?follow=1', '/svc/_logs?app=site&follow=1'].map(
          (path) => gateway.stream(path),
        ),
      );
      gateway.token = await rotateToken(join(gateway.dataDir, 'token.bin'));
      assert.notEqual(gateway.token, old);
      await eventually(async () => (await gateway.call('GET', '/svc/_apps')).status === 200);
      isError(await gateway.call('GET', '/svc/_apps', { token: old }), 401, 'UNAUTHORIZED');
      // Streams that were opened with the old token end with it.
      await Promise.all(open.map((stream) => stream.ended()));
      isError(await withCookie('GET', '/svc/site/', { 'sec-fetch-site': 'same-origin' }), 401, 'UNAUTHORIZED');
    });
  });

  describe('methods', () => {
    for (const [method, path, allow] of WRONG_METHODS) {
      test(`${method} ${path} is refused`, async () => {
        const answer = await gateway.call(method, path);
        assert.deepEqual([answer.status, answer.headers.allow], [405, allow]);
        if (method !== 'HEAD') isError(answer, 405, 'METHOD_NOT_ALLOWED');
      });
    }

    for (const path of [
      '/svc/_apps',
      '/svc/site/',
      '/svc/site/style.css',
      '/svc/_health',
      '/svc/_system',
      '/svc/_client.js',
      '/svc/',
      '/svc/_apps/site/settings',
    ]) {
      test(`HEAD ${path} is GET without the body`, async () => {
        const [one, other] = [await get(path), await gateway.call('HEAD', path)];
        assert.deepEqual([other.status, other.text], [one.status, '']);
        for (const name of ['content-type', 'etag', 'cache-control', 'content-security-policy'])
          assert.equal(other.headers[name], one.headers[name]);
        if (path !== '/svc/_system') assert.equal(other.headers['content-length'], one.headers['content-length']);
      });
    }

    test('OPTIONS says what is allowed, without a token and without CORS headers', async () => {
      const answer = await gateway.call('OPTIONS', '/svc/_apps/site', {
        token: null,
        headers: { origin: 'https://a.example' },
      });
      assert.deepEqual([answer.status, answer.headers.allow, answer.text], [204, 'GET, HEAD, DELETE, OPTIONS', '']);
      isError(await gateway.call('OPTIONS', '/nothing', { token: null }), 404, 'NOT_FOUND');
    });
  });

  describe('bodies', () => {
    const describeBody = (length: number) => `{}${' '.repeat(length - 2)}`;
    const chunked = (length: number) =>
      sendRaw(
        gateway,
        `${rawRequest(gateway, 'POST', '/svc/_tool/svc_describe', ['transfer-encoding: chunked'])}${length.toString(16)}\r\n${describeBody(length)}\r\n0\r\n\r\n`,
      );

    test('1 MiB is taken, and a byte more is not', async () => {
      assert.equal(
        (await gateway.call('POST', '/svc/_tool/svc_describe', { body: describeBody(LIMITS.requestBodyBytes) })).status,
        200,
      );
      const declared = rawRequest(gateway, 'POST', '/svc/_tool/svc_describe', [
        `content-length: ${LIMITS.requestBodyBytes + 1}`,
      ]);
      const answer = await sendRaw(gateway, declared + describeBody(LIMITS.requestBodyBytes + 1));
      assert.deepEqual([answer.status, JSON.parse(answer.body).error.code], [413, 'PAYLOAD_TOO_LARGE']);
    });

    test(`in chunks: ${edge === 'node' ? 'the same' : 'not taken at all'}`, async () => {
      const [whole, more] = [await chunked(LIMITS.requestBodyBytes), await chunked(LIMITS.requestBodyBytes + 1)];
      if (edge === 'node') {
        assert.deepEqual([whole.status, more.status], [200, 413]);
        assert.equal(JSON.parse(more.body).error.code, 'PAYLOAD_TOO_LARGE');
      } else {
        assert.deepEqual([whole.status, more.status], [411, 411]);
        assert.equal(JSON.parse(whole.body).error.code, 'LENGTH_REQUIRED');
      }
    });

    test('every route that reads a body has the limit', async () => {
      for (const [method, path] of [
        ['PUT', '/svc/_apps/site/settings'],
        ['PUT', '/_svc-user/prefs'],
        ['POST', '/svc/_apps/site/activate'],
        ['POST', '/svc/_apps/site/sql'],
      ] as const) {
        const lines = [`content-length: ${LIMITS.requestBodyBytes + 1}`];
        const answer = await sendRaw(
          gateway,
          rawRequest(gateway, method, path, lines, describeBody(LIMITS.requestBodyBytes + 1)),
        );
        assert.equal(answer.status, 413, path);
      }
    });

    for (const [what, body] of [
      ['no JSON', '{"a":'],
      ['no object', '[]'],
      ['no UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
      ['two documents', '{}{}'],
    ] as const) {
      test(`${what} is a bad request everywhere`, async () => {
        for (const [method, path] of [
          ['POST', '/svc/_tool/svc_read'],
          ['PUT', '/svc/_apps/site/settings'],
          ['PUT', '/_svc-user/prefs'],
          ['POST', '/svc/_apps/site/activate'],
          ['POST', '/svc/_apps/site/sql'],
        ] as const) {
          isError(await gateway.call(method, path, { body }), 400, 'BAD_REQUEST');
        }
      });
    }

    test('the content type is ignored, so a form cannot be mistaken for JSON', async () => {
      const headers = { 'content-type': 'application/x-www-form-urlencoded' };
      isError(await gateway.call('POST', '/svc/_tool/svc_describe', { body: 'app=site', headers }), 400, 'BAD_REQUEST');
    });
  });

  describe('static files', () => {
    for (const [path, type, body, csp] of FILES) {
      test(`"${path}"`, async () => {
        const { status, headers, bytes } = await get(`/svc/site/${path}`);
        assert.equal(status, 200);
        assert.deepEqual(bytes, Buffer.from(body));
        assert.deepEqual(
          [
            headers['content-type'],
            String(headers['content-security-policy']).replace(/:\d+$/, ':PORT'),
            headers['x-content-type-options'],
            headers['referrer-policy'],
            headers['cache-control'],
          ],
          [type, csp, 'nosniff', 'no-referrer', 'no-cache'],
        );
        assert.match(String(headers.etag), /^"[\w+/=-]+"$/);
      });
    }

    for (const [target, status] of NO_FILES) {
      test(`${target} is ${status}`, async () => {
        const answer = await sendRaw(gateway, rawRequest(gateway, 'GET', target));
        assert.equal(answer.status, status, answer.body);
        const { isError: failed, error } = JSON.parse(answer.body);
        assert.equal(failed, true);
        assert.ok(!/s3cret|export default|CREATE TABLE|\/tmp\//.test(answer.body));
        assert.match(answer.head, /x-content-type-options: nosniff/i);
        assert.match(answer.head, /referrer-policy: no-referrer/i);
        assert.match(error.code, status === 404 ? /^(NOT_FOUND|UNKNOWN_APP|UNKNOWN_VERSION)$/ : /^BAD_REQUEST$/);
      });
    }

    test('the folder without its slash is redirected, with the query', async () => {
      const { status, headers } = await get('/svc/site?a=b%20c&d');
      assert.deepEqual([status, headers.location], [308, '/svc/site/?a=b%20c&d']);
      assert.equal((await get('/svc')).headers.location, '/svc/');
    });

    test('a request target cannot put a header into the redirect', async () => {
      const answer = await sendRaw(gateway, rawRequest(gateway, 'GET', '/svc/site?a=%0d%0aset-cookie:x=1'));
      assert.doesNotMatch(answer.head, /^set-cookie/im);
    });

    test('with the version in the address: files are immutable, but pages are not', async () => {
      const css = await get(`/svc/site/_v/${versionId}/style.css`);
      assert.deepEqual([css.status, css.headers['cache-control']], [200, 'private, max-age=31536000, immutable']);
      const page = await get(`/svc/site/_v/${versionId}/`);
      assert.deepEqual(
        [
          page.status,
          page.headers['cache-control'],
          String(page.headers['content-security-policy']).replace(/:\d+$/, ':PORT'),
        ],
        [200, 'no-cache', HASHED],
      );
      assert.equal((await get(`/svc/site/_v/${versionId}/queries/echo.js`)).status, 404);
    });

    test('If-None-Match', async () => {
      const { headers } = await get('/svc/site/style.css');
      const etag = String(headers.etag);
      for (const value of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
        const answer = await get('/svc/site/style.css', { 'if-none-match': value });
        assert.deepEqual([answer.status, answer.text, answer.headers.etag], [304, '', etag]);
        assert.equal(answer.headers['cache-control'], 'no-cache');
        assert.equal(answer.headers['content-length'], undefined);
      }
      assert.equal((await get('/svc/site/style.css', { 'if-none-match': '"x"' })).status, 200);
      assert.equal((await get('/svc/site/picture.png', { 'if-none-match': etag })).status, 200);
    });

    for (const [accept, encoding] of ACCEPTED) {
      test(`Accept-Encoding: "${accept}" gets ${encoding ?? 'the file itself'}`, async () => {
        const { headers, bytes } = await get('/svc/site/style.css', { 'accept-encoding': accept });
        assert.equal(headers['content-encoding'], encoding);
        assert.match(String(headers.vary), /accept-encoding/i);
        assert.equal(Number(headers['content-length']), bytes.length);
        assert.equal(decoded({ headers, bytes }).toString(), STYLE);
        const again = await get('/svc/site/style.css', {
          'accept-encoding': accept,
          'if-none-match': String(headers.etag),
        });
        assert.equal(again.status, 304);
      });
    }

    test('each encoding has a separate tag, and a file that would not shrink is not encoded', async () => {
      const tags = await Promise.all(
        ['br', 'gzip', 'identity'].map(
          async (accept) => (await get('/svc/site/style.css', { 'accept-encoding': accept })).headers.etag,
        ),
      );
      assert.equal(new Set(tags).size, 3);
      assert.equal(
        (await get('/svc/site/picture.png', { 'accept-encoding': 'br' })).headers['content-encoding'],
        undefined,
      );
    });

    for (const [range, status, contentRange, body] of RANGES) {
      test(`Range: ${range}`, async () => {
        const answer = await get('/svc/site/style.css', { range, 'accept-encoding': 'br' });
        assert.deepEqual([answer.status, answer.headers['content-range']], [status, contentRange]);
        if (status === 206) assert.equal(answer.text, body);
        if (status === 416) isError(answer, 416, 'RANGE_NOT_SATISFIABLE');
        if (status === 200) assert.equal(decoded(answer).toString(), body);
        assert.equal((await gateway.call('HEAD', '/svc/site/style.css', { headers: { range } })).status, 200);
      });
    }

    test('If-Range', async () => {
      const etag = String((await get('/svc/site/style.css')).headers.etag);
      assert.equal((await get('/svc/site/style.css', { range: 'bytes=0-1', 'if-range': etag })).status, 206);
      assert.equal((await get('/svc/site/style.css', { range: 'bytes=0-1', 'if-range': '"old"' })).status, 200);
    });

    test('a new version is served at once, the old one at its own address until it is pruned', async () => {
      const old = await get('/svc/site/style.css');
      await gateway.upload('site', { ...SITE, 'style.css': 'p{}' });
      const now = await get('/svc/site/style.css', { 'if-none-match': String(old.headers.etag) });
      assert.deepEqual([now.status, now.text], [200, 'p{}']);
      assert.equal((await get(`/svc/site/_v/${versionId}/style.css`)).text, STYLE);
      await gateway.call('DELETE', `/svc/_apps/site/versions/${encodeURIComponent(versionId)}`);
      isError(await get(`/svc/site/_v/${versionId}/style.css`), 404, 'UNKNOWN_VERSION');
    });
  });

  describe('settings and preferences', () => {
    const put = (path: string, body: unknown) => gateway.call('PUT', path, { body });

    test('settings are replaced, and are returned with the knobs and the preferences', async () => {
      const { activeVersion } = (await get('/svc/_apps/site')).json;
      const empty = { knobs: KNOBS, prefs: {}, settings: {}, versionId: activeVersion };
      assert.deepEqual((await get('/svc/_apps/site/settings')).json, empty);
      assert.deepEqual((await put('/svc/_apps/site/settings', { size: 'l', more: [1] })).json.settings, {
        size: 'l',
        more: [1],
      });
      assert.deepEqual((await put('/svc/_apps/site/settings', { size: 'm' })).json, {
        ...empty,
        settings: { size: 'm' },
      });
      assert.deepEqual((await get('/svc/_apps/site/settings')).json.settings, { size: 'm' });
      isError(
        await put('/svc/_apps/site/settings', { big: 'x'.repeat(LIMITS.settingsBytes) }),
        413,
        'PAYLOAD_TOO_LARGE',
      );
      isError(await put('/svc/_apps/nobody/settings', {}), 404, 'UNKNOWN_APP');
      assert.deepEqual((await get('/svc/_apps/site/settings')).json.settings, { size: 'm' });
    });

    test('preferences are patched; null deletes', async () => {
      assert.deepEqual((await get('/_svc-user/prefs')).json, { prefs: {} });
      assert.deepEqual((await put('/_svc-user/prefs', { patch: { theme: 'dark', n: { a: 1 } } })).json, {
        prefs: { theme: 'dark', n: { a: 1 } },
      });
      assert.deepEqual((await put('/_svc-user/prefs', { patch: { theme: null, n: 0 } })).json, { prefs: { n: 0 } });
      assert.deepEqual((await get('/svc/_apps/site/settings')).json.prefs, { n: 0 });
      for (const body of [{}, { patch: null }, { patch: [] }, { patch: 'x' }])
        isError(await put('/_svc-user/prefs', body), 400, 'BAD_REQUEST');
      isError(
        await put('/_svc-user/prefs', { patch: { big: 'x'.repeat(LIMITS.settingsBytes) } }),
        413,
        'PAYLOAD_TOO_LARGE',
      );
    });

    test('preferences have a size limit', async () => {
      const statuses = new Set<number>();
      for (let i = 0; i < 4; i++) {
        statuses.add(
          (await put('/_svc-user/prefs', { patch: { [`big${i}`]: 'x'.repeat(LIMITS.settingsBytes / 2) } })).status,
        );
      }
      assert.ok(statuses.has(413), [...statuses].join());
      await put('/_svc-user/prefs', { patch: Object.fromEntries([0, 1, 2, 3].map((i) => [`big${i}`, null])) });
    });

    test('the user keeps one id', async () => {
      const { json } = await get('/_svc-user/id');
      assert.match(json.id, /^[0-9a-f-]{36}$/);
      assert.deepEqual((await get('/_svc-user/id')).json, json);
    });
  });

  describe('looking inside', () => {
    test('log entries of a handler are in the log and in the stream', async () => {
      const [one, all] = await Promise.all([
        gateway.stream('/svc/_logs?app=site&follow=1'),
        gateway.stream('/svc/_logs?follow=1'),
      ]);
      const before = Date.now();
      await gateway.read('site', 'echo', { n: 1 });
      const followed = JSON.parse((await one.next()).data);
      assert.deepEqual(JSON.parse((await all.next()).data), followed);
      const entries = (await get('/svc/_logs?app=site&limit=1')).json;
      assert.deepEqual(entries, [followed]);
      const { ts, traceId, versionId: version, ...rest } = followed;
      assert.ok(ts >= before - 1 && ts <= Date.now() + 1);
      assert.match(traceId, /^[0-9a-f]{32}$/);
      assert.match(version, /^(?:v_|site\/v)/);
      assert.deepEqual(rest, { level: 'info', app: 'site', tool: 'echo', msg: 'asked', input: { n: 1 } });
      assert.deepEqual(
        (await get(`/svc/_logs?app=site&before=${ts}`)).json.filter((entry: { ts: number }) => entry.ts >= ts),
        [],
      );
      one.close();
      all.close();
    });

    for (const [query, status, code] of [
      ['', 400, 'BAD_REQUEST'],
      ['?app=nobody', 404, 'UNKNOWN_APP'],
      ['?app=__proto__', 404, 'UNKNOWN_APP'],
      ['?app=nobody&follow=1', 404, 'UNKNOWN_APP'],
      ['?app=site&limit=0', 400, 'BAD_REQUEST'],
      ['?app=site&limit=501', 400, 'BAD_REQUEST'],
      ['?app=site&limit=x', 400, 'BAD_REQUEST'],
      ['?app=site&before=-1', 400, 'BAD_REQUEST'],
      ['?app=%zz', 400, 'BAD_REQUEST'],
    ] as const) {
      test(`GET /svc/_logs${query} is ${status}`, async () => isError(await get(`/svc/_logs${query}`), status, code));
    }

    test('the system: every process and actor', async () => {
      await gateway.read('site', 'echo');
      const system = await gateway.system();
      assert.deepEqual([system.edge, system.url, system.pid], [edge, gateway.url, gateway.pid]);
      assert.deepEqual(Object.keys(system), [
        'version',
        'node',
        'pid',
        'uptimeMs',
        'edge',
        'edgeNotice',
        'url',
        'dataDir',
        'eventLoop',
        'processes',
        'disk',
        'toolServers',
        'automations',
        'timeZone',
        'backups',
        'notices',
        'cluster',
        'counters',
      ]);
      assert.deepEqual(system.toolServers, []);
      assert.equal(system.timeZone, Intl.DateTimeFormat().resolvedOptions().timeZone);
      assert.deepEqual(system.automations, { registered: 1, enabled: 1, running: 0, waiting: 0 });
      const roles = new Set(system.processes.map(({ role }: { role: string }) => role));
      // Of other tests, a while ago.
      roles.delete('sql');
      assert.deepEqual([...roles].sort(), ['host', 'jobs', 'supervisor', 'writer']);
      for (const process of system.processes) {
        for (const member of ['pid', 'uptimeMs', 'rss', 'cpuMs', 'restarts'])
          assert.equal(typeof process[member], 'number', `${process.role} ${member}`);
      }
      const actors = system.processes.flatMap(
        ({ actors = [] }: { actors?: { app: string; state: string; calls: number }[] }) => actors,
      );
      const actor = actors.find(({ app, state }: { app: string; state: string }) => app === 'site' && state === 'live');
      assert.ok(actor.calls >= 1 && actor.inFlight === 0 && actor.mailbox === 0);
      // In the commons its memory is not known.
      assert.ok(actor.place === 'own' ? actor.memory > 0 : actor.memory === null);
    });

    test('a webhook that is renewed: its old address is gone, the new one runs the automation', async () => {
      const renew = async () => {
        const body = { ref: 'site/x', renew: true };
        return (await gateway.call('POST', '/svc/_automations/_provision', { body })).json.webhooks[0];
      };
      const fire = async ({ webhookId, secret }: { webhookId: string; secret: string }) => {
        const headers = { authorization: `Bearer ${secret}` };
        return (await gateway.call('POST', `/_svc-hook/${webhookId}`, { headers, token: null })).status;
      };
      const lost = await renew();
      assert.equal(await fire(lost), 200);
      const webhook = await renew();
      assert.deepEqual([await fire(lost), await fire(webhook)], [404, 200]);
      assert.equal(await fire({ ...webhook, secret: lost.secret }), 401);
    });

    test('SQL by hand', async () => {
      const sql = (body: unknown) => gateway.call('POST', '/svc/_apps/site/sql', { body });
      const changes = await gateway.stream('/svc/site/_changes');
      assert.equal((await sql({ sql: 'select x from t' })).status, 200);
      await gateway.write('site', 'go');
      assert.equal((await changes.next()).event, 'change', 'a read sends no event');
      assert.equal((await sql({ sql: 'insert into t values (?)', params: [1] })).status, 200);
      const { table, action, source } = JSON.parse((await changes.next()).data);
      assert.deepEqual([table, action, source], ['t', 'sql', 'external']);
      // A statement that changes the schema names no table.
      assert.equal((await sql({ sql: 'create table u (x)' })).json.tables, null);
      assert.equal((await changes.next()).event, 'reset');
      changes.close();
      for (const statement of ["attach 'x' as y", 'vacuum into "x"', 'pragma journal_mode = delete', 'nonsense']) {
        const answer = await sql({ sql: statement });
        assert.ok(answer.status >= 400, `${statement}: ${answer.text}`);
        assert.equal(answer.json.isError, true);
      }
      isError(await sql({}), 400, 'BAD_REQUEST');
    });
  });
});

const FRIEND = 'https://friend.example';

describe('CORS for named origins', () => {
  onEachEdge({ config: { corsOrigins: [FRIEND] } }, (gateway) => {
    const allowed = (answer: Answer) => answer.headers['access-control-allow-origin'];

    test('a preflight needs no token', async () => {
      const headers = {
        origin: FRIEND,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      };
      const answer = await gateway.call('OPTIONS', '/svc/_tool/svc_read', { token: null, headers });
      assert.deepEqual([answer.status, allowed(answer)], [204, FRIEND]);
      assert.equal(answer.headers['access-control-allow-methods'], 'POST, OPTIONS');
      assert.match(
        String(answer.headers['access-control-allow-headers']),
        /authorization.*content-type.*idempotency-key/,
      );
      assert.match(String(answer.headers.vary), /origin/i);
      assert.equal(answer.headers['access-control-allow-credentials'], undefined);
    });

    test('that origin may read answers and errors', async () => {
      for (const [path, token] of [
        ['/svc/_apps', gateway.token],
        ['/svc/_apps', null],
        ['/svc/nobody/', gateway.token],
        ['/svc/_health', null],
      ] as const) {
        assert.equal(allowed(await gateway.call('GET', path, { token, headers: { origin: FRIEND } })), FRIEND);
      }
    });

    test('other origins get no header', async () => {
      for (const origin of ['https://evil.example', 'http://friend.example', `${FRIEND}.evil.example`, 'null', '*']) {
        const preflight = await gateway.call('OPTIONS', '/svc/_apps', { headers: { origin } });
        const answer = await gateway.call('GET', '/svc/_apps', { headers: { origin } });
        assert.deepEqual([allowed(preflight), allowed(answer)], [undefined, undefined]);
        assert.equal(preflight.headers['access-control-allow-methods'], undefined);
      }
      assert.equal(allowed(await gateway.call('GET', '/svc/_apps')), undefined);
    });
  });
});
