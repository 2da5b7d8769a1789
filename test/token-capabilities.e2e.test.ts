/** What a token for a program may do, tried route by route on both edges, and that its streams end with it. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { openSqlite } from '../storage/sqlite.ts';
import { rotateToken } from '../storage/token.ts';
import { appOf } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { eventually, onEachEdge } from '../testing/edges.ts';
import { type Answer, type Stream, startGateway, type TestGateway } from '../testing/gateway.ts';

type Tools = 'read' | 'write' | 'all';
type Token = { id: string; token: string };

/** An app with a page, a query and an action; each push of another `note` is another version. */
const appNamed = (id: string, note = '') =>
  appOf(id, {
    migrations: ['CREATE TABLE t (x)'],
    queries: { count: `async ({ db }) => (await db.get('SELECT count(*) AS n FROM t')).n` },
    actions: {
      add: { run: `async ({ db }) => { await db.run('INSERT INTO t VALUES (1)'); return null; }`, writes: ['t'] },
    },
    files: { 'index.html': '<p>Page', 'style.css': 'body { color: black; }', 'note.json': JSON.stringify(note) },
  });

async function install(gateway: TestGateway, id: string): Promise<void> {
  const answer = await gateway.upload(id, appNamed(id));
  assert.equal(answer.status, 201, answer.text);
}

async function tokenFor(gateway: TestGateway, tools: Tools, apps: string[] | null = ['own']): Promise<Token> {
  const answer = await gateway.call('POST', '/svc/_tokens', { body: { name: `${tools} ${apps}`, apps, tools } });
  assert.equal(answer.status, 201, answer.text);
  return answer.json;
}

const revoke = async (gateway: TestGateway, { id }: Token) =>
  assert.equal((await gateway.call('DELETE', `/svc/_tokens/${id}`)).status, 200);

/** One request for each required right. `app` is put into its address or body. */
type Attempt = { needs: Tools | 'never'; method: string; path: string; body?: unknown; upload?: true };

const ATTEMPTS: Attempt[] = [
  { needs: 'read', method: 'POST', path: '/svc/_tool/svc_describe', body: { app: 'APP' } },
  { needs: 'read', method: 'POST', path: '/svc/_tool/svc_read', body: { app: 'APP', query: 'count' } },
  { needs: 'read', method: 'GET', path: '/svc/APP/' },
  { needs: 'read', method: 'HEAD', path: '/svc/APP/style.css' },
  { needs: 'write', method: 'POST', path: '/svc/_tool/svc_write', body: { app: 'APP', action: 'add' } },
  { needs: 'write', method: 'PUT', path: '/svc/_apps/APP/settings', body: { size: 'l' } },
  { needs: 'all', method: 'POST', path: '/svc/_apps/APP/sql', body: { sql: 'SELECT * FROM t' } },
  { needs: 'all', method: 'POST', path: '/svc/_apps/APP/upload', upload: true },
  { needs: 'all', method: 'GET', path: '/svc/_apps/APP/versions' },
  { needs: 'all', method: 'GET', path: '/svc/_logs?app=APP' },
  { needs: 'all', method: 'GET', path: '/svc/_runs?app=APP' },
  { needs: 'all', method: 'POST', path: '/svc/_apps/APP/copies' },
  { needs: 'all', method: 'POST', path: '/svc/_apps/APP/restart' },
  // The gateway itself; above all nothing that would extend the token's rights.
  { needs: 'never', method: 'GET', path: '/svc/_audit' },
  { needs: 'never', method: 'GET', path: '/svc/_tokens' },
  { needs: 'never', method: 'POST', path: '/svc/_tokens', body: { name: 'more', tools: 'all' } },
  { needs: 'never', method: 'DELETE', path: '/svc/_tokens/OWN_ID' },
  { needs: 'never', method: 'POST', path: '/svc/_session' },
  { needs: 'never', method: 'GET', path: '/svc/_system' },
  { needs: 'never', method: 'GET', path: '/svc/_cluster' },
  { needs: 'never', method: 'POST', path: '/svc/_cluster/drain', body: { draining: true } },
  { needs: 'never', method: 'GET', path: '/svc/_insights' },
  { needs: 'never', method: 'POST', path: '/svc/_backup' },
  { needs: 'never', method: 'POST', path: '/svc/_apps/APP/repair', body: { newData: true } },
  { needs: 'never', method: 'PUT', path: '/_svc-user/prefs', body: { patch: { theme: 'dark' } } },
  { needs: 'never', method: 'POST', path: '/svc/_code/export' },
];
/** A request that is wrongly allowed may never end. */
const IN_TIME = { timeout: 60_000 };
const RANK = { read: 0, write: 1, all: 2, never: 3 };

