/** Public apps: what a visitor without a token may use, and everything that stays closed (specification, "Public apps"). */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Route } from '../supervisor/http/router.ts';
import { allRoutes } from '../supervisor/routes/all.ts';
import type { Services } from '../supervisor/services.ts';
import { type AppSource, appOf } from '../testing/apps.ts';
import { gatewayOfSuite, onEachEdge, rawRequest, sendRaw } from '../testing/edges.ts';
import { type Answer, type CallOptions, startGateway, type TestGateway } from '../testing/gateway.ts';
import { consoleHost, enter, Origin, pathAt, sessionOf, signIn } from '../testing/origins.ts';

const TITLE = '<!doctype html><title>A page</title><script src="app.js"></script>';
const OPEN: AppSource = {
  manifest: { public: true, knobs: [], uses: ['closed'] },
  migrations: ['CREATE TABLE notes (text TEXT UNIQUE)'],
  queries: {
    shown: { run: '({ ctx, input }) => ({ caller: ctx.caller, input })', public: true },
    listed: { run: "({ db }) => db.all('SELECT text FROM notes')" },
    broken: { run: "({ db }) => db.all('SELECT secret FROM vault')", public: true },
    both: '() => 1',
  },
  actions: {
    send: {
      run: "async ({ db, input, ctx }) => { await db.run('INSERT INTO notes VALUES (?)', input.text); return { status: 201, body: ctx.caller }; }",
      input: {
        type: 'object',
        properties: { text: { type: 'string' } },
        required: ['text'],
        additionalProperties: false,
      },
      writes: ['notes'],
      public: true,
    },
    clear: { run: "async ({ db }) => { await db.run('DELETE FROM notes'); return null; }", public: false },
    both: { run: '() => ({ body: 1 })', public: true },
  },
  files: { 'index.html': TITLE, 'app.js': 'let a = 1;', 'data/more.json': '[]' },
};
/** The same app without anything public. */
const CLOSED: AppSource = {
  queries: { shown: '() => 1' },
  actions: { send: '() => null' },
  files: { 'index.html': TITLE, 'app.js': 'let a = 1;' },
};
/** Limits that only the tests of limits reach. */
const MANY = { publicLimits: { reads: 100_000, writes: 100_000 } };
const ROUTES = allRoutes({ automations: {} } as Services);

const visit = (gateway: TestGateway, method: string, path: string, options: CallOptions = {}): Promise<Answer> =>
  gateway.call(method, path, { ...options, token: null });
const read = (gateway: TestGateway, query: string, headers: Record<string, string> = {}, app = 'open') =>
  visit(gateway, 'POST', '/svc/_tool/svc_read', { body: { app, query }, headers });
const write = (gateway: TestGateway, action: string, input: unknown, headers: Record<string, string> = {}) =>
  visit(gateway, 'POST', '/svc/_tool/svc_write', { body: { app: 'open', action, input }, headers });
const pageHost = (gateway: TestGateway, app = 'open') => `${app}.${consoleHost(gateway)}`;

function isError(answer: Answer, status: number, code: string, what?: string): void {
  assert.deepEqual([answer.status, answer.json.error?.code], [status, code], `${what ?? ''} ${answer.text}`);
}

/** The answer for everything that is not public, the same for existing and missing things. */
function isClosed(answer: Answer, what: string): void {
  isError(answer, 401, 'UNAUTHORIZED', what);
  assert.equal(answer.json.error.message, 'Send the access token as "Authorization: Bearer <token>".', what);
}

async function install(gateway: TestGateway, id: string, source: AppSource): Promise<Answer> {
  const answer = await gateway.upload(id, appOf(id, source));
  assert.ok(answer.status === 200 || answer.status === 201, answer.text);
  return answer;
}

