import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { OutgoingHttpHeaders } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import type { PageOwner } from '../../../protocol/http/origins.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import { rotateToken } from '../../../storage/token.ts';
import { send, serveExchanges } from '../../../testing/exchange-server.ts';
import { standIn } from '../../../testing/stand-in.ts';
import { resolveConfig } from '../../config.ts';
import type { Accounts } from '../../people/accounts.ts';
import { Access } from './access.ts';
import { NOBODY } from './callers.ts';
import { isForeign } from './fetch-metadata.ts';
import { type Caller, may } from './grants.ts';
import { Places } from './places.ts';
import type { ProgramTokens } from './program-tokens.ts';
import { SignIns } from './sign-ins.ts';

const CONFIG = resolveConfig('/data', { allowedHosts: ['gateway.lan'] });
const CONSOLE = 'svc.localhost:8787';
const TODOS = 'todos.svc.localhost:8787';

/** Nobody has an account; the end-to-end tests have people. */
const accountsOf = (isCurrent: boolean) =>
  standIn<Accounts>({
    isPersons: () => false,
    people: standIn({ session: () => undefined }),
    connections: standIn({ caller: () => undefined }),
    links: standIn({ isGuests: () => false }),
    isCurrent,
  });
const accounts = accountsOf(true);

/** A server that answers 204 to whom `Access` lets in. `logged` resolves with the next log line. */
async function setUp(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-access-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'token.bin');
  const lines = new PassThrough();
  const clock = { now: 1_000_000, elapsed: 0 };
  const now = () => clock.now;
  const places = new Places(CONFIG);
  // What was ended is stored by the gateway's own databases, which the end-to-end tests have.
  const db = { exec: async () => {}, batch: async () => [] } as unknown as DbClient;
  const signIns = new SignIns(db, now, () => clock.elapsed);
  const registered = new Map([['todos', 5]]);
  const programTokens = standIn<ProgramTokens>({ find: () => undefined });
  const options = {
    places,
    signIns,
    programTokens,
    accounts,
    registeredAt: (app: string) => registered.get(app) ?? null,
  };
  const access = await Access.open(path, { log: pino(lines), now, ...options });
  t.after(() => access.close());
  let last: Caller | undefined;
  const port = await serveExchanges(t, (exchange) => {
    const place = places.of(exchange.header('host'));
    const caller = access.caller(exchange, place, exchange.path === '/file');
    last = caller instanceof SvcError ? undefined : caller;
    const refused = caller instanceof SvcError ? caller : null;
    const isRefused =
      refused === null && last?.kind === 'session' && isForeign(exchange, place, exchange.path === '/page');
    exchange.send(refused?.status ?? (isRefused ? 403 : 204), refused?.headers ?? {}, refused?.code ?? '');
  });
  const logged = async (): Promise<string> => String(await once(lines, 'data'));
  const setCookies = (host: string, owner: PageOwner | null, signIn = signIns.begin(), https = false): string[] => {
    const exchange = { header: (name: string) => (https && name === 'x-forwarded-proto' ? 'https' : undefined) };
    return access.cookies(exchange as never, places.of(host), { ...signIn, owner });
  };
  const session = (host = CONSOLE, owner: PageOwner | null = null) =>
    setCookies(host, owner)[0]?.split(';')[0] as string;
  /** The cookie and the page key of one session, as headers. */
  const both = (host = CONSOLE, owner: PageOwner | null = null, signIn = signIns.begin()) => ({
    host,
    cookie: setCookies(host, owner, signIn)[0]?.split(';')[0] as string,
    'svc-page-key': access.pageKey(places.of(host), { ...signIn, owner }),
  });
  const get = (headers: OutgoingHttpHeaders) => send(port, 'GET', '/', { host: CONSOLE, ...headers });
  return {
    path,
    programTokens,
    access,
    port,
    clock,
    logged,
    session,
    setCookies,
    both,
    get,
    signIns,
    registered,
    places,
    caller: () => last,
  };
}