function attempt(
  gateway: TestGateway,
  { method, path, body, upload }: Attempt,
  app: string,
  own: Token,
): Promise<Answer> {
  const named = (text: string) => text.replaceAll('APP', app).replaceAll('OWN_ID', own.id);
  const content = upload
    ? tarball(appNamed(app, own.id))
    : body === undefined
      ? undefined
      : named(JSON.stringify(body));
  const options = content === undefined ? {} : { body: content };
  return gateway.call(method, named(path), { ...options, token: own.token });
}

function isRefused(answer: Answer, what: string): void {
  assert.equal(answer.status, 403, `${what}: ${answer.status} ${answer.text}`);
  if (answer.text !== '') assert.equal(answer.json.error.code, 'FORBIDDEN', what);
  assert.equal(answer.headers['set-cookie'], undefined, what);
}

function isVoid(answer: Answer): void {
  assert.deepEqual([answer.status, answer.json.error.code], [401, 'UNAUTHORIZED'], answer.text);
  assert.equal(answer.headers['www-authenticate'], 'Bearer');
}

onEachEdge({}, (gateway) => {
  before(async () => {
    for (const id of ['own', 'other']) await install(gateway, id);
  });
  const countIn = async (app: string) => (await gateway.read(app, 'count')).json.data;
  const streamWith = ({ token }: Token, path: string) => gateway.stream(path, { authorization: `Bearer ${token}` });

  for (const tools of ['read', 'write', 'all'] as const) {
    test(`a token for "${tools}" does that with its app, and nothing else with any`, IN_TIME, async () => {
      const own = await tokenFor(gateway, tools);
      const every = await tokenFor(gateway, tools, null);
      const rows = await countIn('other');
      for (const tried of ATTEMPTS) {
        const what = `${tools}: ${tried.method} ${tried.path}`;
        const allowed = RANK[tools] >= RANK[tried.needs];
        const mine = await attempt(gateway, tried, 'own', own);
        if (allowed) assert.ok(mine.status < 300, `${what}: ${mine.status} ${mine.text}`);
        else isRefused(mine, what);
        isRefused(await attempt(gateway, tried, 'other', own), `${what}, another app`);
        // The answer does not reveal whether the app exists.
        isRefused(await attempt(gateway, tried, 'nobody', own), `${what}, no app`);
        if (tried.needs === 'never') isRefused(await attempt(gateway, tried, 'own', every), `${what}, every app`);
      }
      assert.equal(await countIn('other'), rows, 'nothing was written into the other app');
      const anywhere = await gateway.read('other', 'count', {}, { token: every.token });
      assert.equal(anywhere.status, 200, anywhere.text);
      for (const token of [own, every]) await revoke(gateway, token);
    });
  }

  test('an upload whose token is revoked while it arrives does not go live', IN_TIME, async () => {
    const own = await tokenFor(gateway, 'all');
    const active = async () => (await gateway.call('GET', '/svc/_apps/own')).json.activeVersion;
    const before = await active();
    const archive = tarball({ ...appNamed('own', own.id), 'late.txt': 'late' });
    const { hostname, port } = new URL(gateway.url);
    const socket = connect(Number(port), hostname);
    const answer = new Promise<string>((resolve) => {
      let text = '';
      socket
        .on('data', (chunk) => (text += chunk))
        .on('close', () => resolve(text))
        // It may have answered and hung up before the rest is written.
        .on('error', () => resolve(text));
    });
    const head = ['POST /svc/_apps/own/upload HTTP/1.1', 'host: localhost', `authorization: Bearer ${own.token}`];
    socket.write([...head, `content-length: ${archive.length}`, 'connection: close', '', ''].join('\r\n'));
    socket.write(archive.subarray(0, 10));
    await revoke(gateway, own);
    socket.write(archive.subarray(10));
    assert.match(await answer, /^HTTP\/1\.1 40[13] /);
    assert.equal(await active(), before);
  });

  test('a token that is unknown, revoked, shortened or sent in another way is refused', IN_TIME, async () => {
    const read = (token: string | null, headers: Record<string, string> = {}) =>
      gateway.read('own', 'count', {}, { token, headers });
    const own = await tokenFor(gateway, 'read');
    assert.equal((await read(own.token)).status, 200);
    isVoid(await read(`svct_${'0'.repeat(64)}`));
    isVoid(await read(own.token.slice(0, -1)));
    isVoid(await read(own.token.slice(5)));
    isVoid(await read(own.id));
    isVoid(await read(null, { cookie: `__Host-svc_session=${own.token}` }));
    isVoid(await gateway.call('GET', `/svc/_apps/own/versions?token=${own.token}`, { token: null }));
    await revoke(gateway, own);
    for (let i = 0; i < 3; i++) isVoid(await read(own.token));
  });

  test('event streams end with the token that opened them, and those of another token stay', IN_TIME, async () => {
    const one = await tokenFor(gateway, 'all');
    const two = await tokenFor(gateway, 'all');
    const paths = [
      '/svc/own/_changes',
      '/svc/own/_live?query=count',
      '/svc/own/_live?query=count&changes',
      '/svc/_logs?app=own&follow=1',
      '/svc/_runs/_events?app=own',
    ];
    const ending = await Promise.all(paths.map((path) => streamWith(one, path)));
    const staying = await Promise.all(paths.map((path) => streamWith(two, path)));
    for (const path of paths) {
      await assert.rejects(streamWith(one, path.replace('own', 'other')), /^Error: 403 /, path);
    }
    // Requests about all apps together need a token for every app.
    await assert.rejects(streamWith(one, '/svc/_logs?follow=1'), /^Error: 403 /);
    await revoke(gateway, one);
    await Promise.all(ending.map((stream) => stream.ended()));
    for (const path of paths) await assert.rejects(streamWith(one, path), /^Error: 401 /, path);
    let ended = 0;
    for (const { closed } of staying) void closed.then(() => ended++);
    const [changes, live] = staying as [Stream, Stream];
    assert.equal((await live.next()).event, 'data');
    await gateway.write('own', 'add');
    assert.equal((await changes.next()).event, 'change');
    assert.equal((await live.next()).event, 'data');
    assert.equal(ended, 0);
    await revoke(gateway, two);
    await Promise.all(staying.map((stream) => stream.ended()));
  });

  test('old tokens do not reach a new app with the id of a removed one', IN_TIME, async () => {
    await install(gateway, 'again');
    const only = await tokenFor(gateway, 'all', ['again']);
    const both = await tokenFor(gateway, 'read', ['again', 'own']);
    const stream = await streamWith(both, '/svc/own/_changes');
    assert.equal((await gateway.call('DELETE', '/svc/_apps/again?purge=1')).status, 200);
    await install(gateway, 'again');
    isVoid(await gateway.read('again', 'count', {}, { token: only.token }));
    isRefused(await gateway.read('again', 'count', {}, { token: both.token }), 'its id was dropped');
    assert.equal((await gateway.read('own', 'count', {}, { token: both.token })).status, 200);
    stream.close();
    await revoke(gateway, both);
  });

  test('the last use is shown, also after a restart', IN_TIME, async () => {
    const own = await tokenFor(gateway, 'read');
    const lastUse = async () =>
      (await gateway.call('GET', '/svc/_tokens')).json.find(({ id }: Token) => id === own.id).lastUsedAt;
    assert.equal(await lastUse(), null);
    const since = Date.now();
    await gateway.read('own', 'count', {}, { token: own.token });
    const used = await lastUse();
    assert.ok(used >= since && used <= Date.now(), `${used}`);
    assert.equal(await gateway.stop(), 0);
    await gateway.start();
    assert.equal(await lastUse(), used);
    await revoke(gateway, own);
  });

  test("a rotation of the administrator's token keeps the others", IN_TIME, async () => {
    const own = await tokenFor(gateway, 'read');
    const old = gateway.token;
    const staying = await streamWith(own, '/svc/own/_changes');
    const ending = await gateway.stream('/svc/own/_changes');
    gateway.token = await rotateToken(join(gateway.dataDir, 'token.bin'));
    await ending.ended();
    await eventually(async () => (await gateway.call('GET', '/svc/_apps')).status === 200);
    isVoid(await gateway.call('GET', '/svc/_apps', { token: old }));
    assert.equal((await gateway.read('own', 'count', {}, { token: own.token })).status, 200);
    await gateway.write('own', 'add');
    assert.equal((await staying.next()).event, 'change');
    staying.close();
    await revoke(gateway, own);
  });
});

test('a token that expires is refused from then on, and its streams end', IN_TIME, async (t) => {
  const gateway = await startGateway(t);
  await install(gateway, 'own');
  const created = await gateway.call('POST', '/svc/_tokens', {
    body: { name: 'short', apps: ['own'], tools: 'read', expiresInDays: 1 },
  });
  const { id, token } = created.json as Token;
  const headers = { authorization: `Bearer ${token}` };
  const expire = async (at: number) => {
    await gateway.stop();
    const db = openSqlite(join(gateway.dataDir, 'identity.sqlite'));
    db.prepare('UPDATE program_tokens SET expires_at = ? WHERE id = ?').run(at, id);
    db.close();
    await gateway.start();
  };
  const at = Date.now() + 15_000;
  await expire(at);
  const stream = await gateway.stream('/svc/own/_changes', headers);
  assert.equal((await gateway.read('own', 'count', {}, { token })).status, 200);
  await stream.ended();
  assert.ok(Date.now() >= at, 'not before its time');
  isVoid(await gateway.read('own', 'count', {}, { token }));
  await expire(Date.now() - 1);
  isVoid(await gateway.read('own', 'count', {}, { token }));
  await assert.rejects(gateway.stream('/svc/own/_changes', headers), /^Error: 401 /);
});
