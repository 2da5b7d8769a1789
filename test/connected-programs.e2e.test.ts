// Programs that people connect to MCP addresses by signing in (specification, "Connected programs").
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join as joinPath } from 'node:path';
import { before, describe, test } from 'node:test';
import {
  Client,
  type OAuthClientInformationMixed,
  type OAuthClientProvider,
  type OAuthTokens,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { pkce, postForm } from '../testing/connections.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { openEvents } from '../testing/exchange-server.ts';
import { freePort } from '../testing/free-port.ts';
import { type Answer, root } from '../testing/gateway.ts';
import { enter, Origin, signIn } from '../testing/origins.ts';
import { type Joined, join } from '../testing/people.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const NOTES = {
  migrations: ['CREATE TABLE t (n INTEGER);'],
  queries: {
    me: '({ ctx }) => ({ user: ctx.user, caller: ctx.caller.kind })',
    all: `async ({ db }) => (await db.all('SELECT n FROM t')).map(({ n }) => n)`,
  },
  actions: {
    add: {
      run: `async ({ db, input }) => { await db.run('INSERT INTO t VALUES (?)', input.n); return { body: null }; }`,
      writes: ['t'],
    },
  },
  files: { 'index.html': '<title>Notes</title>' },
};
const programs = joinPath(root, 'scripts/agents/node_modules/.bin');
const skip = existsSync(joinPath(programs, 'conformance'))
  ? false
  : 'the conformance suite is not installed: npm ci --prefix scripts/agents';
const REDIRECT = 'http://127.0.0.1:43117/callback';

type Discovery = Parameters<NonNullable<OAuthClientProvider['saveDiscoveryState']>>[0];

/** A program that keeps what it gets in memory, and notes where it would have sent a browser. */
class Program implements OAuthClientProvider {
  readonly redirectUrl = REDIRECT;
  readonly clientMetadata = { client_name: 'Test <b>program</b>', redirect_uris: [REDIRECT] };
  sentTo: URL | null = null;
  information: OAuthClientInformationMixed | undefined;
  given: OAuthTokens | undefined;
  #verifier = '';
  #discovery: Discovery | undefined;

  state = () => 'state of its own';
  clientInformation = () => this.information;
  tokens = () => this.given;
  codeVerifier = () => this.#verifier;
  discoveryState = () => this.#discovery;

  saveClientInformation(information: OAuthClientInformationMixed) {
    this.information = information;
  }

  saveTokens(tokens: OAuthTokens) {
    this.given = tokens;
  }

  redirectToAuthorization(url: URL) {
    this.sentTo = url;
  }

  saveCodeVerifier(verifier: string) {
    this.#verifier = verifier;
  }

  saveDiscoveryState(state: Discovery) {
    this.#discovery = state;
  }

  invalidateCredentials() {
    this.given = undefined;
  }
}