onEachEdge({ config: MANY }, (gateway, _edge, store) => {
  before(async () => {
    const answer = await install(gateway, 'open', OPEN);
    assert.deepEqual(answer.json.public, ['page', 'query shown', 'query broken', 'action send', 'action both']);
    assert.equal((await install(gateway, 'closed', CLOSED)).json.public, undefined);
  });

  describe('a visitor', () => {
    test('calls public tools, and the handler sees an anonymous visitor', async () => {
      const shown = await read(gateway, 'shown');
      assert.deepEqual(shown.json, { isError: false, data: { caller: { kind: 'public' }, input: {} } });
      const sent = await write(gateway, 'send', { text: 'hello' });
      assert.deepEqual([sent.status, sent.json.data.body], [201, { kind: 'public' }], sent.text);
      const kept = (await gateway.read('open', 'listed')).json.data as { text: string }[];
      assert.ok(kept.some(({ text }) => text === 'hello'));
    });

    test('opens the page and its files at the origin of the app, and at the loopback address', async () => {
      const host = pageHost(gateway);
      const visitor = new Origin(gateway, host, '');
      assert.match((await visitor.visit('/')).text, /data-app="open"/);
      for (const path of ['/svc/open/', '/index.html', '/app.js', '/data/more.json', '/svc/open/app.js'])
        assert.equal((await visit(gateway, 'GET', path, { headers: { host } })).status, 200, path);
      assert.equal((await visit(gateway, 'HEAD', '/app.js', { headers: { host } })).status, 200);
      isError(await visit(gateway, 'GET', '/missing.js', { headers: { host } }), 404, 'NOT_FOUND');
      assert.equal((await visit(gateway, 'GET', '/svc/open/app.js')).status, 200);
      assert.equal((await visit(gateway, 'GET', '/svc/_client.js', { headers: { host } })).status, 200);
    });

    test('gets the settings of the page, and nothing else with them', async () => {
      const headers = { host: pageHost(gateway) };
      await gateway.call('PUT', '/svc/_apps/open/settings', { body: { theme: 'dark' } });
      const answer = await visit(gateway, 'GET', '/svc/_apps/open/settings', { headers });
      assert.deepEqual(answer.json, { knobs: [], settings: { theme: 'dark' }, visitor: true });
      isClosed(await visit(gateway, 'PUT', '/svc/_apps/open/settings', { headers, body: {} }), 'PUT');
      isClosed(await visit(gateway, 'GET', '/svc/_apps/closed/settings'), 'of another app');
    });

    test('learns nothing about the gateway', async () => {
      const headers = { host: pageHost(gateway) };
      const answers = [
        await visit(gateway, 'GET', '/', { headers }),
        await visit(gateway, 'GET', '/missing.js', { headers }),
        await visit(gateway, 'GET', '/svc/_apps/open/settings', { headers }),
        await read(gateway, 'shown', headers),
        await read(gateway, 'broken', headers),
        await write(gateway, 'send', { text: 1 }, headers),
      ];
      for (const { text, headers: sent } of answers) {
        const said = `${JSON.stringify(sent)} ${text.replace(/<script[^>]*><\/script>/g, '')}`;
        assert.doesNotMatch(said, /svc\.localhost|v_20\d\d|open\/v\d|server-timing|vault|SQLITE|"version/i);
      }
      const [page] = answers as [Answer];
      assert.match(String(page.headers['content-security-policy']), /frame-ancestors 'self'$/);
      isError(answers[4] as Answer, 500, 'HANDLER_ERROR');
      assert.equal((answers[4] as Answer).json.error.message, 'This did not work.');
      isError(answers[5] as Answer, 400, 'INVALID_INPUT');
      assert.equal((answers[5] as Answer).json.error.path, '/text', 'the answer says what is wrong with the form');
    });

    test('has separate idempotency keys', async () => {
      const key = { 'idempotency-key': 'key-1' };
      const owner = await gateway.write('open', 'both', {}, { headers: key });
      assert.equal(owner.status, 200);
      const first = await write(gateway, 'both', {}, key);
      assert.deepEqual([first.status, first.headers['idempotency-replayed']], [200, undefined]);
      const again = await write(gateway, 'both', {}, key);
      assert.deepEqual([again.status, again.headers['idempotency-replayed']], [200, 'true']);
    });
  });

  describe('closed stays', () => {
    test('every tool that is not public, of this app and of others, existing or not', async () => {
      for (const [app, query] of [
        ['open', 'listed'],
        ['open', 'both'],
        ['open', 'send'],
        ['open', 'none'],
        ['open', '__proto__'],
        ['closed', 'shown'],
        ['nobody', 'shown'],
        ['_draft', 'shown'],
        ['open\0', 'shown'],
        ['OPEN', 'shown'],
      ] as const) {
        isClosed(await read(gateway, query, {}, app), `${app} ${query}`);
      }
      for (const action of ['clear', 'shown', 'none', 'toString']) isClosed(await write(gateway, action, {}), action);
      for (const body of ['', '{', '[]', '"x"', '{"app":1,"query":"shown"}', '{"app":"open"}', '\xff'])
        isClosed(await visit(gateway, 'POST', '/svc/_tool/svc_read', { body }), body);
      for (const tool of ['svc_describe', 'svc_sql', 'x'])
        isClosed(await visit(gateway, 'POST', `/svc/_tool/${tool}`, { body: { app: 'open', query: 'shown' } }), tool);
    });

    test('every route except those of public pages and tools, at every origin', async () => {
      const taken = ROUTES.filter(({ visitors }) => visitors !== undefined).map(
        ({ method, path }) => `${method} ${path}`,
      );
      assert.deepEqual(taken.sort(), [
        'GET /svc/:id/*',
        'GET /svc/_apps/:id/settings',
        'POST /svc/_tool/svc_read',
        'POST /svc/_tool/svc_write',
      ]);
      const hosts = [undefined, pageHost(gateway), consoleHost(gateway), `s1--open.draft.${consoleHost(gateway)}`];
      for (const route of ROUTES.filter(({ needs, visitors }) => needs !== 'anyone' && visitors === undefined)) {
        const path = filled(route);
        for (const host of hosts) {
          const headers = host === undefined ? {} : { host };
          const body =
            route.method === 'GET' ? {} : { body: { app: 'open', query: 'shown', action: 'send', sql: 'SELECT 1' } };
          const answer = await visit(gateway, route.method, path, { headers, ...body });
          isClosed(answer, `${route.method} ${path} at ${host}`);
        }
      }
    });

    test('paths in other spellings', async () => {
      const headers = { host: pageHost(gateway) };
      const { activeVersion } = (await gateway.call('GET', '/svc/_apps/open')).json as { activeVersion: string };
      for (const path of [
        `/svc/open/_v/${encodeURIComponent(activeVersion)}/index.html`,
        `/svc/open/_v/${activeVersion}/app.js`,
        '/svc/open/_changes',
        '/svc/closed/app.js',
        '/svc/closed/',
        '/svc/open%2f..%2fclosed/app.js',
        '/svc/open%2Fx/app.js',
        '/svc/%6fpen2/app.js',
        '/svc/_draft/s1/open/index.html',
        '/svc/_draft%2fs1/open/index.html',
        '/svc/nobody/index.html',
        '/_svc-user/prefs',
        '/svc/_apps',
        '/svc/_apps/open',
        '/svc/_logs?app=open',
      ]) {
        isClosed(await visit(gateway, 'GET', path), path);
        isClosed(await visit(gateway, 'GET', path, { headers }), `${path} at the app`);
      }
      // Below a public page nothing else is found.
      for (const path of [
        '/svc/open/../closed/app.js',
        '/svc/open/%2e%2e/closed/app.js',
        '/svc/open/..%2f..%2fclosed%2fapp.js',
        '/svc/open/app.json',
        '/svc/open/queries/listed.js',
        '/svc/open/%71ueries/listed.js',
        '/svc/open/migrations/0001_step.sql',
        '/svc/open/%5fv/x/app.js',
        '/svc/open//app.js',
      ]) {
        const head = `${path} `;
        const answer = await sendRaw(gateway, rawRequest(gateway, 'GET', path).replace(/authorization.*\r\n/, ''));
        assert.ok([400, 401, 404].includes(answer.status), head + answer.body);
        assert.doesNotMatch(answer.body, /let a|SELECT/, head);
      }
    });

    test('the console, and other origins, for the files of a public app', async () => {
      for (const host of [consoleHost(gateway), pageHost(gateway, 'closed'), `s1--open.draft.${consoleHost(gateway)}`])
        isClosed(await visit(gateway, 'GET', '/svc/open/app.js', { headers: { host } }), host);
      const body = { app: 'open', query: 'shown' };
      const headers = { host: `s1--open.draft.${consoleHost(gateway)}` };
      isClosed(
        await visit(gateway, 'POST', '/svc/_tool/svc_read', { body, headers }),
        'a tool at the origin of a draft',
      );
    });

    const gitTest = store === 'git' ? test : () => {};

    gitTest('drafts, also of public apps', async () => {
      await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1', apps: ['open'] } });
      const body = { app: 'open', query: 'shown', action: 'send', input: { text: 'x' } };
      for (const headers of [{}, { host: `s1--open.draft.${consoleHost(gateway)}` }]) {
        isClosed(await visit(gateway, 'GET', '/svc/_draft/s1/open/index.html', { headers }), 'file');
        isClosed(await visit(gateway, 'GET', '/svc/_draft/s1/_apps/open/settings', { headers }), 'settings');
        for (const tool of ['svc_read', 'svc_write'])
          isClosed(await visit(gateway, 'POST', `/svc/_draft/s1/_tool/${tool}`, { body, headers }), tool);
      }
      assert.equal((await gateway.call('GET', '/svc/_draft/s1/open/index.html')).status, 200);
    });

    gitTest('what a workspace would open is in its diff, and in the record once it is live', async () => {
      await install(gateway, 'opening', CLOSED);
      await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's2', apps: ['opening'] } });
      const body = appOf('opening', { ...CLOSED, manifest: { public: true } })['app.json'];
      const put = await gateway.call('PUT', '/svc/_sessions/s2/apps/opening/files/app.json', { body });
      assert.ok(put.status < 300, put.text);
      const diff = await gateway.call('GET', '/svc/_sessions/s2/diff');
      assert.deepEqual(diff.json.public, [{ app: 'opening', before: null, after: ['page'] }], diff.text);
      assert.equal((await gateway.call('GET', '/svc/_apps/opening')).json.public, undefined);
      isClosed(await visit(gateway, 'GET', '/svc/opening/app.js'), 'before it is published');
      const published = await gateway.call('POST', '/svc/_sessions/s2/publish', { body: {} });
      assert.deepEqual(published.json.public, ['page'], published.text);
      assert.deepEqual((await gateway.call('GET', '/svc/_apps/opening')).json.public, ['page']);
      assert.equal((await visit(gateway, 'GET', '/svc/opening/app.js')).status, 200);
    });

    test('a page that is not public, although its tool is', async () => {
      await install(gateway, 'tool', { ...OPEN, manifest: {} });
      assert.equal((await read(gateway, 'shown', {}, 'tool')).status, 200);
      isClosed(await visit(gateway, 'GET', '/svc/tool/app.js'), 'file');
      await install(gateway, 'page', { ...CLOSED, manifest: { public: true } });
      assert.equal((await visit(gateway, 'GET', '/svc/page/app.js')).status, 200);
      isClosed(await read(gateway, 'shown', {}, 'page'), 'tool');
    });

    test('requests with a wrong, revoked or insufficient token', async () => {
      const body = { app: 'open', query: 'shown' };
      for (const authorization of ['Bearer wrong', `Bearer ${gateway.token}x`, 'Bearer svct_0', 'Bearer svca_0'])
        isError(
          await visit(gateway, 'POST', '/svc/_tool/svc_read', { body, headers: { authorization } }),
          401,
          'UNAUTHORIZED',
          authorization,
        );
    });

    test('an app from the moment when its version is no longer public', async () => {
      await install(gateway, 'turned', OPEN);
      assert.equal((await read(gateway, 'shown', {}, 'turned')).status, 200);
      assert.equal((await visit(gateway, 'GET', '/svc/turned/app.js')).status, 200);
      await install(gateway, 'turned', CLOSED);
      isClosed(await read(gateway, 'shown', {}, 'turned'), 'tool');
      isClosed(await visit(gateway, 'GET', '/svc/turned/app.js'), 'file');
      await gateway.call('DELETE', '/svc/_apps/turned');
      isClosed(await visit(gateway, 'GET', '/svc/turned/app.js'), 'removed');
    });
  });

  describe('origins', () => {
    test("a page of another site cannot call tools through a visitor's browser", async () => {
      const host = pageHost(gateway);
      for (const headers of [
        { host, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example', 'content-type': 'text/plain' },
        { host, 'sec-fetch-site': 'same-site', origin: `http://${pageHost(gateway, 'closed')}` },
        { host, origin: 'null' },
      ] as Record<string, string>[]) {
        isError(await write(gateway, 'send', { text: 'csrf' }, headers), 403, 'FORBIDDEN', JSON.stringify(headers));
        isError(await read(gateway, 'shown', headers), 403, 'FORBIDDEN');
        isClosed(await read(gateway, 'listed', headers), 'what is not public');
      }
      const own = { host, 'sec-fetch-site': 'same-origin', origin: `http://${host}` };
      assert.equal((await write(gateway, 'send', { text: 'own' }, own)).status, 201);
      const linked = await new Origin(gateway, host, '').visit('/', { 'sec-fetch-site': 'cross-site' });
      assert.equal(linked.status, 200, 'a link from elsewhere leads to the page');
    });

    test('a session of the app is not a visitor, and its cookie is refused from elsewhere', async () => {
      const console = await signIn(gateway);
      const away = pathAt(await console.visit('/svc/open/'), console.host);
      assert.match(away, /^\/svc\/_enter\?to=/);
      const host = pageHost(gateway);
      const way = await console.wayTo(new URL(away, 'http://x').searchParams.get('to') as string);
      const owner = sessionOf(gateway, host, await new Origin(gateway, host, '').enter(way));
      const body = { app: 'open', query: 'shown' };
      const own = await owner.call('POST', '/svc/_tool/svc_read', { body });
      assert.deepEqual(own.json.data.caller, { kind: 'session' });
      assert.equal(
        (await owner.call('POST', '/svc/_tool/svc_read', { body: { app: 'open', query: 'listed' } })).status,
        200,
      );
      const foreign = await owner.call('POST', '/svc/_tool/svc_read', {
        body,
        headers: { 'sec-fetch-site': 'same-site' },
      });
      isError(foreign, 403, 'FORBIDDEN');
      assert.match(String((await owner.visit('/')).headers['content-security-policy']), /frame-ancestors 'self' http/);
      const settings = (await owner.call('GET', '/svc/_apps/open/settings')).json;
      assert.deepEqual(Object.keys(settings).sort(), ['knobs', 'prefs', 'settings', 'versionId']);
    });

    test('a cookie alone is a visitor, whose page first gets its page key', async () => {
      const { host, cookie } = await enter(gateway, await signIn(gateway), { app: 'open' });
      const alone = new Origin(gateway, host, cookie);
      const read = (query: string) => alone.call('POST', '/svc/_tool/svc_read', { body: { app: 'open', query } });
      assert.deepEqual((await read('shown')).json.data.caller, { kind: 'public' });
      isClosed(await read('listed'), 'what is not public');
      const settings = await alone.call('GET', '/svc/_apps/open/settings');
      assert.deepEqual([settings.status, settings.json.error.path], [401, 'svc-page-key']);
    });

    test('what visitors get may be loaded by pages elsewhere, and what an owner gets may not', async () => {
      const owner = await enter(gateway, await signIn(gateway), { app: 'open' });
      const visitor = new Origin(gateway, owner.host, '');
      const policyOf = async (origin: Origin, path: string) =>
        (await origin.call('GET', path)).headers['cross-origin-resource-policy'];
      for (const path of ['/', '/favicon.ico', '/manifest.webmanifest', '/icon-192.png']) {
        assert.equal((await visitor.call('HEAD', path)).status, 200, path);
        assert.equal(await policyOf(visitor, path), undefined, path);
        assert.equal(await policyOf(owner, path), 'same-origin', path);
      }
      for (const path of ['/svc/_apps/open/settings', '/svc/open/_openapi.json'])
        assert.equal(await policyOf(owner, path), 'same-origin', path);
    });

    test('a request with an expired or invalid cookie is a visitor', async () => {
      const visitor = new Origin(gateway, pageHost(gateway), 'svc_session=1/0123456789abcdef/app/open/1/00');
      assert.equal((await visitor.visit('/')).status, 200);
      const { json } = await visitor.call('POST', '/svc/_tool/svc_read', { body: { app: 'open', query: 'shown' } });
      assert.deepEqual(json.data.caller, { kind: 'public' });
      const closed = await enter(gateway, await signIn(gateway), { app: 'closed' });
      const other = new Origin(gateway, pageHost(gateway), closed.cookie);
      isClosed(
        await other.call('POST', '/svc/_tool/svc_read', { body: { app: 'open', query: 'listed' } }),
        'a cookie of another app',
      );
    });
  });

  test('a manifest whose public is not a boolean is refused', async () => {
    for (const [source, path] of [
      [{ ...CLOSED, manifest: { public: 'yes' } }, 'public'],
      [{ ...CLOSED, queries: { shown: { run: '() => 1', public: 1 } } }, 'queries[0].public'],
      [{ ...CLOSED, actions: { send: { run: '() => 1', public: null } } }, 'actions[0].public'],
    ] as [AppSource, string][]) {
      const answer = await gateway.upload('odd', appOf('odd', source));
      isError(answer, 400, 'INVALID_MANIFEST');
      assert.equal(answer.json.error.path, path);
    }
  });
});