test('only the token lets a caller in', async (t) => {
  const { access, port } = await setUp(t);
  const { token } = access;
  assert.match(token, /^[0-9a-f]{64}$/);
  const cases: [authorization: string | undefined, status: number][] = [
    [`Bearer ${token}`, 204],
    [`bearer  ${token} `, 204],
    [undefined, 401],
    ['', 401],
    ['Bearer', 401],
    ['Bearer ', 401],
    [`Bearer ${token.slice(1)}`, 401],
    [`Bearer ${token}0`, 401],
    [`Bearer ${token} ${token}`, 401],
    [`Bearer ${token.replace(/./, (c) => (c === '0' ? '1' : '0'))}`, 401],
    [`Basic ${token}`, 401],
    [token, 401],
  ];
  for (const [authorization, status] of cases) {
    const answer = await send(port, 'GET', '/', authorization === undefined ? {} : { authorization });
    assert.equal(answer.status, status, authorization);
    assert.equal(answer.headers['www-authenticate'], status === 401 ? 'Bearer' : undefined, authorization);
  }
});

test('digests of at most 64 tokens are remembered, and a sender of more locks no one out', async (t) => {
  let hashed: string[] = [];
  const { hash } = crypto;
  t.mock.method(crypto, 'hash', ((algorithm: string, data: string, encoding: 'buffer') => {
    hashed.push(data);
    return hash(algorithm, data, encoding);
  }) as typeof hash);
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  const { access, port } = await setUp(t);
  const present = async (token: string): Promise<number> =>
    (await send(port, 'GET', '/', { authorization: `Bearer ${token}` })).status;
  const others = Array.from({ length: 64 }, (_, n) => `wrong-${n}`);
  hashed = [];
  assert.deepEqual([await present(access.token), await present(access.token)], [204, 204]);
  assert.deepEqual(hashed, [access.token], 'it is remembered');
  for (const token of others) assert.equal(await present(token), 401);
  hashed = [];
  for (const token of [access.token, ...others]) assert.equal(await present(token), token === access.token ? 204 : 401);
  assert.ok(hashed.length > 0, 'one of 65 tokens was forgotten');
});

test('a session cookie has the name that no other origin can set, where the browser takes it', async (t) => {
  const { access, setCookies } = await setUp(t);
  const [own = '', plain = '', more] = setCookies(TODOS, { app: 'todos' });
  assert.match(own, /^__Host-svc_session=[^;]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure$/);
  assert.match(plain, /^svc_session=[^;]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/);
  assert.equal(more, undefined);
  assert.ok(!own.includes(access.token));
  assert.deepEqual(
    setCookies('gateway.lan', null).map((cookie) => cookie.split('=')[0]),
    ['svc_session'],
  );
  assert.deepEqual(
    setCookies('gateway.lan', null, undefined, true).map((cookie) => cookie.split('=')[0]),
    ['__Host-svc_session'],
  );
});

