/** People whom a host names (`identify`): what their roles may do, what handlers see of them, and answers of the host that are none. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { ConfigError } from '../supervisor/config.ts';
import { buildGateway, type GatewayOptions } from '../supervisor/gateway.ts';
import type { HostRequest } from '../supervisor/http/access/callers.ts';
import type { Person } from '../supervisor/http/access/person.ts';
import { appOf } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { type Answer, TestGateway } from '../testing/gateway.ts';

const WHO =
  '({ ctx }) => ({ user: ctx.user, caller: ctx.caller, frozen: ctx.user === null || Object.isFrozen(ctx.user) })';
const team = (id: string) =>
  appOf(id, {
    migrations: ['CREATE TABLE notes (text TEXT, author TEXT) STRICT'],
    queries: {
      who: WHO,
      mine: "({ db, ctx }) => db.all('SELECT text FROM notes WHERE author = ?', ctx.user?.id ?? '')",
      all: "({ db }) => db.all('SELECT text FROM notes')",
    },
    actions: {
      who: `({ ctx }) => ({ body: (${WHO})({ ctx }) })`,
      add: {
        run: "async ({ body, db, ctx }) => { await db.run('INSERT INTO notes VALUES (?, ?)', body.text, ctx.user.id); return { status: 201, body }; }",
        writes: ['notes'],
      },
    },
    automations: { fired: '({ ctx }) => ({ output: { user: ctx.user } })' },
    files: { 'index.html': '<!doctype html><title>Team</title>' },
    manifest: { roles: { cook: { name: 'Cook', queries: ['all'], actions: ['who'] } } },
  });

const PEOPLE: Record<string, Person> = {
  olga: { id: 'olga', name: 'Olga', role: 'owner' },
  anna: { id: 'anna', name: 'Anna', role: 'author' },
  otto: { id: 'otto', name: 'Otto', role: 'author' },
  mara: { id: 'mara', name: 'Mara', role: 'member', apps: { team: 'manager' } },
  ed: { id: 'ed', name: 'Sam', email: 'ed@example.org', role: 'member', apps: { team: 'editor' } },
  // Of the same name.
  eve: { id: 'eve', name: 'Sam', role: 'member', apps: { team: 'editor' } },
  vera: { id: 'vera', name: 'Vera', role: 'member', apps: { team: 'viewer' } },
  kit: { id: 'kit', name: 'Kit', role: 'member', apps: { team: 'cook' } },
  bo: { id: 'bo', name: 'Bo', role: 'member', apps: { team: 'boss' } },
  mo: { id: 'mo', name: 'Mo', role: 'member' },
};

type Host = { gateway: TestGateway; stop(): Promise<void> };

function newFolder(): string {
  return mkdtempSync(join(tmpdir(), 'svc-people-'));
}

/** For one test. */
async function ownHost(t: TestContext, options: Partial<GatewayOptions>): Promise<Host> {
  const folder = newFolder();
  const host = await hostWith(folder, options);
  t.after(async () => {
    await host.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  return host;
}

/** A gateway inside this process, behind a server of the host's; requests say who makes them in the header `x-who`. */
async function hostWith(folder: string, options: Partial<GatewayOptions> = {}): Promise<Host> {
  const dataDir = join(folder, 'data');
  const built = buildGateway({
    dataDir,
    appsStoreRoot: 'code-store',
    auth: false,
    log: 'silent',
    identify: (request) => PEOPLE[request.header('x-who') ?? ''] ?? null,
    ...options,
  });
  const server = createServer((req, res) => {
    if (!built.handle(req, res)) res.writeHead(404).end();
  });
  await built.start();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const gateway = new TestGateway(dataDir, []);
  gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const stop = async () => {
    await built.stop(0);
    server.closeAllConnections();
    server.close();
  };
  return { gateway, stop };
}

const as = (who: string, more: Record<string, string> = {}) => ({ headers: { 'x-who': who, ...more } });
const upload = (gateway: TestGateway, who: string, id: string) =>
  gateway.call('POST', `/svc/_apps/${id}/upload`, { ...as(who), body: tarball(team(id)) });

/** The status, and of an error its code. */
const outcome = (answer: Answer) =>
  answer.status < 400 ? answer.status : `${answer.status} ${answer.json.error.code}`;

const FORBIDDEN = '403 FORBIDDEN';
type Row = [
  method: string,
  path: string,
  body: object | undefined,
  least: 'none' | 'viewer' | 'editor' | 'manager' | 'owner',
];

/** One request for each right, and the weakest role that may make it. */
const ROUTES: Row[] = [
  ['GET', '/svc/team/', undefined, 'viewer'],
  ['GET', '/svc/_apps/team/settings', undefined, 'viewer'],
  ['POST', '/svc/_tool/svc_describe', { app: 'team' }, 'viewer'],
  ['POST', '/svc/_tool/svc_read', { app: 'team', query: 'all' }, 'viewer'],
  ['POST', '/svc/_tool/svc_write', { app: 'team', action: 'who' }, 'editor'],
  ['GET', '/svc/team/_chat/windows', undefined, 'editor'],
  ['PUT', '/svc/_apps/team/settings', { size: 'l' }, 'manager'],
  ['GET', '/svc/_apps/team', undefined, 'manager'],
  ['GET', '/svc/_apps/team/versions', undefined, 'manager'],
  ['GET', '/svc/_apps/team/secrets', undefined, 'manager'],
  ['GET', '/svc/_logs?app=team', undefined, 'manager'],
  ['GET', '/svc/_automations?app=team', undefined, 'manager'],
  ['POST', '/svc/_apps/team/sql', { sql: 'SELECT 1' }, 'manager'],
  ['GET', '/svc/_apps', undefined, 'none'],
  ['GET', '/svc/_system', undefined, 'owner'],
  ['GET', '/svc/_cluster', undefined, 'owner'],
  ['GET', '/svc/_audit', undefined, 'owner'],
  ['GET', '/svc/_tokens', undefined, 'owner'],
  ['GET', '/svc/_sessions', undefined, 'none'],
  ['PUT', '/_svc-user/prefs', { patch: { theme: 'dark' } }, 'none'],
];
const RANKS = ['none', 'viewer', 'editor', 'manager', 'owner'];
const ROLE_OF = { mo: 'none', otto: 'none', vera: 'viewer', ed: 'editor', mara: 'manager', olga: 'owner' };

describe('people whom a host names', () => {
  const folder = newFolder();
  let host: Host;
  let gateway: TestGateway;
  before(async () => {
    host = await hostWith(folder);
    gateway = host.gateway;
    const made = await upload(gateway, 'olga', 'team');
    assert.equal(made.status, 201, made.text);
  });
  after(async () => {
    await host.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('each route asks for its role, and nobody gets more', async () => {
    for (const [who, role] of Object.entries(ROLE_OF)) {
      for (const [method, path, body, least] of ROUTES) {
        const answer = await gateway.call(method, path, { ...as(who), ...(body && { body }) });
        const expected = RANKS.indexOf(role) >= RANKS.indexOf(least);
        if (path.startsWith('/svc/_tokens') && expected) assert.equal(outcome(answer), '404 NOT_FOUND');
        else assert.equal(outcome(answer), expected ? 200 : FORBIDDEN, `${who}: ${method} ${path}: ${answer.text}`);
      }
    }
  });

  test('a handler sees the person with the role in its app, and nobody in an automation', async () => {
    const seen = async (who: string, tool: 'read' | 'write') => {
      const name = tool === 'read' ? { query: 'who' } : { action: 'who' };
      const answer = await gateway.call('POST', `/svc/_tool/svc_${tool}`, {
        ...as(who),
        body: { app: 'team', ...name },
      });
      return tool === 'read' ? answer.json.data : answer.json.data.body;
    };
    const ed = {
      user: { id: 'ed', name: 'Sam', email: 'ed@example.org', role: 'editor' },
      caller: { kind: 'person', name: 'Sam' },
      frozen: true,
    };
    for (const tool of ['read', 'write'] as const) assert.deepEqual(await seen('ed', tool), ed);
    assert.deepEqual((await seen('olga', 'read')).user, { id: 'olga', name: 'Olga', role: 'owner' });
    assert.equal((await seen('mara', 'read')).user.role, 'manager');
    const run = await gateway.call('POST', '/svc/_automations/team/fired/run?wait=1', { ...as('mara'), body: {} });
    assert.deepEqual(run.json.output, { user: null });
  });

  test('what a person is shown reaches no other of the same name: results, live queries, keys', async () => {
    const mine = async (who: string) =>
      (await gateway.call('POST', '/svc/_tool/svc_read', { ...as(who), body: { app: 'team', query: 'mine' } })).json
        .data;
    const add = (who: string, text: string, key: string) =>
      gateway.call('POST', '/svc/_tool/svc_write', {
        ...as(who, { 'idempotency-key': key }),
        body: { app: 'team', action: 'add', input: { text } },
      });
    const live = await gateway.stream('/svc/team/_live?query=mine', { 'x-who': 'eve' });
    assert.deepEqual(JSON.parse((await live.next()).data).data, []);
    assert.equal((await add('ed', 'of Ed', 'one')).status, 201);
    // The same key of another person is another call.
    const other = await add('eve', 'of Eve', 'one');
    assert.deepEqual([other.status, other.headers['idempotency-replayed']], [201, undefined]);
    assert.equal((await add('eve', 'of Eve', 'one')).headers['idempotency-replayed'], 'true');
    for (let times = 0; times < 3; times++) {
      assert.deepEqual(await mine('ed'), [{ text: 'of Ed' }]);
      assert.deepEqual(await mine('eve'), [{ text: 'of Eve' }]);
      assert.deepEqual(await mine('olga'), []);
    }
    assert.deepEqual(JSON.parse((await live.next()).data).data, [{ text: 'of Eve' }]);
    live.close();
    const kept = await gateway.call('POST', '/svc/_tool/svc_read', {
      ...as('ed'),
      body: { app: 'team', query: 'mine' },
    });
    assert.match(String(kept.headers['server-timing']), /cache;desc=hit/);
  });

  test('an author makes apps and manages those; other authors do not', async () => {
    assert.equal(outcome(await upload(gateway, 'anna', 'team')), FORBIDDEN);
    assert.equal(outcome(await upload(gateway, 'mara', 'fresh')), FORBIDDEN);
    assert.equal(outcome(await upload(gateway, 'anna', 'fresh')), 201);
    assert.equal(outcome(await upload(gateway, 'otto', 'fresh')), FORBIDDEN);
    assert.equal(outcome(await gateway.call('GET', '/svc/_apps/fresh/versions', as('anna'))), 200);
    const read = (who: string) =>
      gateway.call('POST', '/svc/_tool/svc_read', { ...as(who), body: { app: 'fresh', query: 'who' } });
    assert.equal((await read('anna')).json.data.user.role, 'manager');
    assert.equal(outcome(await read('otto')), FORBIDDEN);
    // Only their own are in the list of what they can call.
    const described = await gateway.call('POST', '/svc/_tool/svc_describe', { ...as('anna'), body: {} });
    assert.deepEqual(
      described.json.data.apps.map(({ id, app }: { id?: string; app?: string }) => id ?? app),
      ['fresh'],
    );
    const session = await gateway.call('POST', '/svc/_sessions', { ...as('anna'), body: { sessionId: 's1' } });
    assert.equal(outcome(session), 201);
    assert.equal(outcome(await gateway.call('POST', '/svc/_sessions', { ...as('ed'), body: {} })), FORBIDDEN);
    const blank = { id: 'blank', publish: true };
    assert.equal(outcome(await gateway.call('POST', '/svc/_apps', { ...as('mara'), body: blank })), FORBIDDEN);
    const made = await gateway.call('POST', '/svc/_apps', { ...as('otto'), body: blank });
    assert.equal(outcome(made), 201, made.text);
    assert.equal(outcome(await gateway.call('GET', '/svc/_apps/blank/versions', as('otto'))), 200);
    assert.equal(outcome(await gateway.call('GET', '/svc/_apps/blank/versions', as('anna'))), FORBIDDEN);
    // Whoever makes an app of that id later is its maker.
    assert.equal(outcome(await gateway.call('DELETE', '/svc/_apps/blank?purge=1', as('otto'))), 200);
    assert.equal(outcome(await gateway.call('POST', '/svc/_apps', { ...as('anna'), body: blank })), 201);
    assert.equal(outcome(await gateway.call('GET', '/svc/_apps/blank/versions', as('otto'))), FORBIDDEN);
  });

  test('who is nobody is asked to sign in, and other sites cannot use a sign-in', async () => {
    const body = { app: 'team', query: 'all' };
    const nobody = await gateway.call('POST', '/svc/_tool/svc_read', { body });
    assert.equal(outcome(nobody), '401 UNAUTHORIZED');
    assert.match(nobody.json.error.message, /Sign in first/);
    const opens = { accept: 'text/html', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
    const page = await gateway.call('GET', '/svc/team/', { headers: opens });
    assert.equal(page.status, 401);
    assert.match(page.text, /You are signed out[\s\S]*Sign in at the server that this page is part of/);
    const refused = await gateway.call('GET', '/svc/team/', as('mo', opens));
    assert.equal(refused.status, 403);
    assert.match(refused.text, /not shared with you[\s\S]*Ask those who run this server/);
    for (const site of [{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }])
      assert.equal(
        outcome(await gateway.call('POST', '/svc/_tool/svc_read', { ...as('olga', site), body })),
        FORBIDDEN,
      );
    // A name of the host's own needs no configuration: no other site has what the host knows people by.
    const named = { host: 'apps.example.org', origin: 'https://apps.example.org', 'sec-fetch-site': 'same-origin' };
    assert.equal(outcome(await gateway.call('POST', '/svc/_tool/svc_read', { ...as('ed', named), body })), 200);
    assert.equal(outcome(await gateway.call('GET', '/svc/_health')), 200);
  });

  test('a role of the app allows the tools that it names; one that the app does not have opens its page', async () => {
    const call = async (who: string, tool: 'query' | 'action', name: string) => {
      const route = tool === 'query' ? 'svc_read' : 'svc_write';
      return await gateway.call('POST', `/svc/_tool/${route}`, { ...as(who), body: { app: 'team', [tool]: name } });
    };
    assert.equal((await call('kit', 'action', 'who')).json.data.body.user.role, 'cook');
    assert.equal((await call('kit', 'query', 'all')).status, 200);
    assert.match((await call('kit', 'query', 'mine')).text, /is Cook, which does not allow the query \\"mine\\"/);
    assert.equal(outcome(await call('kit', 'action', 'add')), FORBIDDEN);
    assert.equal((await gateway.call('GET', '/svc/team/', as('bo'))).status, 200);
    assert.match((await call('bo', 'query', 'all')).text, /\\"team\\" has no role \\"boss\\"/);
  });

  test('over MCP each sees and calls what the role allows', async () => {
    const rpc = (who: string, method: string, params: object) =>
      gateway.call('POST', '/svc/team/_mcp', {
        ...as(who, { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-06-18' }),
        body: { jsonrpc: '2.0', id: 1, method, params },
      });
    const tools = async (who: string) => {
      const [, data = ''] = /^data: (.*)$/m.exec((await rpc(who, 'tools/list', {})).text) ?? [];
      return JSON.parse(data)
        .result.tools.map(({ name }: { name: string }) => name)
        .sort();
    };
    assert.deepEqual(await tools('vera'), ['all', 'mine', 'query.who']);
    assert.deepEqual(await tools('kit'), ['action.who', 'all']);
    assert.deepEqual(await tools('ed'), ['action.who', 'add', 'all', 'mine', 'query.who']);
    const called = await rpc('ed', 'tools/call', { name: 'query.who', arguments: {} });
    assert.equal(JSON.parse(called.json.result.content[0].text).user.id, 'ed');
    assert.equal(outcome(await rpc('mo', 'tools/list', {})), FORBIDDEN);
  });
});

test('who made an app is known after a restart', async (t) => {
  const folder = newFolder();
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [who, expected] of [
    ['anna', 201],
    ['otto', FORBIDDEN],
    ['anna', 200],
  ] as const) {
    const host = await hostWith(folder);
    const answer = await upload(host.gateway, who, 'fresh');
    await host.stop();
    assert.equal(outcome(answer), expected, answer.text);
  }
});

test('answers of a host that are none are refused in words, and never end the process or give rights', async (t) => {
  let answer: (request: HostRequest) => unknown = () => null;
  const host = await ownHost(t, { identify: (request) => answer(request) as Person });
  const ask = () => host.gateway.call('GET', '/svc/_apps');
  const olga = PEOPLE.olga as Person;
  const bad: [answer: typeof answer, words: RegExp][] = [
    [() => assert.fail('secret of the host'), /"identify" of this server failed/],
    [() => Promise.reject(new Error('later')), /must be there at once/],
    [async () => olga, /must be there at once/],
    [() => ({ ...olga, role: 'admin' }), /"role" must be one of owner, author, member/],
    [() => ({ ...olga, id: '' }), /"id" must be/],
    [() => true, /must be an object/],
    [
      () => ({
        ...olga,
        get apps() {
          throw new Error('secret of the host');
        },
      }),
      /"identify" of this server failed/,
    ],
  ];
  for (const [given, words] of bad) {
    answer = given;
    const refused = await ask();
    assert.equal(outcome(refused), '500 INTERNAL');
    assert.match(refused.json.error.message, words);
    assert.ok(!refused.text.includes('secret'));
  }
  answer = () => ({ ...olga, role: 'member', apps: { team: ['manager'] } });
  const none = await host.gateway.call('GET', '/svc/team/');
  assert.equal(none.status, 403);
  assert.match(none.text, /is no text, so it is none/);
  // It is asked with what the host handed over.
  answer = ({ raw }) => (raw?.headers['x-who'] === 'olga' ? olga : null);
  assert.equal((await ask()).status, 401);
  assert.equal((await host.gateway.call('GET', '/svc/_apps', as('olga'))).status, 200);
});

test('beside authorize both must allow it, and who is nobody is left to authorize', async (t) => {
  const host = await ownHost(t, {
    authorize: (_request, { capability }) => capability === 'page' || capability === 'read',
  });
  const { gateway } = host;
  const status = async (method: string, path: string, who?: string) =>
    (await gateway.call(method, path, who === undefined ? {} : as(who))).status;
  assert.equal(await status('GET', '/svc/_apps', 'olga'), 403);
  assert.equal(await status('GET', '/svc/_apps/team/settings', 'mo'), 403);
  assert.equal(await status('GET', '/svc/_apps/team/settings', 'vera'), 404);
  assert.equal(await status('GET', '/svc/_apps/team/settings'), 404);
  assert.equal(await status('PUT', '/svc/_apps/team/settings'), 403);
});

test('a host that says who calls must own authentication', (_t: TestContext) => {
  const isAbout = (key: string) => (error: unknown) => error instanceof ConfigError && error.key === key;
  assert.throws(() => buildGateway({ dataDir: 'never-made', identify: () => null }), isAbout('identify'));
  for (const key of ['identify', 'authorize'])
    assert.throws(() => buildGateway({ dataDir: 'never-made', auth: false, [key]: 'ann' }), isAbout(key));
});
