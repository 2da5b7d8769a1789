// Signing in with an OpenID provider: who comes in, who does not, and what attackers try (specification, "Signing in").
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { exportJWK, type GenerateKeyPairResult, generateKeyPair, type JSONWebKeySet, SignJWT } from 'jose';
import { LIMITS } from '../protocol/limits.ts';
import { appOf } from '../testing/apps.ts';
import { gatewayOfSuite } from '../testing/edges.ts';
import { freePort } from '../testing/free-port.ts';
import type { Answer, TestGateway } from '../testing/gateway.ts';
import { makeGateway } from '../testing/gateway.ts';
import { MailServer } from '../testing/notice-servers.ts';
import { beginAt, CLIENT, comeBack, OpenIdProvider, type Subject, signInThere } from '../testing/openid-provider.ts';
import { consoleHost, Origin, sessionOf } from '../testing/origins.ts';
import { codeOf, enterPassword, join, visitor } from '../testing/people.ts';

const NOBODY = /Nobody here signs in with this account/;

describe('providers', () => {
  const provider = new OpenIdProvider();
  const mails = new MailServer();
  let gateway: TestGateway;
  let remove: () => Promise<void>;

  before(async () => {
    await provider.listen();
    const smtp = await mails.listen();
    const { issuer } = provider;
    const client = { issuer, clientId: CLIENT.id, clientSecretEnv: 'SVC_TEST_SECRET' };
    const providers = {
      company: { ...client, allow: { domains: ['example.org'], emails: ['Guest@elsewhere.test'] }, role: 'author' },
      invited: client,
      down: { ...client, issuer: `http://127.0.0.1:${await freePort()}` },
    };
    const env = { SVC_TEST_SECRET: CLIENT.secret };
    const mail = { url: `smtp://127.0.0.1:${smtp}`, from: 'svc@home.test' };
    ({ gateway, remove } = makeGateway({ config: { signIn: { passwords: false, providers }, mail }, env }));
    await gateway.start();
    const backs = ['company', 'invited'].map((name) => `http://${consoleHost(gateway)}${backOf(name)}`);
    await provider.serve(backs);
  });
  after(async () => {
    provider.close();
    mails.close();
    await remove();
  });

  const backOf = (name: string) => `/svc/_auth/provider/${name}/callback`;
  /** Somebody signs in at the provider, from a page of the console. */
  const enter = async (name: string, subject: Subject, body: object = {}, from?: Origin): Promise<Answer> => {
    provider.subject = subject;
    const journey = await beginAt(from ?? visitor(gateway), name, body);
    return comeBack(gateway, name, await signInThere(journey), journey.cookie, from);
  };
  const verified = (sub: string, email: string): Subject => ({ sub, email, email_verified: true, name: sub });
  const originOf = (answer: Answer): Origin => sessionOf(gateway, consoleHost(gateway), answer);
  const refused = (answer: Answer, status: number, said: RegExp) => {
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.json.error.message, said);
    assert.equal(answer.headers['set-cookie'], undefined);
  };
  const peopleOf = async (email: string) =>
    (await gateway.call('GET', '/svc/_people')).json.filter((one: { email: string }) => one.email === email);

  test('who the provider verifies and the configuration allows gets an account, and the same one again', async () => {
    const shown = (await visitor(gateway).call('GET', '/svc/_session')).json;
    const names = [{ name: 'company' }, { name: 'invited' }, { name: 'down' }];
    assert.deepEqual(shown.ways, { passwords: false, passkeys: true, providers: names, proxy: false });
    const joined = await enter('company', verified('ada', 'Ada@Example.org'));
    const { person } = joined.json;
    assert.deepEqual(
      [person.name, person.email, person.vouched, person.role, person.methods],
      ['ada', 'Ada@Example.org', true, 'author', ['provider:company']],
    );
    assert.equal((await originOf(joined).call('GET', '/svc/_people/me')).json.id, person.id);
    assert.equal((await enter('company', verified('ada', 'ada@example.org'))).json.person.id, person.id);
    assert.equal((await enter('company', verified('guest', 'guest@ELSEWHERE.test'))).status, 200);
    const log = (await gateway.call('GET', '/svc/_audit')).json.map(({ action }: { action: string }) => action);
    assert.equal(log.filter((action: string) => action === 'person.joined').length, 2);
  });

  test('the address to which the provider sends the browser leads to the console, whatever it says', async () => {
    const back = await visitor(gateway).visit(`${backOf('company')}?code=a&state=b&to=https%3A%2F%2Fevil.example`);
    assert.equal(back.status, 303);
    const { pathname, hash, host } = new URL(String(back.headers.location), `http://${consoleHost(gateway)}`);
    assert.deepEqual([pathname, host], ['/svc/', consoleHost(gateway)]);
    assert.equal(new URLSearchParams(hash.slice(1)).get('query'), 'code=a&state=b&to=https%3A%2F%2Fevil.example');
  });

  test('links of invitations and people are mailed; one that cannot be is there to send all the same', async () => {
    const make = async (path: string, body: object) => (await gateway.call('POST', path, { body })).json;
    const [ada] = await peopleOf('Ada@Example.org');
    const link = await make(`/svc/_people/${ada.id}/link`, {});
    const mailed = await mails.mails.next('link');
    assert.deepEqual([mailed.to, link.mailed], [['Ada@example.org'], { to: 'Ada@Example.org', problem: null }]);
    // Long lines are quoted-printable.
    const written = (text: string) => text.replace(/=\r?\n/g, '').replaceAll('=3D', '=');
    assert.ok(written(mailed.text).includes(link.url), mailed.text);
    await gateway.upload('notes', appOf('notes', {}));
    const shared = await make('/svc/_apps/notes/shares', { email: 'new@home.test', role: 'viewer' });
    const invited = await mails.mails.next('invitation');
    assert.deepEqual([invited.from, invited.to, shared.mailed.problem], ['svc@home.test', ['new@home.test'], null]);
    assert.ok(written(invited.text).includes(shared.url), invited.text);
    assert.equal((await make('/svc/_invitations', { name: 'Nobody' })).mailed, null);
    mails.close();
    const failed = await make('/svc/_invitations', { email: 'late@home.test' });
    assert.deepEqual(failed.mailed, { to: 'late@home.test', problem: 'Nothing answers at its address.' });
    const code = codeOf(failed.url);
    assert.equal((await visitor(gateway).call('POST', '/svc/_auth/invitation', { body: { code } })).status, 200);
    assert.doesNotMatch(gateway.log, new RegExp(code));
  });

  test('passwords are off, for signing in and for invitations', async () => {
    refused(await enterPassword(gateway, 'ada@example.org'), 403, /Passwords are off/);
    const invited = await gateway.call('POST', '/svc/_invitations', { body: { email: 'pat@example.org' } });
    const body = { code: codeOf(invited.json.url), name: 'Pat' };
    refused(await visitor(gateway).call('POST', '/svc/_auth/join', { body }), 403, /Passwords are off/);
  });

  test('an address that is not verified, or is not allowed, lets nobody in, and all get the same answer', async () => {
    const answers = [
      await enter('company', { sub: 'x1', email: 'x@example.org' }),
      await enter('company', { sub: 'x2', email: 'x@example.org', email_verified: false }),
      await enter('company', { sub: 'x3' }),
      await enter('company', verified('x4', 'x@evil-example.org')),
      await enter('company', verified('x5', 'x@example.org.evil.test')),
      // Its first letter becomes "k" when capitals are ignored.
      await enter('company', verified('x6', '\u212aim@example.org')),
      await enter('invited', verified('x7', 'x@example.org')),
      // Somebody else has this address here.
      await enter('company', verified('x8', 'ada@example.org')),
    ];
    for (const answer of answers) refused(answer, 403, NOBODY);
    assert.equal(new Set(answers.map(({ json }) => json.error.message)).size, 1);
    assert.deepEqual(await peopleOf('x@example.org'), []);
  });

  test('who is known by a vouched address comes in once by it; then the subject counts, whatever the address is', async () => {
    const invite = await gateway.call('POST', '/svc/_invitations', { body: { email: 'bob@work.test' } });
    const bob = await enter('invited', { sub: 'bob' }, { invitation: codeOf(invite.json.url) });
    const { id } = bob.json.person;
    assert.deepEqual([bob.json.person.email, bob.json.person.methods], ['bob@work.test', ['provider:invited']]);
    // The provider gives bob's account ada's address, and somebody new bob's.
    assert.equal((await enter('company', verified('bob', 'ada@example.org'))).json.person.id, id);
    assert.equal((await peopleOf('bob@work.test'))[0].id, id);
    refused(await enter('invited', verified('mallory', 'bob@work.test')), 403, NOBODY);
    // An owner unlinks it, for somebody who got another account there: now the address says again who it is.
    const linked = (await gateway.call('GET', `/svc/_people/${id}/identities`)).json;
    assert.deepEqual(
      linked.map(({ provider, email }: { provider: string; email: string }) => [provider, email]),
      [['company', 'ada@example.org']],
    );
    const own = await originOf(bob).call('DELETE', `/svc/_people/me/identities/${linked[0].id}`);
    refused(own, 409, /only way to sign in/);
    const unlinked = await gateway.call('DELETE', `/svc/_people/${id}/identities/${linked[0].id}`);
    assert.equal(unlinked.status, 200, unlinked.text);
    assert.equal((await enter('invited', verified('bob anew', 'bob@work.test'))).json.person.id, id);
    refused(await enter('invited', verified('bob', 'ada@example.org')), 403, NOBODY);
  });

  test('an account is linked to that of who is signed in, but not that of another, and not a second one', async () => {
    const ada = originOf(await enter('company', verified('ada', 'ada@example.org')));
    const { id } = (await ada.call('GET', '/svc/_people/me')).json;
    const [identity] = (await ada.call('GET', '/svc/_people/me/identities')).json;
    assert.equal((await gateway.call('DELETE', `/svc/_people/${id}/identities/${identity.id}`)).status, 200);
    const again = await enter('company', verified('ada', 'ada@example.org'), { link: true }, ada);
    assert.equal(again.status, 200, again.text);
    const log: { action: string }[] = (await gateway.call('GET', '/svc/_audit?limit=2')).json;
    assert.deepEqual(
      log.map(({ action }) => action),
      ['identity.linked', 'identity.unlinked'],
    );
    refused(
      await enter('company', verified('bob anew', 'bob@work.test'), { link: true }, ada),
      409,
      /linked to another person/,
    );
    refused(
      await enter('company', verified('new', 'new@example.org'), { link: true }, ada),
      409,
      /unlink that one first/,
    );
    const nobody = await visitor(gateway).call('POST', '/svc/_auth/provider/company', { body: { link: true } });
    refused(nobody, 403, /Sign in to your account first/);
    // Whoever is signed in when the browser comes back is somebody else.
    const journey = await beginAt(ada, 'company', { link: true });
    const query = await signInThere(journey);
    const guest = originOf(await enter('company', verified('guest', 'guest@elsewhere.test')));
    refused(await comeBack(gateway, 'company', query, journey.cookie, guest), 403, /Somebody else is signed in/);
  });

  test('a state is good once, in the browser that began, at the provider that it was for', async () => {
    provider.subject = verified('ada', 'ada@example.org');
    const journey = await beginAt(visitor(gateway), 'company');
    const query = await signInThere(journey);
    assert.equal((await comeBack(gateway, 'company', query, journey.cookie)).status, 200);
    refused(await comeBack(gateway, 'company', query, journey.cookie), 403, /Begin again/);

    // The attacker's own sign-in, brought to the end in the browser of somebody else.
    for (const cookie of ['', (await beginAt(visitor(gateway), 'company')).cookie]) {
      const attack = await beginAt(visitor(gateway), 'company');
      refused(await comeBack(gateway, 'company', await signInThere(attack), cookie), 403, /another browser/);
    }
    const planted = await beginAt(visitor(gateway), 'company');
    const two = `${planted.cookie}; ${planted.cookie.replace(/=.*/, '=planted')}`;
    refused(await comeBack(gateway, 'company', await signInThere(planted), two), 403, /Begin again/);

    const mixed = await beginAt(visitor(gateway), 'company');
    refused(await comeBack(gateway, 'invited', await signInThere(mixed), mixed.cookie), 403, /Begin again/);
    const elsewhere = await beginAt(visitor(gateway), 'company');
    const answered = new URLSearchParams(await signInThere(elsewhere));
    answered.set('iss', 'https://other.example');
    refused(await comeBack(gateway, 'company', answered.toString(), elsewhere.cookie), 502, /not to be trusted/);

    const evil = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' };
    const foreign = await visitor(gateway).call('POST', '/svc/_auth/provider/company', { body: {}, headers: evil });
    refused(foreign, 403, /Another page/);
  });

  test('who cancels, who is disabled, and an unknown, dead or talkative provider: the answer says what to do', async () => {
    provider.subject = null;
    const journey = await beginAt(visitor(gateway), 'company');
    refused(await comeBack(gateway, 'company', await signInThere(journey), journey.cookie), 403, /cancelled/);

    const [guest] = await peopleOf('guest@ELSEWHERE.test');
    await gateway.call('PATCH', `/svc/_people/${guest.id}`, { body: { disabled: true } });
    refused(await enter('company', verified('guest', 'guest@elsewhere.test')), 403, /may not sign in/);

    const unknown = await visitor(gateway).call('POST', '/svc/_auth/provider/nope', { body: {} });
    refused(unknown, 404, /signIn\.providers/);
    const dead = await visitor(gateway).call('POST', '/svc/_auth/provider/down', { body: {} });
    refused(dead, 502, /Nothing answers at its address\. Try again later, or sign in another way/);
    provider.instead = ({ url }, response) => {
      if (url !== '/token') return false;
      response.end('x'.repeat(LIMITS.providerAnswerBytes + 1));
      return true;
    };
    refused(await enter('company', verified('ada', 'ada@example.org')), 502, /Its answer is too long/);
    provider.instead = () => false;
    const away = new Origin(gateway, `127.0.0.1:${gateway.port}`, '');
    refused(
      await away.call('POST', '/svc/_auth/provider/company', { body: {} }),
      403,
      /do not sign in at this address/,
    );
    assert.doesNotMatch(gateway.log, /the secret of the gateway|ada@example/);
  });
});

