/**
 * What a page may do from its origin, and what it may not: tries every route of the gateway (specification, "Origins").
 */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { networkAddresses } from '../cli/gateway/phone.ts';
import { LIMITS } from '../protocol/limits.ts';
import type { Route } from '../supervisor/http/router.ts';
import { allRoutes } from '../supervisor/routes/all.ts';
import type { Services } from '../supervisor/services.ts';
import { appOf } from '../testing/apps.ts';
import { svc } from '../testing/command-line.ts';
import { gatewayOfSuite, onEachEdge } from '../testing/edges.ts';
import { openEvents } from '../testing/exchange-server.ts';
import { type Answer, startGateway, type TestGateway } from '../testing/gateway.ts';
import { consoleHost, enter, Origin, pathAt, sessionOf, signIn } from '../testing/origins.ts';

const ROUTES = allRoutes({ automations: {} } as Services);
const OF_PAGES = ['page', 'read', 'write', 'stream', 'settings', 'chat'];
const CALLS = { queries: { list: '() => []' }, actions: { add: '() => ({ body: 1 })' } };
const PAGE = { files: { 'index.html': '<!doctype html><title>A page</title>', 'app.js': 'let a = 1;' } };

const DRAFT = { app: 'todos', workspace: 's1' };

/** Apps that may not call tools of others, except `friend`, whose pages may call those of `todos`. */
const APPS = {
  todos: appOf('todos', { ...CALLS, ...PAGE }),
  notes: appOf('notes', { ...CALLS, ...PAGE }),
  friend: appOf('friend', { ...CALLS, ...PAGE, manifest: { uses: ['todos'] } }),
  my_app: appOf('my_app', { ...CALLS, ...PAGE }),
};

/** A request to a route, about `app`, or about its draft in `s1` for routes of drafts. */
function requestTo({ method, path }: Route, app: string): { method: string; path: string; body?: unknown } {
  const filled = path
    .replace(':app/:id', `${app}/daily`)
    .replace(':sid', 's1')
    .replace(':id', app)
    .replace(':runId', '01890000-0000-7000-8000-000000000000')
    .replace(':versionId', 'v_20260101T000000000Z_000000')
    .replace(':tool', 'svc_read')
    .replace(/:\w+/, 'x')
    .replace('/*', '/index.html');
  const body = { app, id: 'daily', query: 'list', action: 'add', sql: 'SELECT 1', versionId: 'x' };
  return { method, path: method === 'GET' ? `${filled}?app=${app}` : filled, ...(method === 'GET' ? {} : { body }) };
}

/**
 * These routes check the caller's rights themselves: an agent without a tool can still connect, a stream names its
 * query.
 */
function isOfPages({ needs, path }: Route): boolean {
  return OF_PAGES.includes(needs) || /\/:id\/_(?:mcp|errors|live)$/.test(path);
}

/**
 * Answers to a page with the right: a window or turn may be unknown, an agent may be missing, or it is the other store.
 */
function answersOf({ method, needs, path }: Route): number[] {
  if (path.includes('_blobs')) return method === 'PUT' ? [201, 400, 409] : [200, 400, 404, 409];
  if (needs === 'chat') return [200, 400, 404, 503];
  // Streams of MCP need a session.
  if (path.endsWith('_mcp') && method !== 'POST') return [405, 409];
  return path.startsWith('/svc/_draft/') ? [200, 400, 409] : [200, 400];
}

function isForbidden(answer: Answer, what: string): void {
  // A person gets a page, which has the code too.
  const isPage = String(answer.headers['content-type']).startsWith('text/html');
  const code = isPage ? /FORBIDDEN/.exec(answer.text)?.[0] : answer.json.error?.code;
  assert.deepEqual([answer.status, code], [403, 'FORBIDDEN'], `${what}: ${answer.text}`);
}

/** Of streams only the refusal or the beginning is checked. */
async function statusOf(gateway: TestGateway, origin: Origin, { method, path, body }: ReturnType<typeof requestTo>) {
  if (!/_changes|events/.test(path)) return await origin.call(method, path, { body });
  const stream = await openEvents(gateway.port, path, origin.headers);
  stream.close();
  return { status: stream.status };
}

/** What another server on this machine has of the browser: the cookie, which reaches every port of its host. */
const cookieOf = (gateway: TestGateway, { host, cookie }: Origin) => new Origin(gateway, host, cookie);