test('a session cookie is taken from pages of its own origin only', async (t) => {
  const { port, session } = await setUp(t);
  const own = { 'sec-fetch-site': 'same-origin' };
  const ownOrigin = { origin: `http://${CONSOLE}` };
  const tab = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
  const frame = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' };
  const script = { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' };
  const cases: [method: string, headers: Record<string, string>, status: number, path?: string][] = [
    ['GET', own, 204],
    ['POST', own, 204],
    ['DELETE', own, 204],
    ['GET', {}, 204],
    ['HEAD', {}, 204],
    ['POST', {}, 403],
    ['POST', ownOrigin, 204],
    ['POST', { origin: `https://${CONSOLE}` }, 204],
    ['GET', ownOrigin, 204],
    ['POST', { origin: `http://${TODOS}` }, 403],
    ['POST', { origin: 'http://svc.localhost:1' }, 403],
    ['GET', { origin: 'http://svc.localhost:1' }, 403],
    ['POST', { origin: 'null' }, 403],
    ['POST', { ...ownOrigin, 'sec-fetch-site': 'cross-site' }, 403],
    ['POST', { ...ownOrigin, 'sec-fetch-site': 'same-site' }, 403],
    ['GET', { 'sec-fetch-site': 'none', ...tab }, 204],
    ['POST', { 'sec-fetch-site': 'none', ...tab }, 403],
    ['GET', { 'sec-fetch-site': 'same-site', ...tab }, 204],
    ['POST', { 'sec-fetch-site': 'same-site', ...tab }, 403],
    ['GET', { 'sec-fetch-site': 'same-site', ...frame }, 403],
    ['GET', { 'sec-fetch-site': 'same-site', ...frame }, 204, '/page'],
    ['POST', { 'sec-fetch-site': 'same-site', ...frame }, 403, '/page'],
    ['GET', { 'sec-fetch-site': 'same-site', ...script }, 403],
    ['GET', { 'sec-fetch-site': 'same-site', ...script }, 403, '/page'],
    ['GET', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' }, 403, '/page'],
    ['GET', { 'sec-fetch-site': 'cross-site', ...script }, 403, '/page'],
    ['GET', { 'sec-fetch-site': 'same-origin', ...script }, 204, '/page'],
    ['GET', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' }, 403],
  ];
  for (const [method, headers, status, path = '/'] of cases) {
    const answer = await send(port, method, path, { ...headers, host: CONSOLE, cookie: `theme=dark; ${session()}` });
    assert.equal(answer.status, status, `${method} ${path} ${JSON.stringify(headers)}`);
  }
});

test('a session cookie has the rights of its origin, and is invalid at others', async (t) => {
  const { port, both, caller } = await setUp(t);
  const draft = 's1--todos.draft.svc.localhost:8787';
  const cases: [host: string, owner: PageOwner | null][] = [
    [CONSOLE, null],
    [TODOS, { app: 'todos' }],
    [draft, { app: 'todos', workspace: 's1' }],
    ['gateway.lan', null],
  ];
  for (const [host, of] of cases) {
    const who = { kind: 'session', owner: of };
    const headers = both(host, of);
    assert.equal((await send(port, 'GET', '/', headers)).status, 204, host);
    const { kind, owner } = caller() as Caller;
    assert.deepEqual({ kind, owner }, who);
    assert.equal(may(caller() ?? NOBODY, 'admin', null), host === CONSOLE, host);
    const others = [...cases.map(([other]) => other), 'svc.localhost:1', '127.0.0.1:8787', 'notes.svc.localhost:8787'];
    for (const other of others.filter((name) => name !== host)) {
      assert.equal((await send(port, 'GET', '/', { ...headers, host: other })).status, 401, `${host}'s at ${other}`);
    }
  }
});

test('a session cookie without its page key opens pages, and nothing else', async (t) => {
  const { port, both, caller, signIns, access } = await setUp(t);
  const rightsOf = async (headers: OutgoingHttpHeaders, path = '/'): Promise<string> => {
    await send(port, 'GET', path, headers);
    const rights = (['page', 'read', 'write', 'stream', 'settings', 'chat', 'manage', 'admin'] as const).filter((one) =>
      may(caller() ?? NOBODY, one, 'todos'),
    );
    return rights.join(' ');
  };
  const OF_PAGES = 'page read write stream settings chat';
  const own = both(TODOS, { app: 'todos' });
  const { 'svc-page-key': key, ...alone } = own;
  assert.match(key, /^[0-9a-f]{64}$/);
  assert.ok(!alone.cookie.includes(key));
  assert.equal(await rightsOf(own), OF_PAGES);
  assert.equal(await rightsOf(alone), 'page');
  assert.match(caller()?.refusal('todos') ?? '', /cookie alone opens pages/);

  const signIn = signIns.begin();
  const one = both(TODOS, { app: 'todos' }, signIn);
  const strangers: [what: string, key: string][] = [
    ['another sign-in', key],
    ['the console', both(CONSOLE, null, signIn)['svc-page-key']],
    ['another port', both('todos.svc.localhost:1', { app: 'todos' }, signIn)['svc-page-key']],
    ['another app', both('notes.svc.localhost:8787', { app: 'notes' }, signIn)['svc-page-key']],
    ['the cookie', /[0-9a-f]{64}$/.exec(one.cookie)?.[0] as string],
    ['the token', access.token],
    ['nobody', ''],
    ['nobody, not ASCII', 'ü'.repeat(64)],
  ];
  for (const [what, other] of strangers) {
    assert.equal(await rightsOf({ ...one, 'svc-page-key': encodeURI(other) }), 'page', `the key of ${what}`);
  }
  assert.equal(await rightsOf(one), OF_PAGES);
  assert.equal(await rightsOf({ ...own, cookie: '' }), '', 'the key alone');
});

test('a page key that was shown is known with its own cookie only, at its origin, and no longer than that', async (t) => {
  const { port, both, caller, signIns, registered, clock } = await setUp(t);
  const mayRead = async (headers: OutgoingHttpHeaders) => {
    await send(port, 'GET', '/', headers);
    return may(caller() ?? NOBODY, 'read', 'todos') === true;
  };
  const [first, second] = [signIns.begin(), signIns.begin()];
  const [one, other] = [both(TODOS, { app: 'todos' }, first), both(TODOS, { app: 'todos' }, second)];
  const elsewhere = both('todos.svc.localhost:1', { app: 'todos' }, first);
  for (let count = 0; count < 2; count++)
    for (const own of [one, other, elsewhere]) assert.ok(await mayRead(own), `shown ${count} times`);
  const wrong: [what: string, headers: OutgoingHttpHeaders][] = [
    ['the cookie of another', { ...one, cookie: other.cookie }],
    ['another origin', { ...one, host: elsewhere.host }],
    ['the cookie of another origin', { ...one, cookie: elsewhere.cookie }],
    ['no cookie', { host: one.host, 'svc-page-key': one['svc-page-key'] }],
    ['two cookies', { ...one, cookie: `${one.cookie}; ${one.cookie}` }],
    ['a cookie that nobody signed', { ...one, cookie: one.cookie.replace(/.$/, (end) => (end === '0' ? '1' : '0')) }],
  ];
  for (const [what, headers] of wrong) assert.equal(await mayRead(headers), false, what);
  assert.ok(await mayRead({ ...one, cookie: `theme=dark; ${one.cookie}` }), 'beside other cookies');
  assert.ok(await mayRead(one));
  await signIns.end(first);
  assert.deepEqual([await mayRead(one), await mayRead(other)], [false, true], 'signed out');
  registered.set('todos', 6);
  assert.equal(await mayRead(other), false, 'of a later app with the id');
  registered.set('todos', 5);
  assert.ok(await mayRead(other));
  clock.now = second.expiresAt;
  assert.equal(await mayRead(other), false, 'expired');
});

test('the address of a file may be signed with the page key, and is good beside its cookie for that file only', async (t) => {
  const { port, both, caller } = await setUp(t);
  const { 'svc-page-key': key, ...alone } = both(TODOS, { app: 'todos' });
  const signed = (text: string, by = key) => {
    const signature = crypto.createHmac('sha256', by).update(text).digest('hex');
    return `${text}${text.includes('?') ? '&' : '?'}svc-signature=${signature}`;
  };
  const mayRead = async (path: string, headers: OutgoingHttpHeaders = alone) => {
    await send(port, 'GET', path, headers);
    return may(caller() ?? NOBODY, 'read', 'todos') === true;
  };
  assert.ok(await mayRead(signed('/file')));
  assert.ok(await mayRead(signed('/file?a=1&b=%20')));
  assert.equal(await mayRead('/file'), false);
  assert.equal(await mayRead(signed('/')), false, 'what is no file');
  assert.equal(await mayRead(signed('/other').replace('/other', '/file')), false, 'of another file');
  assert.equal(await mayRead(signed('/file').replace('?', '?more=1&')), false, 'with another query');
  assert.equal(await mayRead(`${signed('/file')}&more=1`), false, 'with more behind it');
  assert.equal(await mayRead(signed('/file', both(TODOS, { app: 'todos' })['svc-page-key'])), false, 'another sign-in');
  assert.equal(await mayRead(signed('/file'), { ...alone, cookie: '' }), false, 'without the cookie');
  assert.equal(await mayRead(signed('/file'), { ...alone, 'svc-page-key': 'x' }), false, 'with a wrong key');
});

test('a session cookie of an app is not that of another one that took its id', async (t) => {
  const { port, session, registered } = await setUp(t);
  const cookie = session(TODOS, { app: 'todos' });
  assert.equal((await send(port, 'GET', '/', { host: TODOS, cookie })).status, 204);
  registered.set('todos', 6);
  assert.equal((await send(port, 'GET', '/', { host: TODOS, cookie })).status, 401);
});

test('two session cookies are refused, unless one has the name that no other origin can set', async (t) => {
  const { get, session } = await setUp(t);
  const good = session();
  const plain = good.replace('__Host-', '');
  assert.equal((await get({ cookie: plain })).status, 204);
  assert.equal((await get({ cookie: `${good}; svc_session=planted` })).status, 204);
  assert.equal((await get({ cookie: `svc_session=planted; ${good}` })).status, 204);
  for (const cookie of [`${good}; ${good}`, `${plain}; svc_session=planted`, `svc_session=planted; ${plain}`]) {
    assert.equal((await get({ cookie })).status, 401, cookie);
  }
});

test('a sign-in that was ended has ended at every origin', async (t) => {
  const { port, signIns, setCookies } = await setUp(t);
  const [one, other] = [signIns.begin(), signIns.begin()];
  const cookie = (host: string, owner: PageOwner | null, signIn: typeof one) =>
    setCookies(host, owner, signIn)[0]?.split(';')[0] as string;
  await signIns.end(one);
  for (const [host, owner] of [
    [CONSOLE, null],
    [TODOS, { app: 'todos' }],
  ] as const) {
    assert.equal((await send(port, 'GET', '/', { host, cookie: cookie(host, owner, one) })).status, 401, host);
    assert.equal((await send(port, 'GET', '/', { host, cookie: cookie(host, owner, other) })).status, 204, host);
  }
});

test('streams end when their session or token does, even far in the future', async (t) => {
  const { access, clock } = await setUp(t);
  let ends = 0;
  access.on('ended', () => ends++);
  // The end is further away than a timer reaches.
  access.endStreamsAt(clock.now + 90 * LIMITS.dayMs);
  await pause(20);
  assert.equal(ends, 0);
  access.endStreamsAt(clock.now);
  assert.equal(ends, 1);
});

test('streams end at each of several ends, in any order of requests', async (t) => {
  const { access, clock } = await setUp(t);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let ends = 0;
  access.on('ended', () => ends++);
  for (const ms of [300, 100, 200, 100]) access.endStreamsAt(clock.now + ms);
  for (const expected of [1, 2, 3]) {
    clock.now += 100;
    t.mock.timers.tick(100);
    assert.equal(ends, expected);
  }
});

test('streams end to the millisecond, and within a minute of a clock that is set past the end', async (t) => {
  const { access, clock } = await setUp(t);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let ends = 0;
  access.on('ended', () => ends++);
  const pass = (ms: number) => {
    clock.now += ms;
    t.mock.timers.tick(ms);
  };
  access.endStreamsAt(clock.now + LIMITS.dayMs);
  pass(LIMITS.dayMs - 1);
  assert.equal(ends, 0);
  pass(1);
  assert.equal(ends, 1);
  access.endStreamsAt(clock.now + 20 * LIMITS.dayMs);
  clock.now += 21 * LIMITS.dayMs;
  t.mock.timers.tick(LIMITS.useNoteMs);
  assert.equal(ends, 2);
});

test('cookies of any name are read', async (t) => {
  const { get, session } = await setUp(t);
  for (const name of ['constructor', '__proto__', 'toString']) {
    assert.equal((await get({ cookie: `${name}=1` })).status, 401, name);
    assert.equal((await get({ cookie: `${name}=1; ${session()}` })).status, 204, name);
  }
});

test('a ticket and a link are good once, for a while, and a ticket at its own origin', async (t) => {
  const { signIns, clock } = await setUp(t);
  const wanted = { host: TODOS, owner: { app: 'todos' }, to: '/', signIn: signIns.begin() };
  const ticket = signIns.ticket(wanted);
  assert.deepEqual(signIns.takeTicket(ticket, TODOS), wanted);
  assert.equal(signIns.takeTicket(ticket, TODOS), null);
  assert.equal(signIns.takeTicket(signIns.ticket(wanted), CONSOLE), null);
  const late = signIns.ticket(wanted);
  clock.elapsed += LIMITS.ticketMs;
  assert.equal(signIns.takeTicket(late, TODOS), null);
  const { code, expiresAt } = signIns.link();
  assert.equal(expiresAt, clock.now + LIMITS.linkMs);
  assert.deepEqual([signIns.takeLink(code), signIns.takeLink(code), signIns.takeLink('')], [true, false, false]);
  const old = signIns.link();
  clock.elapsed += LIMITS.linkMs;
  assert.equal(signIns.takeLink(old.code), false);
  // The link is good whatever the clock is set to meanwhile.
  const [ahead, behind] = [signIns.ticket(wanted), signIns.ticket(wanted)];
  clock.now += LIMITS.sessionMs;
  assert.deepEqual(signIns.takeTicket(ahead, TODOS), wanted);
  clock.now -= 2 * LIMITS.sessionMs;
  clock.elapsed += LIMITS.ticketMs;
  assert.equal(signIns.takeTicket(behind, TODOS), null);
});

test('unused tickets make room for others', async (t) => {
  const { signIns } = await setUp(t);
  const wanted = { host: TODOS, owner: { app: 'todos' }, to: '/', signIn: signIns.begin() };
  const first = signIns.ticket(wanted);
  for (let made = 1; made < LIMITS.ticketsWaiting; made++) signIns.ticket(wanted);
  const last = signIns.ticket(wanted);
  assert.equal(signIns.takeTicket(first, TODOS), null);
  assert.deepEqual(signIns.takeTicket(last, TODOS), wanted);
});

test('the Bearer token is taken from anywhere, and a wrong one is not made good by a cookie', async (t) => {
  const { access, port, session, get } = await setUp(t);
  const elsewhere = { origin: 'http://elsewhere.example', 'sec-fetch-site': 'cross-site' };
  assert.equal((await send(port, 'POST', '/', { ...elsewhere, authorization: `Bearer ${access.token}` })).status, 204);
  assert.equal((await get({ authorization: 'Bearer wrong', cookie: session() })).status, 401);
});

test('a cookie that was changed, has expired or is not ours is no session', async (t) => {
  const { clock, session, get } = await setUp(t);
  const good = session();
  const [, expires, id, signature] = /=(\d+)\/(\w+)\/console\/(.+)/.exec(good) as unknown as string[];
  const bad = [
    `svc_session=${Number(expires) + 1}/${id}/console/${signature}`,
    `svc_session=${expires}/${'0'.repeat(16)}/console/${signature}`,
    `svc_session=${expires}/${id}/shared/${signature}`,
    `svc_session=${expires}/${id}/console/${'0'.repeat(64)}`,
    `svc_session=${expires}/${id}/console`,
    `svc_session=${expires}/${id}/console/${signature}/`,
    `svc_session2=${expires}/${id}/console/${signature}`,
    `x=${good}`,
    'svc_session',
    '=;;=',
  ];
  for (const cookie of bad) assert.equal((await get({ cookie })).status, 401, cookie);

  clock.now += LIMITS.sessionMs - 1;
  assert.equal((await get({ cookie: good })).status, 204);
  clock.now += 1;
  assert.equal((await get({ cookie: good })).status, 401);
});

test('a rotation by another process ends the old token and its sessions', async (t) => {
  const { path, access, get, logged, session } = await setUp(t);
  const old = { token: access.token, cookie: session() };
  const noticed = logged();
  const token = await rotateToken(path);
  await noticed;
  assert.equal((await get({ authorization: `Bearer ${old.token}` })).status, 401);
  assert.equal((await get({ cookie: old.cookie })).status, 401);
  assert.equal((await get({ authorization: `Bearer ${token}` })).status, 204);
  assert.equal((await get({ cookie: session() })).status, 204);
});

test('a token file that is missing or damaged for a while leaves the token valid', async (t) => {
  const { path, access, logged } = await setUp(t);
  const { token } = access;
  let noticed = logged();
  renameSync(path, `${path}.away`);
  assert.match(await noticed, /stays valid/);
  assert.equal(access.token, token);

  noticed = logged();
  writeFileSync(path, 'half a tok');
  const line = await noticed;
  assert.match(line, /damaged/);
  assert.ok(!line.includes(token));
  assert.equal(access.token, token);

  noticed = logged();
  const next = await rotateToken(path);
  assert.match(await noticed, /was replaced/);
  assert.equal(access.token, next);
});

test('the token survives a restart, and its file is private', async (t) => {
  const { path, access, ...rest } = await setUp(t);
  assert.equal(readFileSync(path, 'utf8'), `${access.token}\n`);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const { places, signIns, programTokens } = rest;
  const again = await Access.open(path, {
    log: pino({ enabled: false }),
    places,
    signIns,
    programTokens,
    accounts,
    registeredAt: () => null,
  });
  again.close();
  assert.equal(again.token, access.token);
});

test('where others may have changed who is who, nobody but the administrator is known', async (t) => {
  const { path, places, signIns, programTokens } = await setUp(t);
  const options = { log: pino({ enabled: false }), places, signIns, programTokens, registeredAt: () => null };
  const access = await Access.open(path, { ...options, accounts: accountsOf(false) });
  t.after(() => access.close());
  const callerWith = (authorization?: string) => {
    const header = (name: string) => (name === 'authorization' ? authorization : undefined);
    return access.caller({ header, path: '/' } as never, places.of(CONSOLE));
  };
  for (const shown of [undefined, 'Bearer svct_1']) {
    const refusal = callerWith(shown) as SvcError;
    assert.deepEqual([refusal.code, refusal.headers], ['STORAGE_UNAVAILABLE', { 'retry-after': '1' }]);
  }
  assert.equal((callerWith(`Bearer ${access.token}`) as Caller).kind, 'admin');
});

test('a damaged token file stops the start with an error that says what to do', async (t) => {
  const { path, places, signIns, programTokens } = await setUp(t);
  const options = { log: pino({ enabled: false }), places, signIns, programTokens, accounts, registeredAt: () => null };
  for (const content of ['', 'short', `${'0'.repeat(63)}g\n`, `${'0'.repeat(65)}`, `${'0'.repeat(64)}\n\n`]) {
    writeFileSync(path, content);
    await assert.rejects(Access.open(path, options), /token\.bin is damaged.*svc token rotate/, content);
  }
  writeFileSync(path, 'safeStorage:AAAA\n');
  await assert.rejects(Access.open(path, options), /encrypted for the desktop program/);
  const kept = await Access.open(path, { ...options, token: 'b2'.repeat(32) });
  kept.close();
  assert.equal(kept.token, 'b2'.repeat(32));
  assert.equal(readFileSync(path, 'utf8'), 'safeStorage:AAAA\n');
  for (const newline of ['', '\n', '\r\n']) {
    writeFileSync(path, `${'a1'.repeat(32)}${newline}`);
    const access = await Access.open(path, options);
    access.close();
    assert.equal(access.token, 'a1'.repeat(32));
  }
});