describe('limits', () => {
  test('60 reads and 10 writes a minute of one address, by default', async (t) => {
    const gateway = await startGateway(t);
    await install(gateway, 'open', OPEN);
    for (let n = 0; n < 60; n++) assert.equal((await read(gateway, 'shown')).status, 200, String(n));
    const limited = await read(gateway, 'shown');
    isError(limited, 429, 'RATE_LIMITED');
    assert.match(String(limited.headers['retry-after']), /^[1-9]\d?$/);
    for (let n = 0; n < 10; n++) assert.equal((await write(gateway, 'both', {})).status, 200, String(n));
    isError(await write(gateway, 'both', {}), 429, 'RATE_LIMITED');
    // A forged address in the header changes nothing.
    isError(await read(gateway, 'shown', { 'x-forwarded-for': '198.51.100.7' }), 429, 'RATE_LIMITED');
    isClosed(await read(gateway, 'listed'), 'what is not public');
    assert.equal((await gateway.read('open', 'shown')).status, 200, 'no other address is limited');
    assert.equal((await visit(gateway, 'GET', '/svc/open/app.js')).status, 200, 'files are not counted');
  });

  describe('behind a proxy, with a listed origin', () => {
    const config = { trustedProxies: ['127.0.0.1', '10.0.0.0/8'], publicLimits: { reads: 2 } };
    const gateway = gatewayOfSuite({ config: { ...config, corsOrigins: ['https://www.example.org'] } });
    before(() => install(gateway, 'open', OPEN));

    test('apply to the address that a trusted proxy names', async () => {
      const from = (forwarded: string) => read(gateway, 'shown', { 'x-forwarded-for': forwarded });
      for (const forged of ['1.1.1.1', '2.2.2.2']) assert.equal((await from(`${forged}, 198.51.100.7`)).status, 200);
      isError(await from('3.3.3.3, 198.51.100.7, 10.0.0.9'), 429, 'RATE_LIMITED');
      isError(await from('198.51.100.7'), 429, 'RATE_LIMITED');
      assert.equal((await from('198.51.100.8')).status, 200);
      for (const one of ['2001:db8:1:2::1', '2001:db8:1:2::2']) assert.equal((await from(one)).status, 200);
      isError(await from('2001:db8:1:2:ffff::3'), 429, 'RATE_LIMITED');
      assert.equal(
        (await write(gateway, 'both', {}, { 'x-forwarded-for': '198.51.100.7' })).status,
        200,
        'writes are 10',
      );
    });

    test('visitors of other networks have separate idempotency keys', async () => {
      const send = (text: string, forwarded: string) =>
        write(gateway, 'send', { text }, { 'idempotency-key': 'order', 'x-forwarded-for': forwarded });
      const first = await send('of one', '203.0.113.1');
      const other = await send('of another', '203.0.113.2');
      assert.deepEqual([first.status, other.status], [201, 201], other.text);
      const again = await send('of one', '203.0.113.1');
      assert.deepEqual([again.text, again.headers['idempotency-replayed']], [first.text, 'true']);
      isError(await send('of a third', '203.0.113.1'), 422, 'IDEMPOTENCY_MISMATCH');
      assert.equal((await send('by IPv6', '2001:db8:9:9::1')).status, 201);
      assert.equal(
        (await send('by IPv6', '2001:db8:9:9::2')).headers['idempotency-replayed'],
        'true',
        'of one network',
      );
    });

    test('a page of a listed origin may call, and read the answer', async () => {
      const headers = { origin: 'https://www.example.org', 'sec-fetch-site': 'cross-site' };
      const answer = await write(gateway, 'send', { text: 'from a site' }, headers);
      assert.deepEqual(
        [answer.status, answer.headers['access-control-allow-origin']],
        [201, 'https://www.example.org'],
        answer.text,
      );
      isError(
        await write(gateway, 'send', { text: 'x' }, { ...headers, origin: 'https://evil.example' }),
        403,
        'FORBIDDEN',
      );
    });
  });
});

