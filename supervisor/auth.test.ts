import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { LIMITS } from '../protocol/limits.ts';
import { rotateToken } from '../storage/token.ts';
import { send, serveExchanges } from '../test/exchange-server.ts';
import { Access } from './auth.ts';

/** A server that answers 204 to whom `Access` lets in; `logged` resolves with the next log line. */
async function setUp(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-auth-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'token.bin');
  const lines = new PassThrough();
  const clock = { now: 1_000_000 };
  const access = await Access.open(path, { log: pino(lines), now: () => clock.now });
  t.after(() => access.close());
  const port = await serveExchanges(t, (exchange) => {
    const refused = access.check(exchange);
    exchange.send(refused?.status ?? 204, refused?.headers ?? {}, refused?.code ?? '');
  });
  const logged = async (): Promise<string> => String(await once(lines, 'data'));
  const session = () => access.issueSession().split(';')[0] as string;
  return { path, access, port, clock, logged, session };
}

test('the token, and nothing else, lets a caller in', async (t) => {
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

test('a session cookie is what the decisions say', async (t) => {
  const { access } = await setUp(t);
  const [value, ...attributes] = access.issueSession().split('; ');
  assert.match(value as string, /^svc_session=\S+$/);
  assert.deepEqual(attributes, ['Path=/', 'Max-Age=43200', 'HttpOnly', 'SameSite=Strict']);
  assert.ok(!value?.includes(access.token));
});

test('a session cookie is taken from our own pages only', async (t) => {
  const { port, session } = await setUp(t);
  const own = { 'sec-fetch-site': 'same-origin' };
  const ownOrigin = { origin: `http://127.0.0.1:${port}` };
  const tab = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
  const cases: [method: string, headers: Record<string, string>, status: number][] = [
    ['GET', own, 204],
    ['POST', own, 204],
    ['DELETE', own, 204],
    ['GET', {}, 204],
    ['HEAD', {}, 204],
    ['POST', {}, 403],
    ['POST', ownOrigin, 204],
    ['POST', { origin: `https://127.0.0.1:${port}` }, 204],
    ['GET', ownOrigin, 204],
    ['POST', { origin: 'http://127.0.0.1:1' }, 403],
    ['GET', { origin: 'http://127.0.0.1:1' }, 403],
    ['POST', { origin: 'null' }, 403],
    ['POST', { ...ownOrigin, 'sec-fetch-site': 'cross-site' }, 403],
    ['POST', { ...ownOrigin, 'sec-fetch-site': 'same-site' }, 403],
    ['GET', { 'sec-fetch-site': 'none', ...tab }, 204],
    ['POST', { 'sec-fetch-site': 'none', ...tab }, 403],
    ['GET', { 'sec-fetch-site': 'same-site', ...tab }, 204],
    ['POST', { 'sec-fetch-site': 'same-site', ...tab }, 403],
    ['GET', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' }, 403],
    ['GET', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' }, 403],
    ['GET', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' }, 403],
  ];
  for (const [method, headers, status] of cases) {
    const answer = await send(port, method, '/', { ...headers, cookie: `theme=dark; ${session()}` });
    assert.equal(answer.status, status, `${method} ${JSON.stringify(headers)}`);
  }
});

test('the Bearer token is taken from anywhere, and a wrong one is not made good by a cookie', async (t) => {
  const { access, port, session } = await setUp(t);
  const elsewhere = { origin: 'http://elsewhere.example', 'sec-fetch-site': 'cross-site' };
  assert.equal((await send(port, 'POST', '/', { ...elsewhere, authorization: `Bearer ${access.token}` })).status, 204);
  assert.equal((await send(port, 'GET', '/', { authorization: 'Bearer wrong', cookie: session() })).status, 401);
});

test('a cookie that was changed, has expired or is not ours is no session', async (t) => {
  const { port, clock, session } = await setUp(t);
  const good = session();
  const [, expires, signature] = /=(\d+)\.(.+)/.exec(good) as unknown as string[];
  const bad = [
    `svc_session=${Number(expires) + 1}.${signature}`,
    `svc_session=${expires}.${'0'.repeat(64)}`,
    `svc_session=${expires}`,
    `svc_session=${expires}.${signature}.`,
    `svc_session2=${expires}.${signature}`,
    `x=${good}`,
    'svc_session',
    '=;;=',
  ];
  for (const cookie of bad) assert.equal((await send(port, 'GET', '/', { cookie })).status, 401, cookie);
  assert.equal(
    (await send(port, 'GET', '/', { cookie: `${bad[0]}; ${good}` })).status,
    204,
    'a good one behind a bad one',
  );

  clock.now += LIMITS.sessionMs - 1;
  assert.equal((await send(port, 'GET', '/', { cookie: good })).status, 204);
  clock.now += 1;
  assert.equal((await send(port, 'GET', '/', { cookie: good })).status, 401);
});

test('a rotation by another process ends the old token and its sessions', async (t) => {
  const { path, access, port, logged, session } = await setUp(t);
  const old = { token: access.token, cookie: session() };
  const noticed = logged();
  const token = await rotateToken(path);
  await noticed;
  assert.equal((await send(port, 'GET', '/', { authorization: `Bearer ${old.token}` })).status, 401);
  assert.equal((await send(port, 'GET', '/', { cookie: old.cookie })).status, 401);
  assert.equal((await send(port, 'GET', '/', { authorization: `Bearer ${token}` })).status, 204);
  assert.equal((await send(port, 'GET', '/', { cookie: session() })).status, 204);
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
  const { path, access } = await setUp(t);
  assert.equal(readFileSync(path, 'utf8'), `${access.token}\n`);
  if (process.platform !== 'win32') assert.equal(statSync(path).mode & 0o777, 0o600);
  const again = await Access.open(path, { log: pino({ enabled: false }) });
  again.close();
  assert.equal(again.token, access.token);
});

test('a damaged token file stops the start with an error that says what to do', async (t) => {
  const { path } = await setUp(t);
  for (const content of ['', 'short', `${'0'.repeat(63)}g\n`, `${'0'.repeat(65)}`, `${'0'.repeat(64)}\n\n`]) {
    writeFileSync(path, content);
    await assert.rejects(
      Access.open(path, { log: pino({ enabled: false }) }),
      /token\.bin is damaged.*svc token rotate/,
      content,
    );
  }
  for (const newline of ['', '\n', '\r\n']) {
    writeFileSync(path, `${'a1'.repeat(32)}${newline}`);
    const access = await Access.open(path, { log: pino({ enabled: false }) });
    access.close();
    assert.equal(access.token, 'a1'.repeat(32));
  }
});