onEachEdge({}, (gateway, _edge, store) => {
  let console: Origin;
  before(async () => {
    for (const [id, files] of Object.entries(APPS)) assert.equal((await gateway.upload(id, files)).status, 201, id);
    if (store === 'git') await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
    console = await signIn(gateway);
  });

  describe('an app', () => {
    let todos: Origin;
    before(async () => {
      todos = await enter(gateway, console, { app: 'todos' });
    });

    test('has its page at / as well as below its path, and its files', async () => {
      for (const path of ['/', '/index.html', '/svc/todos/', '/svc/todos/index.html']) {
        assert.match((await todos.visit(path)).text, /data-app="todos"/, path);
      }
      assert.equal((await todos.call('GET', '/app.js')).text, 'let a = 1;');
      assert.equal((await todos.call('HEAD', '/app.js')).status, 200);
      assert.equal((await todos.call('POST', '/app.js')).status, 405);
      assert.equal((await todos.call('GET', '/missing.js')).status, 404);
    });

    test('calls its own tools, and describes itself only', async () => {
      const read = { app: 'todos', query: 'list', input: {} };
      assert.deepEqual((await todos.call('POST', '/svc/_tool/svc_read', { body: read })).json.data, []);
      const write = await todos.call('POST', '/svc/_tool/svc_write', { body: { app: 'todos', action: 'add' } });
      assert.equal(write.json.data.body, 1);
      const { apps } = (await todos.call('POST', '/svc/_tool/svc_describe', { body: {} })).json.data;
      assert.deepEqual(
        apps.map(({ app }: { app: string }) => app),
        ['todos'],
      );
      for (const tool of ['svc_read', 'svc_write', 'svc_describe']) {
        for (const app of ['notes', 'nobody', 'friend']) {
          const body = { app, query: 'list', action: tool === 'svc_describe' ? undefined : 'add' };
          isForbidden(await todos.call('POST', `/svc/_tool/${tool}`, { body }), `${tool} of ${app}`);
        }
      }
    });

    test('calls tools of the apps that its manifest names, and nothing else of them', async () => {
      const friend = await enter(gateway, console, { app: 'friend' });
      const call = (tool: string, app: string) =>
        friend.call('POST', `/svc/_tool/${tool}`, { body: { app, query: 'list', action: 'add' } });
      assert.equal((await call('svc_read', 'todos')).status, 200);
      assert.equal((await call('svc_write', 'todos')).status, 200);
      isForbidden(await call('svc_read', 'notes'), 'notes');
      isForbidden(await friend.call('GET', '/svc/todos/app.js'), 'a file');
      isForbidden(await friend.call('GET', '/svc/todos/_changes'), 'the changes');
      isForbidden(await friend.call('PUT', '/svc/_apps/todos/settings', { body: {} }), 'the settings');
      const { apps } = (await friend.call('POST', '/svc/_tool/svc_describe', { body: {} })).json.data;
      assert.deepEqual(
        apps.map(({ app }: { app: string }) => app),
        ['friend', 'todos'],
      );
    });

    test('reaches no route that is about another app or the gateway', async () => {
      for (const route of ROUTES.filter(({ needs }) => needs !== 'anyone')) {
        const request = requestTo(route, 'notes');
        const { status } = await statusOf(gateway, todos, request);
        // The existence of a run is no secret, because its id cannot be guessed; neither is the store.
        const told = store === 'tarball' && /_tool|_mcp|_live/.test(route.path) ? [404, 409] : [404];
        const wanted = /:runId|:tool|_draft.*_(?:tool|mcp|live)/.test(route.path) ? [403, ...told] : [403];
        assert.ok(wanted.includes(status), `${request.method} ${request.path}: ${status}`);
      }
    });

    test('of itself reaches what pages need, and nothing that administers', async () => {
      for (const route of ROUTES.filter(({ needs, path }) => needs !== 'anyone' && !path.includes('_tool'))) {
        const request = requestTo(route, 'todos');
        const { status } = await statusOf(gateway, todos, request);
        const isOwn = isOfPages(route) && !/_draft|_svc-user/.test(route.path);
        // The store is no secret.
        const isToldStore = store === 'tarball' && /_draft.*_(?:mcp|live)/.test(route.path);
        const wanted = isOwn ? answersOf(route) : /:runId/.test(route.path) ? [403, 404] : isToldStore ? [409] : [403];
        assert.ok(wanted.includes(status), `${request.method} ${request.path}: ${status}`);
      }
    });

    test('with its cookie alone opens its page and loads its files, and reaches nothing else', async () => {
      const friend = await enter(gateway, console, { app: 'friend' });
      const aliens = [todos, friend, console, ...(store === 'git' ? [await enter(gateway, console, DRAFT)] : [])];
      for (const alone of aliens.map((origin) => cookieOf(gateway, origin))) {
        for (const route of ROUTES.filter(({ needs }) => needs !== 'anyone' && needs !== 'page')) {
          const { method, path, body } = requestTo(route, 'todos');
          const answer = await statusOf(gateway, alone, { method, path, body });
          assert.equal(answer.status, 401, `${alone.host} ${method} ${path}`);
          for (const opened of method === 'GET' ? [path, `${path}&svc-signature=${'0'.repeat(64)}`] : [])
            assert.equal((await alone.visit(opened)).status, 401, `${alone.host} opens ${opened}`);
        }
      }
      const alone = cookieOf(gateway, todos);
      assert.match((await alone.visit('/')).text, /data-app="todos"/);
      assert.equal((await alone.call('GET', '/app.js')).text, 'let a = 1;');
      assert.equal((await alone.visit('/nothing.html')).status, 404);
      const refused = await alone.call('POST', '/svc/_tool/svc_describe', { body: { app: 'todos' } });
      assert.deepEqual([refused.json.error.code, refused.json.error.path], ['UNAUTHORIZED', 'svc-page-key']);
      assert.match((await alone.visit('/svc/_apps/todos/settings')).text, /This address is for programs and pages/);
    });

    test('loads a file of it by a signed address, with its cookie', async () => {
      const stored = await todos.call('PUT', '/svc/todos/_blobs', {
        body: 'a file',
        headers: { 'content-type': 'text/plain' },
      });
      assert.equal(stored.status, 201, stored.text);
      const alone = cookieOf(gateway, todos);
      for (const path of [`/_blobs/${stored.json.sha256}`, `/svc/todos/_blobs/${stored.json.sha256}`]) {
        const signature = createHmac('sha256', todos.pageKey).update(path).digest('hex');
        const signed = `${path}?svc-signature=${signature}`;
        assert.equal((await alone.visit(path)).status, 401, path);
        assert.equal((await alone.visit(signed)).text, 'a file', path);
        const image = { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' };
        assert.equal((await alone.call('GET', signed, { headers: image })).text, 'a file');
        isForbidden(
          await alone.call('GET', signed, { headers: { ...image, 'sec-fetch-site': 'same-site' } }),
          'elsewhere',
        );
        assert.equal((await new Origin(gateway, todos.host, '').call('GET', signed)).status, 401, 'without the cookie');
        assert.equal((await new Origin(gateway, todos.host, '').visit(signed)).status, 401);
      }
    });

    test('whose id is not a host name has an address too', async () => {
      const origin = await enter(gateway, console, { app: 'my_app' });
      assert.match(origin.host, /^a-[0-9a-f]{12}\.svc\.localhost:\d+$/);
      assert.match((await origin.visit('/')).text, /data-app="my_app"/);
      assert.equal((await origin.call('GET', '/app.js')).text, 'let a = 1;');
      const body = { app: 'my_app', query: 'list' };
      assert.equal((await origin.call('POST', '/svc/_tool/svc_read', { body })).status, 200);
      // Without a cookie the app is unknown; the console knows it.
      const to = encodeURIComponent(`http://${origin.host}/index.html?a=1`);
      const stranger = new Origin(gateway, origin.host, '');
      assert.equal(pathAt(await stranger.visit('/index.html?a=1'), console.host), `/svc/_enter?to=${to}`);
      const entered = await stranger.enter(await console.wayTo(decodeURIComponent(to)));
      assert.equal(entered.json.to, '/index.html?a=1');
    });

    test('that was removed and registered again does not accept the old cookie', async () => {
      await gateway.upload('passing', appOf('passing', CALLS));
      const before = await enter(gateway, console, { app: 'passing' });
      const body = { app: 'passing', query: 'list' };
      assert.equal((await before.call('POST', '/svc/_tool/svc_read', { body })).status, 200);
      await gateway.call('DELETE', '/svc/_apps/passing?purge=1');
      await gateway.upload('passing', appOf('passing', CALLS));
      assert.equal((await before.call('POST', '/svc/_tool/svc_read', { body })).status, 401);
    });
  });

  describe('another origin', () => {
    test('uses a cookie only to open pages', async () => {
      const todos = await enter(gateway, console, { app: 'todos' });
      const body = { app: 'todos', query: 'list' };
      for (const site of ['same-site', 'cross-site']) {
        const headers = { 'sec-fetch-site': site, origin: `http://notes.${console.host}` };
        isForbidden(await todos.call('POST', '/svc/_tool/svc_read', { body, headers }), `${site}, a call`);
        isForbidden(await todos.call('GET', '/svc/todos/_changes', { headers }), `${site}, a stream`);
        isForbidden(await todos.call('GET', '/svc/_apps/todos/settings', { headers }), `${site}, settings`);
        isForbidden(await console.call('GET', '/svc/_apps', { headers }), `${site}, the apps`);
        isForbidden(await console.call('DELETE', '/svc/_apps/todos', { headers }), `${site}, removal`);
        isForbidden(await console.call('DELETE', '/svc/_session', { headers }), `${site}, sign-out`);
        const frame = { ...headers, 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' };
        isForbidden(await console.call('GET', '/svc/_apps', { headers: frame }), `${site}, a frame`);
        assert.equal((await todos.visit('/', { 'sec-fetch-site': site })).status, 200, 'a link');
        const framed = await todos.visit('/', { 'sec-fetch-site': site, 'sec-fetch-dest': 'iframe' });
        assert.equal(framed.status, 200, 'a frame, which the policy of the page does not let show it');
        for (const path of ['/', '/app.js', '/svc/todos/app.js'])
          isForbidden(await todos.call('GET', path, { headers }), `${site}, ${path} for a page of its own`);
      }
    });

    test('does not accept a cookie of this one', async () => {
      const todos = await enter(gateway, console, { app: 'todos' });
      const body = { app: 'todos', query: 'list' };
      for (const host of [console.host, `notes.${console.host}`, '127.0.0.1', `todos.svc.localhost:1`]) {
        const thief = new Origin(gateway, host, todos.cookie);
        assert.equal((await thief.call('POST', '/svc/_tool/svc_read', { body })).status, 401, host);
      }
    });

    test('with a foreign Host is refused, also with the token', async () => {
      for (const host of ['evil.example', 'svc.localhost.evil.example', '192.168.7.7', 'evil.example:80']) {
        for (const path of ['/svc/_apps', '/svc/todos/', '/svc/_health', '/svc/', '/_svc-hook/abc']) {
          const answer = await gateway.call('GET', path, { headers: { host } });
          assert.deepEqual([answer.status, answer.json.error.code], [421, 'MISDIRECTED'], `${host} ${path}`);
        }
      }
    });
  });

  describe('a browser', () => {
    const tab = { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };

    test('at a loopback address is sent to the base', async () => {
      for (const [path, host] of [
        ['/svc/', '127.0.0.1:1'],
        ['/svc/todos/?a=b', 'localhost:2'],
        ['/svc/todos/', '[::1]:3'],
        ['/svc/_apps', 'other.localhost:4'],
      ] as const) {
        const answer = await gateway.call('GET', path, { token: null, headers: { ...tab, host } });
        const port = /\d+$/.exec(host)?.[0];
        assert.deepEqual([answer.status, answer.headers.location], [303, `http://svc.localhost:${port}${path}`]);
      }
      const program = await gateway.call('GET', '/svc/todos/', { headers: tab });
      assert.equal(program.status, 200, 'a program with the token, with any other headers');
    });

    test('finds no page at the console, and no console at a page', async () => {
      const host = `todos.${console.host}`;
      assert.equal(pathAt(await console.visit('/svc/todos/?a=1'), host), '/svc/todos/?a=1');
      assert.equal(pathAt(await console.call('GET', '/svc/todos/app.js'), host), '/svc/todos/app.js');
      const todos = await enter(gateway, console, { app: 'todos' });
      assert.equal(pathAt(await todos.visit('/svc/'), console.host), '/svc/');
      assert.equal(pathAt(await todos.visit('/svc/notes/'), `notes.${console.host}`), '/svc/notes/');
      assert.equal(pathAt(await console.visit('/'), console.host), '/svc/');
    });

    test('never shows a page at the console, however its address is written', async () => {
      const basic = { authorization: 'Basic x' };
      for (const path of ['/svc/todos/', '/svc/%74odos/', '/svc/%74%6fdos/app.js', '/svc/%74odos', '/svc/todos%2f']) {
        for (const headers of [{}, basic, { 'sec-fetch-site': 'same-site' }] as Record<string, string>[]) {
          for (const answer of [await console.visit(path, headers), await console.call('GET', path, { headers })]) {
            assert.ok([303, 403].includes(answer.status), `${path} ${answer.status}`);
            assert.doesNotMatch(answer.text, /data-app|let a/);
          }
        }
      }
      const draft = await console.visit('/svc/_draft/s%31/%74odos/');
      assert.ok([303, 403].includes(draft.status), String(draft.status));
    });

    test('gets no longer session for an invalid token', async () => {
      const asked = await console.call('POST', '/svc/_session', { headers: { authorization: 'Basic x' } });
      assert.deepEqual([asked.status, asked.headers['set-cookie']], [401, undefined]);
    });

    test('signs in with a link, once', async () => {
      const made = await gateway.call('POST', '/svc/_session/links', { body: { open: 'todos' } });
      const url = new URL(made.json.url);
      const fragment = new URLSearchParams(url.hash.slice(1));
      assert.deepEqual([made.status, url.host, fragment.get('open')], [201, console.host, 'todos']);
      const use = () =>
        gateway.call('POST', '/svc/_session', {
          token: null,
          headers: { host: console.host },
          body: { link: fragment.get('link') },
        });
      assert.deepEqual([(await use()).status, (await use()).status], [200, 401]);
      const asked = await console.call('POST', '/svc/_session/links', { body: {} });
      assert.equal(asked.status, 201);
      const todos = await enter(gateway, console, { app: 'todos' });
      isForbidden(await todos.call('POST', '/svc/_session/links', { body: {} }), 'a page makes no links');
      for (const open of ['../x', '_apps', '_draft/s1', 'Todos']) {
        const refused = await gateway.call('POST', '/svc/_session/links', { body: { open } });
        assert.equal(refused.status, 400, `${open} ${refused.text}`);
      }
    });

    test('is redirected only to pages of this gateway', async () => {
      for (const to of [
        'http://evil.example/',
        '//evil.example/',
        'http://todos.svc.localhost:1/',
        '/svc/_apps',
        'x:y',
      ]) {
        const answer = await console.wayTo(to);
        assert.equal(answer.status, 400, to);
        assert.match(answer.text, /This gateway has no page at that address/);
      }
      assert.equal((await console.call('POST', '/svc/_enter', { body: {} })).status, 400);
      for (const path of ['//evil.example/x', '/\\evil.example/x', '///evil.example']) {
        const way = await console.wayTo(`http://todos.${console.host}${path}`);
        const entered = await new Origin(gateway, `todos.${console.host}`, '').enter(way);
        assert.match(entered.json.to, /^\/[^/\\]/, path);
      }
    });

    test('has a ticket for one use at one origin', async () => {
      const way = await console.wayTo('/svc/todos/');
      const ticket = new URLSearchParams(new URL(way.json.url).hash.slice(1)).get('ticket');
      // The first attempt uses it up.
      for (const app of ['notes', 'todos']) {
        const origin = new Origin(gateway, `${app}.${console.host}`, '');
        const answer = await origin.call('POST', '/svc/_enter', { body: { ticket } });
        assert.deepEqual([answer.status, answer.headers['set-cookie']], [401, undefined], app);
      }
    });

    test('with its cookie alone gets no page key and no ticket, and ends no session', async () => {
      const browser = await signIn(gateway);
      const todos = await enter(gateway, browser, { app: 'todos' });
      for (const origin of [cookieOf(gateway, browser), cookieOf(gateway, todos)]) {
        assert.equal((await origin.wayTo('/svc/notes/')).status, 401);
        assert.equal((await origin.call('POST', '/svc/_session', { body: {} })).status, 401);
        assert.equal((await origin.call('POST', '/svc/_session/links', { body: {} })).status, 401);
        assert.equal((await origin.call('GET', '/svc/_session')).json.signedIn, false);
        assert.equal((await origin.call('DELETE', '/svc/_session')).status, 200);
        for (const path of ['/svc/_enter', '/svc/_enter?to=/svc/notes/', '/svc/', '/svc/todos/', '/']) {
          const { text, headers } = await origin.visit(path);
          const told = text + JSON.stringify(headers);
          assert.ok(
            !told.includes(browser.pageKey) && !told.includes(todos.pageKey) && !told.includes('ticket='),
            path,
          );
        }
      }
      for (const origin of [browser, todos])
        assert.equal((await origin.call('GET', '/svc/_session')).json.signedIn, true);
      for (const site of ['same-site', 'cross-site']) {
        const headers = { 'sec-fetch-site': site };
        isForbidden(await browser.call('POST', '/svc/_enter', { body: { to: '/svc/notes/' }, headers }), site);
      }
    });

    test('that signs out at the console is signed out of every page, after a restart too', async () => {
      const browser = await signIn(gateway);
      const todos = await enter(gateway, browser, { app: 'todos' });
      const other = await enter(gateway, console, { app: 'todos' });
      const stream = await openEvents(gateway.port, '/svc/todos/_changes', todos.headers);
      assert.equal((await browser.call('DELETE', '/svc/_session')).status, 200);
      while ((await stream.next()) !== undefined);
      const read = { body: { app: 'todos', query: 'list' } };
      assert.equal((await todos.call('POST', '/svc/_tool/svc_read', read)).status, 401);
      assert.equal((await browser.call('GET', '/svc/_apps')).status, 401);
      assert.equal((await other.call('POST', '/svc/_tool/svc_read', read)).status, 200);
    });

    test('is told whether it is signed in, and where the console is', async () => {
      const todos = await enter(gateway, console, { app: 'todos' });
      const shown = async (origin: Origin) => {
        const { signedIn, place, console, expiresAt } = (await origin.call('GET', '/svc/_session')).json;
        return { signedIn, place, console, ends: typeof expiresAt };
      };
      const there = { console: `http://${console.host}/svc/` };
      assert.deepEqual(await shown(console), { signedIn: true, place: 'console', ends: 'number', ...there });
      assert.deepEqual(await shown(todos), { signedIn: true, place: 'app', ends: 'number', ...there });
      const stranger = new Origin(gateway, todos.host, '');
      assert.deepEqual(await shown(stranger), { signedIn: false, place: 'app', ends: 'undefined', ...there });
    });
  });

  test('no service worker is served but that of the console for notices, at the console', async () => {
    const todos = await enter(gateway, console, { app: 'todos' });
    const headers = { 'service-worker': 'script' };
    for (const path of ['/app.js', '/svc/todos/app.js', '/svc/_client.js', '/svc/_push.js']) {
      isForbidden(await todos.call('GET', path, { headers }), path);
    }
    isForbidden(await console.call('GET', '/svc/_client.js', { headers }), 'another script');
    assert.equal((await console.call('GET', '/svc/_push.js', { headers })).status, 200);
  });

  test('the policy of a page lets the console embed it, and restricts forms and base to its origin', async () => {
    const todos = await enter(gateway, console, { app: 'todos' });
    for (const answer of [
      await todos.visit('/'),
      await todos.visit('/missing.html'),
      await todos.call('GET', '/app.js'),
    ]) {
      const policy = String(answer.headers['content-security-policy']);
      assert.ok(
        policy.endsWith(`base-uri 'none'; form-action 'self'; frame-ancestors 'self' http://${console.host}`),
        policy,
      );
      assert.equal(answer.headers['cross-origin-opener-policy'], 'same-origin');
    }
    // Errors too, whether the gateway knows the app and the caller or not.
    const stranger = { cookie: '' };
    for (const [answer, status] of [
      [await todos.call('GET', '/app.js', { headers: stranger }), 401],
      [await todos.call('GET', '/missing.js'), 404],
      [await gateway.call('GET', '/svc/todos/app.js', { token: null }), 401],
      [await gateway.call('GET', '/svc/todos/missing.js'), 404],
      [await gateway.call('GET', '/svc/nothing/app.js'), 404],
    ] as const) {
      assert.equal(answer.status, status, answer.text);
      assert.match(String(answer.headers['content-security-policy']), /^default-src 'self'; script-src 'self'; /);
      assert.equal(answer.headers['x-content-type-options'], 'nosniff');
    }
    const { headers } = await console.visit('/svc/');
    assert.match(
      String(headers['content-security-policy']),
      /frame-ancestors 'self'; frame-src 'self' http:\/\/\*\.svc\.localhost:\d+$/,
    );
    assert.equal(headers['cross-origin-opener-policy'], 'same-origin');
  });

  if (store === 'git') {
    describe('a draft', () => {
      test('reaches itself and nothing live', async () => {
        const draft = await enter(gateway, console, { app: 'todos', workspace: 's1' });
        assert.match(draft.host, /^s1--todos\.draft\.svc\.localhost:\d+$/);
        assert.match((await draft.visit('/')).text, /data-draft="s1"/);
        const read = { body: { app: 'todos', query: 'list' } };
        assert.equal((await draft.call('POST', '/svc/_draft/s1/_tool/svc_read', read)).status, 200);
        isForbidden(await draft.call('POST', '/svc/_tool/svc_read', read), 'live tools');
        isForbidden(
          await draft.call('POST', '/svc/_draft/s1/_tool/svc_read', { body: { ...read.body, app: 'notes' } }),
          'another draft of the workspace',
        );
        for (const app of ['todos', 'notes']) {
          for (const route of ROUTES.filter(({ needs, path }) => needs !== 'anyone' && !path.includes('_tool'))) {
            const request = requestTo(route, app);
            const { status } = await statusOf(gateway, draft, request);
            const isOwn = app === 'todos' && isOfPages(route) && route.path.startsWith('/svc/_draft/');
            const wanted = isOwn ? answersOf(route) : route.path.includes(':runId') ? [403, 404] : [403];
            assert.ok(wanted.includes(status), `${request.method} ${request.path}: ${status}`);
          }
        }
      });

      test('cannot use the apps in `uses` of its manifest', async () => {
        const draft = await enter(gateway, console, { app: 'friend', workspace: 's1' });
        isForbidden(
          await draft.call('POST', '/svc/_tool/svc_read', { body: { app: 'todos', query: 'list' } }),
          'a live app',
        );
        assert.deepEqual((await draft.call('POST', '/svc/_tool/svc_describe', { body: {} })).json.data, { apps: [] });
      });
    });
  }
});

/** `svc open --qr` */
const qr = ({ url, token }: TestGateway, app = 'todos') =>
  svc(['open', app, '--qr', '--url', url, '--token', String(token)]);

describe('at an origin that all apps share', () => {
  test('a session reaches every page, and administers nothing', async (t) => {
    const gateway = await startGateway(t, { config: { pageOrigins: 'shared' } });
    for (const id of ['todos', 'notes'] as const) await gateway.upload(id, APPS[id]);
    const shared = await signIn(gateway, new URL(gateway.url).host);
    assert.match(shared.cookie, /^svc_session=/);
    for (const route of ROUTES.filter(({ needs, path }) => needs !== 'anyone' && !/_draft|_tool\/:/.test(path))) {
      const request = requestTo(route, 'notes');
      const { status } = await statusOf(gateway, shared, request);
      const isForPages = isOfPages(route) || route.path.startsWith('/svc/_tool/');
      const wanted = isForPages ? answersOf(route) : route.path.includes(':runId') ? [403, 404] : [403];
      assert.ok(wanted.includes(status), `${request.method} ${request.path}: ${status}`);
    }
    const report = await shared.call('POST', '/svc/_draft/s1/todos/_errors', { body: { errors: [] } });
    isForbidden(report, 'it cannot be told whose page it is');
    const refused = await shared.call('GET', '/svc/_apps');
    assert.match(refused.json.error.message, /svc\.localhost.*appDomain/);
    const away = await new Origin(gateway, shared.host, '').visit('/svc/todos/?a=1');
    assert.deepEqual([away.status, away.headers.location?.slice(0, 12)], [303, '/svc/#enter=']);
    assert.equal((await shared.wayTo('/svc/todos/?a=1#b')).json.url, '/svc/todos/?a=1#b');
    const alone = cookieOf(gateway, shared);
    assert.match((await alone.visit('/svc/notes/')).text, /data-app="notes"/);
    const { status } = await alone.call('POST', '/svc/_tool/svc_read', { body: { app: 'todos', query: 'list' } });
    assert.equal(status, 401, 'the cookie alone');
  });

  test('a gateway reached by an IP address is shared, one reached by a name of this machine is not', async (t) => {
    const gateway = await startGateway(t, {
      config: { host: '0.0.0.0', allowedHosts: ['gateway.lan'], publicUrl: 'https://hooks.example', signInHours: 48 },
    });
    const length = await gateway.call('GET', '/svc/_session/length');
    assert.deepEqual(length.json, { hours: 48, setBy: 'configuration' });
    const set = await gateway.call('PUT', '/svc/_session/length', { body: { hours: 12 } });
    assert.deepEqual([set.status, set.json.error.code], [409, 'CONFLICT']);
    for (const host of ['192.168.1.5:8787', 'gateway.lan', 'hooks.example']) {
      assert.equal((await gateway.call('GET', '/svc/_session', { headers: { host } })).json.place, 'shared', host);
    }
    const { json } = await gateway.call('GET', '/svc/_session', { headers: { host: consoleHost(gateway) } });
    assert.equal(json.place, 'console');

    await gateway.upload('todos', APPS.todos);
    const { stdout, stderr } = await qr(gateway);
    const [address] = networkAddresses();
    if (address === undefined) return assert.match(stderr, /listens on this machine only/);
    const lines = stdout.trimEnd().split('\n');
    const url = new URL(lines.pop() ?? '');
    assert.ok(lines.length > 20 && lines.every((line) => /^[█▀▄ ]+$/.test(line)), stdout);
    const fragment = new URLSearchParams(url.hash.slice(1));
    assert.deepEqual([url.hostname, fragment.get('open')], [address, 'todos']);
    const request = { token: null, headers: { host: url.host }, body: { link: fragment.get('link') } };
    const phone = sessionOf(gateway, url.host, await gateway.call('POST', '/svc/_session', request));
    assert.match((await phone.visit('/svc/todos/')).text, /data-app="todos"/);
    isForbidden(await phone.call('GET', '/svc/_apps'), 'a phone administers nothing');
  });
});

describe('after a restart', () => {
  const gateway = gatewayOfSuite({});

  // A cookie counts at the port that the browser used, which may be another one than the gateway's own.
  const at = 'svc.localhost:7777';

  test('a session that was signed out stays signed out, and an app with the id of an earlier one clears the browser’s storage, once', async () => {
    const [browser, console] = [await signIn(gateway, at), await signIn(gateway, at)];
    assert.equal((await browser.call('DELETE', '/svc/_session')).status, 200);
    const host = `again.${console.host}`;
    const open = async (cookie = '') => {
      return (await new Origin(gateway, host, cookie).enter(await console.wayTo('/svc/again/'))).headers;
    };
    await gateway.upload('again', appOf('again', CALLS));
    assert.equal((await open())['clear-site-data'], undefined);
    await gateway.call('DELETE', '/svc/_apps/again?purge=1');
    await gateway.upload('again', appOf('again', CALLS));
    assert.match(
      (await qr(gateway, 'again')).stderr,
      /it listens on this machine only.*\n.*svc serve --host 0\.0\.0\.0\n/,
    );
    const length = (hours?: unknown) =>
      gateway.call(hours === undefined ? 'GET' : 'PUT', '/svc/_session/length', { body: hours && { hours } });
    assert.deepEqual((await length()).json, { hours: 12, setBy: 'console' });
    for (const hours of [11, 2161, 24.5, '24']) assert.equal((await length(hours)).status, 400, String(hours));
    assert.equal((await length(2160)).status, 200);
    await gateway.kill();
    await gateway.start();
    assert.deepEqual((await length()).json, { hours: 2160, setBy: 'console' });
    const until = async (origin: Origin) => (await origin.call('GET', '/svc/_session')).json.expiresAt - Date.now();
    const [before, now] = [await until(console), await until(await signIn(gateway, at))];
    assert.ok(before <= LIMITS.sessionMs && now > LIMITS.sessionMaxMs - LIMITS.sessionMs, `${before} ${now}`);
    const isSignedIn = async (origin: Origin) => (await origin.call('GET', '/svc/_session')).json.signedIn;
    assert.deepEqual([await isSignedIn(browser), await isSignedIn(console)], [false, true]);
    const first = await open();
    assert.equal(first['clear-site-data'], '"cache", "storage"');
    const seen = (first['set-cookie'] as string[]).find((cookie) => cookie.startsWith('svc_seen='));
    assert.equal((await open(String(seen).split(';')[0]))['clear-site-data'], undefined);
  });
});