describe('without any call by visitors, at an address that all apps share', () => {
  const gateway = gatewayOfSuite({ config: { publicLimits: { reads: 0, writes: 0 }, pageOrigins: 'shared' } });
  before(async () => {
    await install(gateway, 'open', OPEN);
    await install(gateway, 'closed', CLOSED);
  });

  test('limits do not apply to callers that are not visitors', async () => {
    isError(await read(gateway, 'shown'), 429, 'RATE_LIMITED');
    for (let n = 0; n < 3; n++) assert.equal((await gateway.read('open', 'shown')).status, 200);
  });

  test('the public page is open and the others are not', async () => {
    assert.match((await visit(gateway, 'GET', '/svc/open/')).text, /data-app="open"/);
    isClosed(await visit(gateway, 'GET', '/svc/closed/'), 'the page of another app');
    const visitor = new Origin(gateway, new URL(gateway.url).host, '');
    assert.match(String((await visitor.visit('/svc/closed/')).headers.location), /^\/svc\/#enter=/);
    assert.equal((await visitor.visit('/svc/open/')).status, 200);
  });
});

/** A path of the route about the public app, or about its draft. */
function filled({ path }: Route): string {
  return path
    .replace(':app/:id', 'open/daily')
    .replace(':sid', 's1')
    .replace(':id', 'open')
    .replace(':runId', '01890000-0000-7000-8000-000000000000')
    .replace(':versionId', 'v_20260101T000000000Z_000000')
    .replace(':tool', 'svc_describe')
    .replace(/:\w+/, 'x')
    .replace('/*', '/index.html');
}
