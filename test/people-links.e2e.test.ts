// Links to apps: guests without an account, what they may do, and what ends it (specification, "Links").
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { type EventClient, openEvents } from '../testing/exchange-server.ts';
import { startGateway } from '../testing/gateway.ts';
import { consoleHost, enter, Origin, sessionOf, signIn } from '../testing/origins.ts';
import { enterPassword, guestCodeOf, join, joinWithPassword, openLink, visitor } from '../testing/people.ts';
import { inTime } from '../testing/waiting.ts';

const APP = {
  queries: {
    me: `({ ctx }) => ({ caller: ctx.caller, user: ctx.user })`,
    all: `async ({ db }) => (await db.all('SELECT n FROM t')).map(({ n }) => n)`,
  },
  actions: {
    add: {
      run: `async ({ db, input }) => { await db.run('INSERT INTO t VALUES (?)', input.n); return input.n; }`,
      writes: ['t'],
    },
  },
  migrations: ['CREATE TABLE t (n INTEGER);'],
  files: { 'index.html': '<title>Notes</title>' },
};

describe('links to apps', () => {
  const gateway = gatewayOfSuite({});
  const ok = async (method: string, path: string, body?: unknown) => {
    const answer = await gateway.call(method, path, { body });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const upload = async (id: string, manifest: object = {}) =>
    assert.equal((await gateway.upload(id, appOf(id, { ...APP, manifest: { ...manifest } }))).status, 201);
  const share = (app: string, role: string, more: object = {}) =>
    ok('POST', `/svc/_apps/${app}/shares`, { link: true, role, ...more });
  const read = (origin: Origin, app: string, query = 'all') =>
    origin.call('POST', '/svc/_tool/svc_read', { body: { app, query } });
  const write = (origin: Origin, app: string, n = 1, headers = {}) =>
    origin.call('POST', '/svc/_tool/svc_write', { body: { app, action: 'add', input: { n } }, headers });
  const open = (url: string, home = visitor(gateway)) =>
    home.call('POST', '/svc/_auth/link', { body: { code: guestCodeOf(url) } });
  const streamsOf = async (page: Origin, app: string) =>
    Promise.all(
      [`/svc/${app}/_changes`, `/svc/${app}/_live?query=all`].map((path) =>
        openEvents(gateway.port, path, page.headers),
      ),
    );
  const ends = async (streams: readonly EventClient[]) => {
    const all = streams.map(async (stream) => {
      assert.equal(stream.status, 200);
      while ((await stream.next()) !== undefined);
    });
    await inTime(Promise.all(all), 'the end of the streams');
  };

  test('whoever has a link uses the app in its role, as nobody in particular', async () => {
    await upload('notes');
    const made = await share('notes', 'editor', { expiresInDays: 7 });
    assert.deepEqual([made.with, made.role, made.by, made.openedAt], ['link', 'editor', null, null]);
    assert.equal(new URL(made.url).origin, `http://${consoleHost(gateway)}`);
    const page = await openLink(gateway, made.url);
    assert.equal((await page.visit('/')).status, 200);
    assert.deepEqual((await read(page, 'notes', 'me')).json.data, { caller: { kind: 'guest' }, user: null });
    assert.equal(
      (await gateway.call('POST', '/svc/_tool/svc_read', { body: { app: 'notes', query: 'me' } })).json.data.caller
        .kind,
      'admin',
      'a kept result is not for both',
    );
    const settings = (await page.call('GET', '/svc/_apps/notes/settings')).json;
    assert.deepEqual(
      [settings.guest, settings.user, settings.visitor, settings.prefs],
      [true, undefined, undefined, {}],
    );

    const changes = await gateway.stream('/svc/notes/_changes');
    assert.equal((await write(page, 'notes')).json.data.body, 1);
    assert.equal(JSON.parse((await changes.next()).data).by, undefined);
    changes.close();
    const file = { body: Buffer.from('a'), headers: { 'content-type': 'text/plain' } };
    assert.equal((await page.call('PUT', '/svc/notes/_blobs', file)).status, 201);
    const chat = await page.call('POST', '/svc/notes/_chat', { body: { windowId: 'w', message: 'hi' } });
    assert.equal(chat.status, 403, 'no chat');
    assert.match(chat.json.error.message, /came by this link is editor of "notes"/);

    // A key belongs to one guest.
    const [one, two] = [await openLink(gateway, made.url), await openLink(gateway, made.url)];
    const keyed = { 'idempotency-key': 'k' };
    const answers = [
      await write(one, 'notes', 5, keyed),
      await write(one, 'notes', 5, keyed),
      await write(two, 'notes', 6, keyed),
    ];
    assert.deepEqual(
      answers.map(({ json }) => json.data.body),
      [5, 5, 6],
    );
    assert.deepEqual((await read(page, 'notes')).json.data, [1, 5, 6]);

    const [row] = await ok('GET', '/svc/_apps/notes/shares');
    const { url, mailed: _, openedAt, ...listed } = made;
    assert.deepEqual({ ...row, openedAt }, { ...listed, openedAt });
    assert.ok(row.openedAt >= row.createdAt && row.openedAt <= Date.now());
    assert.ok(Math.abs(row.expiresAt - row.createdAt - 7 * LIMITS.dayMs) < LIMITS.dayMs);
    assert.ok(!JSON.stringify(row).includes(guestCodeOf(url)));
  });

  test('a viewer changes nothing, a role of the app allows its tools, and no link makes a manager', async () => {
    await upload('kitchen', { roles: { cook: { name: 'Cook', queries: ['me'], actions: '*' } } });
    const viewer = await openLink(gateway, (await share('kitchen', 'viewer')).url);
    assert.deepEqual([(await read(viewer, 'kitchen')).status, (await write(viewer, 'kitchen')).status], [200, 403]);
    const cook = await openLink(gateway, (await share('kitchen', 'cook')).url);
    assert.deepEqual([(await read(cook, 'kitchen', 'me')).status, (await write(cook, 'kitchen')).status], [200, 200]);
    assert.match(
      (await read(cook, 'kitchen')).json.error.message,
      /role in "kitchen" is Cook, which does not allow the query "all"/,
    );
    for (const [body, path] of [
      [{ link: true, role: 'manager' }, 'role'],
      [{ link: true, role: 'chef' }, 'role'],
      [{ link: true, everyone: true, role: 'viewer' }, 'person'],
      [{ link: false, role: 'viewer' }, 'person'],
    ] as const) {
      const refused = await gateway.call('POST', '/svc/_apps/kitchen/shares', { body });
      assert.deepEqual([refused.status, refused.json.error.path], [400, path], refused.text);
    }
    const { token } = await ok('POST', '/svc/_tokens', { name: 'program', apps: ['kitchen'], tools: 'all' });
    const byProgram = await gateway.call('POST', '/svc/_apps/kitchen/shares', {
      token,
      body: { link: true, role: 'viewer' },
    });
    assert.equal(byProgram.status, 403);
  });

  test('a session of a guest is good at its app and nowhere else', async () => {
    await upload('mine', { uses: ['other'] });
    await upload('other');
    const page = await openLink(gateway, (await share('mine', 'editor')).url);
    assert.equal((await read(page, 'other')).status, 403, 'an app that the page uses');
    const described = await page.call('POST', '/svc/_tool/svc_describe', { body: {} });
    assert.deepEqual(
      described.json.data.apps.map(({ app }: { app: string }) => app),
      ['mine'],
    );
    for (const [method, path] of [
      ['GET', '/svc/_people/me'],
      ['GET', '/svc/_apps/mine/shares'],
      ['GET', '/svc/_apps/mine/versions'],
      ['GET', '/_svc-user/prefs'],
      ['GET', '/svc/_audit'],
      ['PUT', '/svc/_apps/mine/settings'],
      ['POST', '/svc/_apps/mine/shares'],
    ] as const)
      assert.equal(
        (await page.call(method, path, method === 'GET' ? {} : { body: {} })).status,
        403,
        `${method} ${path}`,
      );
    const at = (host: string) => new Origin(gateway, host, page.cookie, page.pageKey);
    for (const host of [consoleHost(gateway), `other.${consoleHost(gateway)}`, `127.0.0.1:${gateway.port}`])
      assert.equal((await read(at(host), 'mine')).status, 401, host);
    const other = await openLink(gateway, (await share('other', 'editor')).url);
    const mixed = new Origin(gateway, page.host, page.cookie, other.pageKey);
    assert.equal((await read(mixed, 'mine')).status, 401, 'with the page key of another origin');
    assert.equal(
      (await read(new Origin(gateway, page.host, page.cookie), 'mine')).status,
      401,
      'with the cookie alone',
    );
    const forged = new Origin(
      gateway,
      page.host,
      page.cookie.replace(/\/g[0-9a-f]{12}/, '/g000000000000'),
      page.pageKey,
    );
    assert.equal((await read(forged, 'mine')).status, 401, 'of another link');
    const shown = (await page.call('GET', '/svc/_session')).json;
    assert.deepEqual([shown.signedIn, shown.guest, shown.person], [true, true, null]);
    assert.equal((await page.call('DELETE', '/svc/_session')).status, 200);
    assert.equal((await read(page, 'mine')).status, 200, 'of one browser the cookie was taken, and no more');
  });

  test('what a guest has open ends with the link, which says so, and other links go on', async () => {
    await upload('club');
    const [one, two] = [await share('club', 'editor'), await share('club', 'editor')];
    const [page, other] = [await openLink(gateway, one.url), await openLink(gateway, two.url)];
    const [streams, others] = [await streamsOf(page, 'club'), await streamsOf(other, 'club')];
    await ok('DELETE', `/svc/_apps/club/shares/${one.id}`);
    await ends(streams);
    const refused = await page.call('GET', '/svc/club/_blobs');
    assert.equal(refused.status, 401);
    assert.match(refused.json.error.message, /The link by which you came here has ended. Ask whoever sent it/);
    // As to any visitor.
    assert.equal((await write(page, 'club')).status, 401);
    assert.equal((await page.call('GET', '/svc/_session')).json.signedIn, false);
    const shown = await page.visit('/');
    assert.equal(shown.status, 403);
    for (const words of [/This link has ended/, /Ask whoever sent it for another one/, />Sign in<\/a>/])
      assert.match(shown.text, words);
    const again = await open(one.url);
    assert.deepEqual([again.status, again.json.error.code], [403, 'LINK_ENDED']);

    assert.equal((await write(other, 'club', 8)).status, 200);
    await others[0]?.next();
    for (const stream of others) stream.close();
    await upload('open', { public: true });
    const { id, url } = await share('open', 'viewer');
    const former = await openLink(gateway, url);
    await ok('DELETE', `/svc/_apps/open/shares/${id}`);
    assert.equal((await former.visit('/')).status, 200, 'a public page is for everybody');
    await ok('DELETE', '/svc/_apps/club?purge=1');
    await upload('club');
    assert.equal((await open(two.url)).status, 403, 'of an app that was removed');
    assert.equal((await read(other, 'club')).status, 401);
  });

  test('a link is good as long as who made it may share the app', async () => {
    await upload('lent');
    const manager = await join(gateway, 'Mara', { grants: [{ app: 'lent', role: 'manager' }] });
    const path = '/svc/_apps/lent/shares';
    const made = (await manager.origin.call('POST', path, { body: { link: true, role: 'editor' } })).json;
    assert.equal(made.by, 'Mara');
    const page = await openLink(gateway, made.url);
    const streams = await streamsOf(page, 'lent');
    await ok('POST', path, { person: manager.id, role: 'editor' });
    await ends(streams);
    assert.deepEqual([(await read(page, 'lent')).status, (await open(made.url)).status], [401, 403]);
    const linkOf = async () => (await ok('GET', path)).find((row: { with: string }) => row.with === 'link');
    assert.equal((await linkOf()).void, true);
    await ok('POST', path, { person: manager.id, role: 'manager' });
    assert.equal((await linkOf()).void, undefined);
    assert.equal((await read(page, 'lent')).status, 200);
    await ok('PATCH', `/svc/_people/${manager.id}`, { disabled: true });
    assert.equal((await read(page, 'lent')).status, 401);
    await ok('DELETE', `/svc/_people/${manager.id}`);
    assert.equal(await linkOf(), undefined);
  });

  test('who is signed in opens an app that they have as themselves, and another one as a guest', async () => {
    await upload('two');
    const [viewer, editor] = [await share('two', 'viewer'), await share('two', 'editor')];
    const person = await join(gateway, 'Gil');
    const guest = await openLink(gateway, editor.url, person.origin);
    assert.equal((await read(guest, 'two', 'me')).json.data.user, null);
    assert.equal((await person.origin.call('GET', '/svc/_people/me')).json.name, 'Gil', 'and stays signed in');
    await ok('POST', '/svc/_apps/two/shares', { person: person.id, role: 'viewer' });
    assert.equal((await open(viewer.url, person.origin)).json.guest, false);
    const self = await openLink(gateway, editor.url, person.origin);
    assert.deepEqual((await read(self, 'two', 'me')).json.data.user, {
      id: person.id,
      name: 'Gil',
      email: 'gil@example.org',
      role: 'viewer',
    });
    // The page of a guest leads to where one signs in, and comes back as the person.
    const back = await enter(gateway, person.origin, { app: 'two' });
    assert.equal((await read(back, 'two', 'me')).json.data.caller.name, 'Gil');
    const owner = await openLink(gateway, viewer.url, await signIn(gateway));
    assert.equal((await write(owner, 'two')).status, 200);
  });

  test('pages of other sites open no link, nobody does at an app, and whoever guesses has to wait, but not to sign in', async () => {
    await upload('guessed');
    const { url } = await share('guessed', 'viewer');
    const body = { code: guestCodeOf(url) };
    const foreign = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' };
    assert.equal((await visitor(gateway).call('POST', '/svc/_auth/link', { body, headers: foreign })).status, 403);
    const host = `guessed.${consoleHost(gateway)}`;
    assert.equal((await visitor(gateway).call('POST', '/svc/_auth/link', { body, headers: { host } })).status, 403);
    await joinWithPassword(gateway, 'Xia');
    let tries = 0;
    while ((await open(`${url}${tries}`)).status === 403) tries++;
    assert.ok(tries <= LIMITS.attemptsOfAddress, `${tries}`);
    const right = await open(url);
    assert.deepEqual([right.status, right.json.error.code], [429, 'RATE_LIMITED']);
    assert.equal((await enterPassword(gateway, 'xia@example.org')).status, 200);
    const entries: { action: string; target: string; detail: Record<string, unknown> }[] = await ok(
      'GET',
      '/svc/_audit?limit=500',
    );
    const of = (action: string) =>
      entries.filter((entry) => entry.action === action && entry.detail.link !== undefined);
    assert.deepEqual(
      of('link.opened').map(({ target }) => target),
      ['two', 'lent', 'open', 'club', 'club', 'other', 'mine', 'kitchen', 'kitchen', 'notes'],
    );
    assert.deepEqual(
      of('share.ended').map(({ target, detail }) => [target, detail.role]),
      [
        ['open', 'viewer'],
        ['club', 'editor'],
      ],
    );
    assert.ok(!JSON.stringify(entries).includes(body.code));
  });

  test('at an address that all apps share a guest has one app, and signs nobody out', async (t) => {
    const shared = await startGateway(t, { config: { pageOrigins: 'shared' } });
    for (const id of ['todos', 'journal']) assert.equal((await shared.upload(id, appOf(id, APP))).status, 201);
    const host = `127.0.0.1:${shared.port}`;
    const home = new Origin(shared, host, '');
    const made = await shared.call('POST', '/svc/_apps/todos/shares', {
      body: { link: true, role: 'viewer' },
      headers: { host },
    });
    assert.match(made.json.url, new RegExp(`^http://${host}/svc/#guest=`));
    const body = { code: guestCodeOf(made.json.url) };
    const answer = await home.call('POST', '/svc/_auth/link', { body });
    assert.equal(answer.json.url, '/svc/todos/');
    const guest = sessionOf(shared, host, answer);
    assert.deepEqual(
      [(await guest.visit('/svc/todos/')).status, (await guest.visit('/svc/journal/')).status],
      [200, 403],
    );
    assert.equal((await guest.call('GET', '/svc/_session')).json.guest, true);
    assert.equal((await guest.call('GET', '/svc/_apps')).status, 403);

    const admin = await signIn(shared, host);
    assert.equal((await admin.call('POST', '/svc/_auth/link', { body })).json.guest, false);
    const member = await joinWithPassword(shared, 'Sia');
    const entered = await home.call('POST', '/svc/_auth/password', {
      body: { email: 'sia@example.org', password: 'correct horse battery' },
    });
    const sia = sessionOf(shared, host, entered);
    const refused = await sia.call('POST', '/svc/_auth/link', { body });
    assert.deepEqual(
      [refused.status, refused.headers['set-cookie'], member.id],
      [409, undefined, entered.json.person.id],
    );
    assert.match(refused.json.error.message, /private window/);
  });
});