/** Where the trusted proxy is, as the gateway sees it. Everything else comes from 127.0.0.1. */
const PROXY_ADDRESS = '127.0.0.9';

describe('a proxy that sets a header', () => {
  const signIn = { proxy: { header: 'Tailscale-User-Login', from: [`${PROXY_ADDRESS}/32`] } };
  const gateway = gatewayOfSuite({ config: { signIn } });
  const agent = new Agent({ localAddress: PROXY_ADDRESS });
  after(() => agent.destroy());
  const through = (headers: Record<string, string>, method = 'POST', path = '/svc/_auth/proxy') =>
    visitor(gateway).call(method, path, { headers, agent });
  const refused = (answer: Answer, said: RegExp) => {
    assert.deepEqual([answer.status, answer.headers['set-cookie']], [403, undefined], answer.text);
    assert.match(answer.json.error.message, said);
  };

  test('whom it names gets a session, and nothing without it', async () => {
    const headers = { 'tailscale-user-login': 'ada@example.org' };
    assert.equal((await through(headers, 'GET', '/svc/_session')).json.ways.proxy, true);
    const entered = await through(headers);
    const { person } = entered.json;
    assert.deepEqual(
      [person.name, person.email, person.vouched, person.role, person.methods],
      ['ada', 'ada@example.org', true, 'member', ['proxy']],
    );
    const ada = sessionOf(gateway, consoleHost(gateway), entered);
    assert.equal((await ada.call('GET', '/svc/_people/me')).json.id, person.id);
    assert.equal((await through({ 'tailscale-user-login': 'Ada@Example.org' })).json.person.id, person.id);
    // The header alone is no sign-in: every page could make the browser send it.
    assert.equal((await through(headers, 'GET', '/svc/_people/me')).status, 401);
    refused(await through({ ...headers, 'sec-fetch-site': 'same-site' }), /Another page/);
  });

  test('who is known by a vouched address is that person; a login name without an address is a person of its own', async () => {
    const bob = await join(gateway, 'Bob');
    assert.equal((await through({ 'tailscale-user-login': 'bob@example.org' })).json.person.id, bob.id);
    const carol = (await through({ 'tailscale-user-login': 'carol@github' })).json.person;
    assert.deepEqual([carol.name, carol.email], ['carol', null]);
    await gateway.call('PATCH', `/svc/_people/${bob.id}`, { body: { disabled: true } });
    refused(await through({ 'tailscale-user-login': 'bob@example.org' }), /may not sign in/);
  });

  test('a header that is forged, missing, empty or there twice signs nobody in', async () => {
    const direct = (headers: Record<string, string>) => visitor(gateway).call('POST', '/svc/_auth/proxy', { headers });
    const headers = { 'tailscale-user-login': 'ada@example.org' };
    refused(await direct(headers), /does not come from a network/);
    refused(await direct({ ...headers, 'x-forwarded-for': PROXY_ADDRESS }), /does not come from a network/);
    const session = await visitor(gateway).call('GET', '/svc/_session', { headers });
    assert.equal(session.json.ways.proxy, false);
    refused(await through({}), /is missing/);
    refused(await through({ 'tailscale-user-login': '' }), /no login name/);
    const twice = { 'tailscale-user-login': ['ada@example.org', 'eve@example.org'] } as unknown as Record<
      string,
      string
    >;
    refused(await through(twice), /more than one/);
  });
});