describe('programs that people connect', () => {
  const gateway = gatewayOfSuite({});
  let ada: Joined;
  let client = '';
  const ok = async (method: string, path: string, body?: unknown) => {
    const answer = await gateway.call(method, path, { body });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const address = (app = 'notes') => `${gateway.url}/svc/${app}/_mcp`;
  const register = (metadata: object) => gateway.call('POST', '/svc/_oauth/register', { token: null, body: metadata });
  const post = (path: string, form: Record<string, string>) => postForm(gateway, path, form);
  const tokenFor = (form: Record<string, string>) => post('/svc/_oauth/token', form);
  const faultOf = (answer: Answer) => [answer.status, answer.json.error];

  /** What a program asks with, but for what `change` says. */
  const asking = (change: Record<string, string | undefined> = {}) => {
    const { verifier, challenge } = pkce();
    const all: Record<string, string | undefined> = {
      response_type: 'code',
      client_id: client,
      redirect_uri: REDIRECT,
      code_challenge: challenge,
      code_challenge_method: 'S256',
      resource: address(),
      state: 's1',
      ...change,
    };
    const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined);
    return { query: new URLSearchParams(given).toString(), verifier };
  };
  const requested = (origin: Origin, query: string) => origin.call('POST', '/svc/_oauth/request', { body: { query } });
  const consent = (origin: Origin, query: string, role = 'editor') =>
    origin.call('POST', '/svc/_oauth/consent', { body: { query, role } });
  const codeIn = (agreed: Answer) => {
    assert.equal(agreed.status, 201, agreed.text);
    return new URL(agreed.json.url).searchParams.get('code') ?? '';
  };
  const exchange = (code: string, verifier: string, more: Record<string, string> = {}) =>
    tokenFor({
      grant_type: 'authorization_code',
      code,
      client_id: client,
      redirect_uri: REDIRECT,
      code_verifier: verifier,
      ...more,
    });
  /** Connects the registered client, as its library would. */
  const connect = async (origin: Origin, role = 'editor', app = 'notes') => {
    const { query, verifier } = asking({ resource: app === '' ? `${gateway.url}/svc/_mcp` : address(app) });
    const tokens = await exchange(codeIn(await consent(origin, query, role)), verifier);
    assert.equal(tokens.status, 200, tokens.text);
    return { access: String(tokens.json.access_token), refresh: String(tokens.json.refresh_token) };
  };
  const refresh = (token: string) => tokenFor({ grant_type: 'refresh_token', refresh_token: token, client_id: client });
  /** Calls a tool with a token, at an address. */
  const callTool = (token: string, name: string, input: object = {}, path = '/svc/notes/_mcp') =>
    gateway.call('POST', path, {
      token,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
      },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: input } },
    });
  const connectionsOf = async (id = ada.id) => ok('GET', `/svc/_people/${id}/connections`);

  before(async () => {
    for (const app of ['notes', 'other']) await gateway.install(app, appOf(app, NOTES));
    ada = await join(gateway, 'Ada', { grants: [{ app: 'notes', role: 'editor' }] });
    client = (await register({ client_name: 'Plain', redirect_uris: [REDIRECT, 'https://example.org/cb?x=1'] })).json
      .client_id;
  });

  test('the official client signs in: it finds the gateway, registers, and calls tools as the person who agreed', async () => {
    const program = new Program();
    const connecting = () => {
      const transport = new StreamableHTTPClientTransport(new URL(address()), { authProvider: program });
      return { transport, of: new Client({ name: 'test', version: '1' }) };
    };
    const first = connecting();
    await assert.rejects(first.of.connect(first.transport), UnauthorizedError);
    const { sentTo } = program;
    assert.ok(sentTo);
    assert.equal(sentTo.origin + sentTo.pathname, `http://svc.localhost:${gateway.port}/svc/_oauth/authorize`);
    const visited = await ada.origin.visit(sentTo.pathname + sentTo.search);
    const query = new URLSearchParams(new URL(String(visited.headers.location)).hash.slice(1)).get('authorize') ?? '';
    assert.equal(query, sentTo.search.slice(1));

    const { json: shown } = await requested(ada.origin, query);
    assert.deepEqual(
      [shown.name, shown.host, shown.app, shown.roles, shown.problem],
      ['Test <b>program</b>', null, { id: 'notes', name: 'notes' }, ['viewer', 'editor'], null],
    );
    const back = new URL((await consent(ada.origin, query)).json.url);
    assert.equal(back.origin + back.pathname, REDIRECT);
    assert.deepEqual([back.searchParams.get('state'), back.searchParams.get('iss')], ['state of its own', gateway.url]);
    await first.transport.finishAuth(back.searchParams);

    const { of, transport } = connecting();
    await of.connect(transport);
    const { content } = (await of.callTool({ name: 'me' })) as { content: { text: string }[] };
    const seen = JSON.parse(content[0]?.text ?? '');
    assert.deepEqual([seen.caller, seen.user.id, seen.user.role], ['person', ada.id, 'editor']);

    // What it has is good no more: it refreshes by itself.
    const { given } = program;
    assert.ok(given);
    program.given = { ...given, access_token: 'svco_gone' };
    assert.deepEqual((await of.callTool({ name: 'all' })).isError ?? false, false);
    assert.notEqual(program.given.refresh_token, given.refresh_token);
    const [row] = await connectionsOf();
    assert.deepEqual([row.name, row.app.id, row.role], ['Test <b>program</b>', 'notes', 'editor']);
    await ok('DELETE', `/svc/_people/${ada.id}/connections/${row.id}`);
    await assert.rejects(of.callTool({ name: 'all' }), UnauthorizedError);
    await of.close();
  });

  test('each MCP address says how to sign in, and a client with a token goes on working', async () => {
    const refused = await gateway.call('POST', '/svc/notes/_mcp', { token: null, body: {} });
    assert.equal(refused.status, 401);
    const metadata = `${gateway.url}/.well-known/oauth-protected-resource/svc/notes/_mcp`;
    assert.equal(refused.headers['www-authenticate'], `Bearer resource_metadata="${metadata}"`);
    const elsewhere = await gateway.call('GET', '/svc/_apps', { token: null });
    assert.equal(elsewhere.headers['www-authenticate'], 'Bearer');
    assert.equal((await callTool(gateway.token, 'all')).status, 200);
    for (const path of ['/svc/_mcp', '/svc/notes/_mcp', '/svc/nothing/_mcp', '/svc/_draft/s1/notes/_mcp']) {
      const { json } = await gateway.call('GET', `/.well-known/oauth-protected-resource${path}`, { token: null });
      assert.deepEqual([json.resource, json.authorization_servers], [gateway.url + path, [gateway.url]]);
    }
    for (const path of ['/svc/notes', '/svc/_apps', '/svc/notes/_mcp/']) {
      const nothing = await gateway.call('GET', `/.well-known/oauth-protected-resource${path}`, { token: null });
      assert.equal(nothing.status, 404, path);
    }
    // At the origin of an app, the console gives the tokens.
    const headers = { host: `notes.svc.localhost:${gateway.port}` };
    const ofApp = '/.well-known/oauth-protected-resource/svc/notes/_mcp';
    const there = await gateway.call('GET', ofApp, { token: null, headers });
    assert.deepEqual(there.json.authorization_servers, [`http://svc.localhost:${gateway.port}`]);
    const issuer = await gateway.call('GET', '/.well-known/oauth-authorization-server', { token: null });
    assert.equal(issuer.json.issuer, gateway.url);
    assert.deepEqual(issuer.json.code_challenge_methods_supported, ['S256']);
  });

  test('a token is good at its address and nowhere else, for the role that was given and no more than the person has', async () => {
    const { access } = await connect(ada.origin, 'viewer');
    assert.equal((await callTool(access, 'all')).status, 200);
    assert.match((await callTool(access, 'add', { n: 1 })).text, /connected as viewer/);
    assert.equal(JSON.parse((await callTool(access, 'me')).json.result.content[0].text).user.role, 'viewer');
    for (const [method, path] of [
      ['POST', '/svc/other/_mcp'],
      ['POST', '/svc/_mcp'],
      ['POST', '/svc/_draft/s1/notes/_mcp'],
      ['POST', '/svc/n%6ftes/_mcp'],
      ['POST', '/svc/_tool/svc_read'],
      ['GET', '/svc/notes/'],
      ['GET', '/svc/notes/_changes'],
      ['GET', '/svc/_people/me'],
      ['POST', '/svc/_session'],
      ['POST', '/svc/_oauth/consent'],
    ] as const)
      assert.equal(
        (await gateway.call(method, path, { token: access, ...(method === 'POST' && { body: {} }) })).status,
        401,
        path,
      );

    const whole = await connect(ada.origin, 'manager', '');
    const at = (token: string, app: string, tool = 'svc_read') =>
      callTool(
        token,
        tool,
        tool === 'svc_read' ? { app, query: 'all' } : { app, action: 'add', input: { n: 2 } },
        '/svc/_mcp',
      );
    assert.equal((await at(whole.access, 'notes', 'svc_write')).json.result.isError ?? false, false);
    assert.match((await at(whole.access, 'other')).text, /not shared with you/);
    // The role of the person counts as it is now.
    const [{ id }] = await ok('GET', '/svc/_apps/notes/shares');
    await ok('POST', '/svc/_apps/notes/shares', { person: ada.id, role: 'viewer' });
    assert.match((await at(whole.access, 'notes', 'svc_write')).text, /is viewer, and this needs more/);
    await ok('DELETE', `/svc/_apps/notes/shares/${id}`);
    assert.equal((await callTool(access, 'all')).status, 403);
    await ok('POST', '/svc/_apps/notes/shares', { person: ada.id, role: 'editor' });
    assert.equal((await callTool(access, 'all')).status, 200);
  });

  test('nobody gives more than they have, and nothing of an app that they do not have', async () => {
    assert.deepEqual(faultOf(await consent(ada.origin, asking().query, 'manager'))[0], 403);
    const { query } = asking({ resource: address('other') });
    const { json } = await requested(ada.origin, query);
    assert.deepEqual([json.roles, /not shared with you/.test(json.problem)], [[], true]);
    assert.equal((await consent(ada.origin, query, 'viewer')).status, 403);
    const unknown = await requested(ada.origin, asking({ resource: address('nothing') }).query);
    assert.match(unknown.json.problem, /“?"?nothing"?”? is not shared with you/);
  });

  test('a role of the app is given by who has it or more, and allows what it names while its person has it', async () => {
    const roles = {
      cook: { name: 'Cook', queries: ['me'], actions: '*' },
      guest: { name: 'Guest', queries: ['me'], actions: [] },
    };
    await gateway.install('kitchen', appOf('kitchen', { ...NOTES, manifest: { roles } }));
    const cleo = await join(gateway, 'Cleo', { grants: [{ app: 'kitchen', role: 'cook' }] });
    const edda = await join(gateway, 'Edda', { grants: [{ app: 'kitchen', role: 'editor' }] });
    const path = '/svc/kitchen/_mcp';
    const offered = async ({ origin }: Joined) => {
      const { json } = await requested(origin, asking({ resource: address('kitchen') }).query);
      return [json.roles, json.defined.map(({ name }: { name: string }) => name)];
    };
    assert.deepEqual(await offered(cleo), [['viewer', 'cook'], ['Cook']]);
    assert.deepEqual(await offered(edda), [
      ['viewer', 'cook', 'guest', 'editor'],
      ['Cook', 'Guest'],
    ]);
    for (const role of ['guest', 'editor', 'chef'])
      assert.equal(
        (await consent(cleo.origin, asking({ resource: address('kitchen') }).query, role)).status,
        403,
        role,
      );

    const program = await connect(edda.origin, 'cook', 'kitchen');
    const shownTo = async (token: string) =>
      JSON.parse((await callTool(token, 'me', {}, path)).json.result.content[0].text);
    assert.deepEqual((await shownTo(program.access)).user, {
      ...(await shownTo(program.access)).user,
      id: edda.id,
      role: 'cook',
    });
    assert.match((await callTool(program.access, 'all', {}, path)).text, /is Cook, which does not allow the query/);
    assert.equal((await callTool(program.access, 'add', { n: 1 }, path)).json.result.isError ?? false, false);
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} };
    const headers = { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' };
    const listed = await gateway.call('POST', path, { token: program.access, headers, body: list });
    assert.deepEqual(
      listed.text.match(/"name":"\w+"/g)?.map((one) => one.slice(8, -1)),
      ['me', 'add'],
    );
    // Its person has it no more, and what they have instead is not less.
    const share = (person: string, role: string) => ok('POST', '/svc/_apps/kitchen/shares', { person, role });
    await share(edda.id, 'guest');
    assert.match((await callTool(program.access, 'me', {}, path)).text, /Your role in \\?"kitchen\\?" is guest/);
    await share(edda.id, 'cook');
    assert.equal((await callTool(program.access, 'me', {}, path)).status, 200);

    const reading = await connect(cleo.origin, 'viewer', 'kitchen');
    assert.match((await callTool(reading.access, 'add', { n: 2 }, path)).text, /connected as viewer/);
    assert.match(
      (await callTool(reading.access, 'all', {}, path)).text,
      /does not allow the query/,
      'no more than Cleo',
    );
    const ofAdmin = await connect(await signIn(gateway), 'guest', 'kitchen');
    assert.equal((await shownTo(ofAdmin.access)).caller, 'token');
    assert.match((await callTool(ofAdmin.access, 'add', { n: 3 }, path)).text, /is Guest, which does not allow/);
    assert.deepEqual(
      (await connectionsOf(edda.id)).map(({ role, roleName }: { role: string; roleName: string }) => [role, roleName]),
      [['cook', 'Cook']],
    );
  });

  test('the administrator connects a program, which is then no more than its role in the app', async () => {
    const admin = await signIn(gateway);
    const { access } = await connect(admin, 'editor', 'other');
    assert.equal((await callTool(access, 'add', { n: 5 }, '/svc/other/_mcp')).status, 200);
    const shown = JSON.parse((await callTool(access, 'me', {}, '/svc/other/_mcp')).json.result.content[0].text);
    assert.deepEqual(shown, { user: null, caller: 'token' });
    assert.equal((await gateway.call('GET', '/svc/_apps', { token: access })).status, 401);
    const [row] = (await admin.call('GET', '/svc/_people/me/connections')).json;
    assert.equal(row.app.id, 'other');
    assert.deepEqual((await admin.call('DELETE', `/svc/_people/me/connections/${row.id}`)).json, { ended: 1 });
    assert.equal((await callTool(access, 'all', {}, '/svc/other/_mcp')).status, 401);
  });

  test('what a program has open ends when it is disconnected, by its person, an owner or itself', async () => {
    const bob = await join(gateway, 'Bob', { grants: [{ app: 'notes', role: 'viewer' }] });
    const listen = async (access: string) => {
      const body = {
        jsonrpc: '2.0',
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
      };
      const accept = 'application/json, text/event-stream';
      const headers = { accept, 'content-type': 'application/json' };
      const begun = await gateway.call('POST', '/svc/notes/_mcp', { token: access, body, headers });
      const stream = await openEvents(gateway.port, '/svc/notes/_mcp', {
        accept,
        authorization: `Bearer ${access}`,
        'mcp-session-id': String(begun.headers['mcp-session-id']),
      });
      assert.equal(stream.status, 200);
      return stream;
    };
    const endings: [what: string, end: (access: string, id: string) => Promise<unknown>][] = [
      ['the person', (_access, id) => bob.origin.call('DELETE', `/svc/_people/me/connections/${id}`)],
      ['an owner', (_access, id) => ok('DELETE', `/svc/_people/${bob.id}/connections/${id}`)],
      ['the program', (access) => post('/svc/_oauth/revoke', { token: access, client_id: client })],
      [
        'the share',
        async () => {
          const [share] = (await ok('GET', '/svc/_apps/notes/shares')).filter(
            ({ name }: { name: string }) => name === 'Bob',
          );
          await ok('DELETE', `/svc/_apps/notes/shares/${share.id}`);
          await ok('POST', '/svc/_apps/notes/shares', { person: bob.id, role: 'viewer' });
        },
      ],
      ['the account', () => ok('PATCH', `/svc/_people/${bob.id}`, { disabled: true })],
    ];
    for (const [what, end] of endings) {
      const { access, refresh: token } = await connect(bob.origin, 'viewer');
      const stream = await listen(access);
      const [{ id }] = await connectionsOf(bob.id);
      const ended = (async () => {
        while ((await stream.next()) !== undefined);
      })();
      await end(access, id);
      await inTime(ended, `the end of the stream, by ${what}`);
      if (what === 'the share') continue;
      assert.equal((await callTool(access, 'all')).status, 401, what);
      assert.deepEqual(faultOf(await refresh(token)), [400, 'invalid_grant'], what);
    }
    assert.equal((await ada.origin.call('GET', `/svc/_people/${bob.id}/connections`)).status, 403);
    assert.equal((await ada.origin.call('DELETE', `/svc/_people/${bob.id}/connections/c_1`)).status, 403);
  });

  test('a code is good once, with its verifier, its address and its program', async () => {
    const agreed = async (change = {}) => {
      const { query, verifier } = asking(change);
      return { code: codeIn(await consent(ada.origin, query)), verifier };
    };
    const first = await agreed();
    const tokens = await exchange(first.code, first.verifier);
    assert.equal(tokens.status, 200);
    assert.deepEqual(faultOf(await exchange(first.code, first.verifier)), [400, 'invalid_grant']);
    assert.equal((await callTool(tokens.json.access_token, 'all')).status, 401, 'a code that was used twice ends it');

    const another = (await register({ redirect_uris: [REDIRECT] })).json.client_id;
    const wrong: [what: string, more: Record<string, string>, error: string][] = [
      ['another verifier', { code_verifier: pkce().verifier }, 'invalid_grant'],
      ['its challenge', { code_verifier: 'x'.repeat(43) }, 'invalid_grant'],
      ['another redirect_uri', { redirect_uri: 'https://example.org/cb?x=1' }, 'invalid_grant'],
      ['another program', { client_id: another }, 'invalid_grant'],
      ['another resource', { resource: address('other') }, 'invalid_target'],
    ];
    for (const [what, more, error] of wrong) {
      const { code, verifier } = await agreed();
      assert.deepEqual(faultOf(await exchange(code, verifier, more)), [400, error], what);
      assert.deepEqual(faultOf(await exchange(code, verifier)), [400, 'invalid_grant'], `${what}: it was used up`);
    }
    assert.deepEqual(faultOf(await exchange('guessed', first.verifier)), [400, 'invalid_grant']);
    const { code, verifier } = await agreed();
    const both = await Promise.all([exchange(code, verifier), exchange(code, verifier)]);
    assert.ok(both.some(({ status }) => status === 400));
    for (const one of both.filter(({ status }) => status === 200))
      assert.equal((await callTool(one.json.access_token, 'all')).status, 401);
  });

  test('a refresh token is good once; one that is used later again ends everything', async () => {
    const { access, refresh: first } = await connect(ada.origin);
    const second = await refresh(first);
    assert.equal(second.status, 200, second.text);
    // A client that asks twice at once is answered twice, with the same next one.
    const again = await refresh(first);
    assert.equal(again.json.refresh_token, second.json.refresh_token);
    assert.equal((await callTool(access, 'all')).status, 200);
    const third = await refresh(second.json.refresh_token);
    assert.deepEqual(faultOf(await refresh(first)), [400, 'invalid_grant']);
    for (const token of [access, second.json.access_token, third.json.access_token])
      assert.equal((await callTool(token, 'all')).status, 401);
    assert.deepEqual(faultOf(await refresh(third.json.refresh_token)), [400, 'invalid_grant']);
    const entries = await ok('GET', '/svc/_audit?limit=20');
    const seen = entries.map(({ action }: { action: string }) => action);
    assert.ok(seen.includes('connection.reused') && seen.includes('connection.made'));

    const other = await connect(ada.origin);
    const stranger = (await register({ redirect_uris: [REDIRECT] })).json.client_id;
    const form = { grant_type: 'refresh_token', refresh_token: other.refresh };
    assert.deepEqual(faultOf(await tokenFor({ ...form, client_id: stranger })), [400, 'invalid_grant']);
    assert.deepEqual(faultOf(await tokenFor(form)), [400, 'invalid_client']);
    const guessed = `${other.refresh.slice(0, -43)}${'x'.repeat(43)}`;
    assert.deepEqual(faultOf(await tokenFor({ ...form, client_id: client, resource: address('other') })), [
      400,
      'invalid_target',
    ]);
    assert.equal((await post('/svc/_oauth/revoke', { token: other.refresh, client_id: stranger })).status, 200);
    assert.equal((await callTool(other.access, 'all')).status, 200, 'another program ends nothing');
    assert.deepEqual(faultOf(await refresh(guessed)), [400, 'invalid_grant']);
  });

  test('a browser goes nowhere that the program did not register, and to no program without a click', async () => {
    const astray: [change: Record<string, string | undefined>, path: string][] = [
      [{ redirect_uri: 'https://evil.example/cb' }, 'redirect_uri'],
      [{ redirect_uri: 'https://example.org/cb?x=2' }, 'redirect_uri'],
      [{ redirect_uri: 'https://example.org/cb' }, 'redirect_uri'],
      [{ redirect_uri: 'http://127.0.0.1:1/callback/more' }, 'redirect_uri'],
      [{ redirect_uri: 'http://127.0.0.1.evil.example:43117/callback' }, 'redirect_uri'],
      [{ redirect_uri: 'http://127.0.0.1:43117@evil.example/callback' }, 'redirect_uri'],
      [{ redirect_uri: undefined }, 'redirect_uri'],
      [{ client_id: 'client_unknown' }, 'client_id'],
      [{ client_id: undefined }, 'client_id'],
    ];
    for (const [change, path] of astray) {
      const { query } = asking(change);
      for (const answer of [await requested(ada.origin, query), await consent(ada.origin, query)]) {
        assert.deepEqual([answer.status, answer.json.error.path], [400, path], JSON.stringify(change));
        assert.ok(!answer.text.includes('"url"') && !answer.text.includes('"back"'));
      }
      const visited = await ada.origin.visit(`/svc/_oauth/authorize?${query}`);
      assert.equal(new URL(String(visited.headers.location)).host, ada.origin.host);
    }
    assert.equal((await requested(ada.origin, `${asking().query}&client_id=${client}`)).status, 400);

    // Of a program on the same machine the port is not known before.
    const { query, verifier } = asking({ redirect_uri: 'http://127.0.0.1:50001/callback' });
    const code = codeIn(await consent(ada.origin, query));
    assert.equal((await exchange(code, verifier, { redirect_uri: 'http://127.0.0.1:50001/callback' })).status, 200);
  });

  test('what is asked wrongly is said on the page, and told to the program where the person goes back', async () => {
    const wrong: [change: Record<string, string | undefined>, error: string][] = [
      [{ code_challenge_method: 'plain' }, 'invalid_request'],
      [{ code_challenge_method: undefined }, 'invalid_request'],
      [{ code_challenge: undefined }, 'invalid_request'],
      [{ code_challenge: 'short' }, 'invalid_request'],
      [{ response_type: 'token' }, 'unsupported_response_type'],
      [{ resource: undefined }, 'invalid_target'],
      [{ resource: 'https://evil.example/svc/notes/_mcp' }, 'invalid_target'],
      [{ resource: `${gateway.url}/svc/_apps` }, 'invalid_target'],
      [{ resource: `${address()}?x` }, 'invalid_target'],
    ];
    for (const [change, error] of wrong) {
      const { query } = asking(change);
      const { json } = await requested(ada.origin, query);
      const back = new URL(json.back);
      assert.deepEqual(
        [back.searchParams.get('error'), back.searchParams.get('state')],
        [error, 's1'],
        JSON.stringify(change),
      );
      assert.ok(json.problem);
      assert.equal((await consent(ada.origin, query)).status, 400);
    }
    const denied = new URL(
      (await requested(ada.origin, asking({ redirect_uri: 'https://example.org/cb?x=1' }).query)).json.back,
    );
    assert.deepEqual(
      ['x', 'error', 'state', 'iss'].map((name) => denied.searchParams.get(name)),
      ['1', 'access_denied', 's1', gateway.url],
    );
  });

  test('only the console asks for consent, with its page key', async () => {
    const { query } = asking();
    const page = await enter(gateway, ada.origin, { app: 'notes' });
    assert.equal((await consent(page, query)).status, 403);
    const cookieAlone = new Origin(gateway, ada.origin.host, ada.origin.cookie);
    assert.equal((await consent(cookieAlone, query)).status, 401);
    const body = { query, role: 'editor' };
    for (const headers of [
      { 'sec-fetch-site': 'same-site', origin: `http://notes.svc.localhost:${gateway.port}` },
      { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' },
    ])
      assert.equal((await ada.origin.call('POST', '/svc/_oauth/consent', { body, headers })).status, 403);
    const { token } = await ok('POST', '/svc/_tokens', { name: 'ci', apps: ['notes'], tools: 'all' });
    assert.equal((await gateway.call('POST', '/svc/_oauth/consent', { token, body })).status, 403);
    const console = await ada.origin.visit('/svc/');
    assert.match(String(console.headers['content-security-policy']), /frame-ancestors 'self'(?:;|$)/);
  });

  test('a program registers only addresses that a code may be sent to, and gets no secret', async () => {
    const good = [
      'https://claude.ai/cb',
      'http://localhost:1/cb',
      'http://[::1]/cb',
      'cursor://x/cb',
      'com.example.app:/cb',
    ];
    const made = await register({
      client_name: 'A\u202e\nB',
      redirect_uris: good,
      token_endpoint_auth_method: 'client_secret_post',
    });
    assert.equal(made.status, 201, made.text);
    assert.deepEqual(
      [made.json.client_name, made.json.token_endpoint_auth_method, made.json.client_secret],
      ['A B', 'none', undefined],
    );
    for (const uri of [
      'http://evil.example/cb',
      'http://localhost.evil.example/cb',
      'javascript:alert(1)',
      'javascript://x/%0aalert(1)',
      'data:text/html,x',
      'file:///etc/passwd',
      'https://user:password@example.org/cb',
      'https://example.org/cb#x',
      'https://example.org/a b',
      'https:',
      '/cb',
      `https://example.org/${'x'.repeat(LIMITS.clientRedirectChars)}`,
      7,
    ])
      assert.deepEqual(faultOf(await register({ redirect_uris: [uri] })), [400, 'invalid_redirect_uri'], String(uri));
    assert.deepEqual(faultOf(await register({})), [400, 'invalid_redirect_uri']);
    assert.deepEqual(faultOf(await register({ redirect_uris: [REDIRECT], client_name: 1 })), [
      400,
      'invalid_client_metadata',
    ]);
    const nothing = await gateway.call('POST', '/svc/_oauth/register', { token: null, body: '{' });
    assert.deepEqual(faultOf(nothing), [400, 'invalid_client_metadata']);
    assert.deepEqual(faultOf(await tokenFor({ grant_type: 'password', client_id: client })), [
      400,
      'unsupported_grant_type',
    ]);
    const json = await gateway.call('POST', '/svc/_oauth/token', { token: null, body: {} });
    assert.deepEqual(faultOf(json), [400, 'invalid_request']);
  });

  test('passes the scenarios of the official suite for authorization servers', { skip }, async (t) => {
    // The suite names this port as its own.
    const port = await freePort();
    const args = [
      'authorization',
      '--url',
      gateway.url,
      '--client-id',
      client,
      '--resource',
      address(),
      '-p',
      `${port}`,
    ];
    const suite = spawn(joinPath(programs, 'node'), [joinPath(programs, 'conformance'), ...args], { timeout: LONG_MS });
    t.after(() => suite.kill());
    let said = '';
    const asks = new Promise<string>((resolve) => {
      suite.stdout.on('data', (chunk: Buffer) => {
        said += chunk;
        const [found] = /http\S+\/_oauth\/authorize\?\S+(?=\n)/.exec(said) ?? [];
        if (found !== undefined) resolve(found);
      });
    });
    const closed = once(suite, 'close');
    const { search } = new URL(await inTime(asks, 'the address that the suite wants opened'));
    const { url } = (await consent(ada.origin, search.slice(1))).json;
    // It names the address before it listens there.
    await eventually(() =>
      fetch(url).then(
        () => true,
        () => false,
      ),
    );
    const [code] = await inTime(closed, 'the end of the suite');
    assert.equal(code, 0, said);
    assert.doesNotMatch(said, /FAILURE|SKIPPED/);
    assert.match(said, /authorization-code-grant/);
  });

  test('whoever registers without end has to wait, and what is connected goes on', async () => {
    const { access } = await connect(ada.origin);
    let refused: Answer | undefined;
    for (let n = 0; n <= LIMITS.attemptsOfAddress && refused === undefined; n++) {
      const answer = await register({ redirect_uris: [REDIRECT] });
      if (answer.status !== 201) refused = answer;
    }
    assert.deepEqual(refused && faultOf(refused), [429, 'temporarily_unavailable']);
    assert.ok(Number(refused?.headers['retry-after']) > 0);
    assert.equal((await callTool(access, 'all')).status, 200);
    assert.ok((await connectionsOf()).length > 0);
  });

  test('connections last over a restart, and go with their app and their person', async () => {
    const eve = await join(gateway, 'Eve', { grants: [{ app: 'other', role: 'viewer' }] });
    const kept = await connect(ada.origin);
    const ofApp = await connect(eve.origin, 'viewer', 'other');
    const { port } = gateway;
    await gateway.stop();
    await gateway.start(String(port));
    assert.equal((await callTool(kept.access, 'all')).status, 200);
    assert.equal((await callTool(ofApp.access, 'all', {}, '/svc/other/_mcp')).status, 200);
    await ok('DELETE', '/svc/_apps/other?purge=1');
    await gateway.install('other', appOf('other', NOTES));
    await ok('POST', '/svc/_apps/other/shares', { person: eve.id, role: 'viewer' });
    assert.equal((await callTool(ofApp.access, 'all', {}, '/svc/other/_mcp')).status, 401);
    await ok('DELETE', `/svc/_people/${ada.id}`);
    assert.equal((await callTool(kept.access, 'all')).status, 401);
    assert.deepEqual(faultOf(await refresh(kept.refresh)), [400, 'invalid_grant']);
  });
});