describe('a proxy that signs a token', () => {
  const [issuer, audience] = ['https://team.cloudflareaccess.test', 'the-audience-tag'];
  const header = 'cf-access-jwt-assertion';
  let key: GenerateKeyPairResult['privateKey'];
  let asked = 0;
  let isDown = false;
  let jwks: JSONWebKeySet;
  let gateway: TestGateway;
  let remove: () => Promise<void>;
  const keyServer = createServer((_request, response) => {
    asked++;
    response.statusCode = isDown ? 503 : 200;
    response.end(JSON.stringify(jwks));
  });
  const token = (claims: object, { alg = 'ES256', signedBy = key, kid = 'one', seconds = 0 } = {}) => {
    const now = Math.floor(Date.now() / 1000) + seconds;
    const whole = {
      iss: issuer,
      aud: [audience],
      sub: 'u1',
      email: 'ada@example.org',
      exp: now + 60,
      nbf: now,
      ...claims,
    };
    return new SignJWT(whole).setProtectedHeader({ alg, kid }).sign(signedBy);
  };
  const enter = (value: string) => visitor(gateway).call('POST', '/svc/_auth/proxy', { headers: { [header]: value } });

  before(async () => {
    const pair = await generateKeyPair('ES256');
    key = pair.privateKey;
    jwks = { keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'one', alg: 'ES256' }] };
    await once(keyServer.listen(0, '127.0.0.1'), 'listening');
    const jwksUrl = `http://127.0.0.1:${(keyServer.address() as AddressInfo).port}/certs`;
    const proxy = { jwtHeader: 'Cf-Access-Jwt-Assertion', jwksUrl, issuer, audience };
    ({ gateway, remove } = makeGateway({ config: { signIn: { proxy } } }));
    await gateway.start();
  });
  after(async () => {
    keyServer.closeAllConnections();
    keyServer.close();
    await remove();
  });

  test('keys that cannot be fetched are said, and asked for again', async () => {
    isDown = true;
    const failed = await enter(await token({}));
    assert.deepEqual([failed.status, failed.json.error.code], [502, 'FETCH_FAILED'], failed.text);
    assert.match(failed.json.error.message, /keys of the proxy/);
    isDown = false;
  });

  test('whom it names is signed in, and stays that person with another address', async () => {
    const first = await enter(await token({}));
    assert.equal(first.status, 200, first.text);
    assert.deepEqual([first.json.person.email, first.json.person.vouched], ['ada@example.org', true]);
    const again = await enter(await token({ email: 'ada@home.test' }));
    assert.equal(again.json.person.id, first.json.person.id);
    // Somebody else who got ada's address there is not ada.
    assert.equal((await enter(await token({ sub: 'u2' }))).status, 403);
    assert.equal(
      (await enter(await token({ sub: 'u3', email: 'x@y.test', email_verified: false }))).json.person.email,
      null,
    );
    const late = await enter(await token({}, { seconds: -100 }));
    assert.equal(late.status, 200, 'clocks may differ by a minute');
  });

  test('a token of another audience, issuer, key or algorithm, one that is over or not valid yet: refused with the reason', async () => {
    const other = await generateKeyPair('ES256');
    const unsigned = (await token({})).split('.');
    unsigned[0] = Buffer.from(JSON.stringify({ alg: 'none' })).toString('base64url');
    const secret = await new SignJWT({ iss: issuer, aud: audience, sub: 'u1', exp: 2e9 })
      .setProtectedHeader({ alg: 'HS256', kid: 'one' })
      .sign(Buffer.from(JSON.stringify(jwks.keys[0])));
    const cases: [string, RegExp][] = [
      [await token({ aud: 'another' }), /"aud" of the token/],
      [await token({ iss: 'https://other.test' }), /"iss" of the token/],
      [await token({}, { seconds: -125 }), /has expired, by more than the 60 s that clocks may differ/],
      [await token({}, { seconds: 65 }), /not valid yet, by more than the 60 s/],
      [await token({ exp: undefined }), /"exp" of the token/],
      [await token({ sub: '' }), /names nobody/],
      [await token({}, { signedBy: other.privateKey }), /not signed with a key of the proxy/],
      [`${unsigned[0]}.${unsigned[1]}.`, /not signed as it should be/],
      [secret, /not signed as it should be/],
      ['nonsense', /not signed as it should be/],
      [`${await token({})}, ${await token({})}`, /not signed as it should be/],
    ];
    for (const [value, said] of cases) {
      const answer = await enter(value);
      assert.deepEqual([answer.status, answer.headers['set-cookie']], [403, undefined], `${said}: ${answer.text}`);
      assert.match(answer.json.error.message, said);
    }
    assert.ok(asked < 5, 'the keys are kept');
  });
});
