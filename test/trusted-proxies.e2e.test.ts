/**
 * Stand-ins for the proxies of docs/sign-in.md, which send what those send, before gateways with the configurations that the
 * document shows. Only addresses are other ones.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { exportJWK, type GenerateKeyPairResult, generateKeyPair, SignJWT } from 'jose';
import { makeGateway, root, TestGateway } from '../testing/gateway.ts';
import { Origin, sessionOf } from '../testing/origins.ts';

/** From where the stand-ins connect. Who connects from elsewhere is no proxy. */
const PROXY_ADDRESS = '127.0.0.9';
const TEAM = 'https://team-name.cloudflareaccess.com';
const AUDIENCE = 'the AUD tag of the application';

let key: GenerateKeyPairResult['privateKey'];
const assertion = (claims: object) => {
  const now = Math.floor(Date.now() / 1000);
  const times = { iat: now, nbf: now, exp: now + 60 };
  return new SignJWT({ iss: TEAM, aud: [AUDIENCE], type: 'app', ...times, ...claims })
    .setProtectedHeader({ alg: 'RS256', kid: 'one', typ: 'JWT' })
    .sign(key);
};

type Product = {
  name: string;
  host: string;
  /** The headers that it takes out of what a browser sends. */
  own: RegExp;
  /** Of who is signed in there, and of who is let in without being a person. */
  ada(): Promise<Record<string, string>>;
  nobody(): Promise<Record<string, string>>;
  forged: Record<string, string>;
};

const EMAIL = 'ada@example.org';
const PRODUCTS: Product[] = [
  {
    name: 'tailscale',
    host: 'box.tailnet-name.ts.net',
    own: /^tailscale-/,
    ada: async () => ({
      'tailscale-user-login': EMAIL,
      'tailscale-user-name': '=?utf-8?q?Ada_Lovelac=C3=A9?=',
      'tailscale-user-profile-pic': 'https://example.org/ada.png',
    }),
    nobody: async () => ({}),
    forged: { 'tailscale-user-login': 'eve@example.org' },
  },
  {
    name: 'cloudflare',
    host: 'apps.example.org',
    own: /^cf-access-/,
    ada: async () => ({
      'cf-access-authenticated-user-email': EMAIL,
      'cf-access-jwt-assertion': await assertion({
        ...{ sub: '7335d417-61da-459d-899c-0a01c76a2f94', email: EMAIL, country: 'US' },
        identity_nonce: '6ei69kawdKzMIAPF',
      }),
    }),
    // A service token of Access.
    nobody: async () => ({ 'cf-access-jwt-assertion': await assertion({ sub: '', common_name: 'e367.access' }) }),
    forged: { 'cf-access-authenticated-user-email': 'eve@example.org', 'cf-access-jwt-assertion': 'e30.e30.e30' },
  },
  {
    name: 'authelia',
    host: 'apps.example.org',
    own: /^remote-/,
    ada: async () => ({
      'remote-user': 'ada',
      'remote-groups': 'admins,dev',
      'remote-name': 'Ada Lovelace',
      'remote-email': EMAIL,
    }),
    // What its rules let in as a bypass.
    nobody: async () => ({ 'remote-user': '', 'remote-email': '' }),
    forged: { 'remote-email': 'eve@example.org' },
  },
  {
    name: 'oauth2-proxy',
    host: 'apps.example.org',
    own: /^x-forwarded-(?:user|groups|email|preferred-username|access-token)$/,
    ada: async () => ({
      'x-forwarded-user': '104',
      'x-forwarded-email': EMAIL,
      'x-forwarded-preferred-username': 'ada',
      'x-forwarded-groups': 'dev,ops',
    }),
    nobody: async () => ({}),
    forged: { 'x-forwarded-email': 'eve@example.org' },
  },
];

/** The configuration that the document shows for a product, with the addresses of this test. */
function configOf(name: string, jwksUrl: string) {
  const text = readFileSync(join(root, 'docs/sign-in.md'), 'utf8');
  const [, block = ''] = new RegExp(`^\`\`\`json ${name}\\.json\\n(.*?)^\`\`\``, 'ms').exec(text) ?? [];
  const config = JSON.parse(block);
  const { proxy } = config.signIn;
  Object.assign(proxy, 'from' in proxy ? { from: [PROXY_ADDRESS] } : { jwksUrl });
  return config;
}

async function listening(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('proxies that sign people in', () => {
  const ends: (() => unknown)[] = [];
  let jwksUrl: string;

  before(async () => {
    const pair = await generateKeyPair('RS256');
    key = pair.privateKey;
    const keys = [{ ...(await exportJWK(pair.publicKey)), kid: 'one', alg: 'RS256', use: 'sig' }];
    const keyServer = createServer((_asked, answer) => answer.end(JSON.stringify({ keys })));
    ends.push(() => keyServer.close());
    jwksUrl = `${await listening(keyServer)}/cdn-cgi/access/certs`;
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  for (const { name, host, own, ada, nobody, forged } of PRODUCTS)
    test(`${name}: whom it names is signed in, whatever the browser sends, and nobody around it`, async () => {
      const { gateway, remove } = makeGateway({ config: configOf(name, jwksUrl) });
      ends.push(remove);
      await gateway.start();
      let says = ada;
      const server = createServer(async (asked, answer) => {
        const kept = Object.entries(asked.headers).filter(([header]) => !own.test(header));
        const headers = { ...Object.fromEntries(kept), ...(await says()) };
        const sent = request(gateway.url + asked.url, {
          method: asked.method,
          headers: { ...headers, 'x-forwarded-for': '203.0.113.7', 'x-forwarded-proto': 'https' },
          localAddress: PROXY_ADDRESS,
        });
        sent.on('response', (answered) => {
          answer.writeHead(answered.statusCode ?? 500, answered.headers);
          answered.pipe(answer);
        });
        asked.pipe(sent);
      });
      ends.push(() => server.close());
      const through = new TestGateway(gateway.dataDir, []);
      through.url = await listening(server);
      const enter = (at: TestGateway) => new Origin(at, host, '').call('POST', '/svc/_auth/proxy', { headers: forged });

      const entered = await enter(through);
      assert.equal(entered.status, 200, entered.text);
      const { id, email, vouched, methods } = entered.json.person;
      assert.deepEqual([email, vouched, methods], [EMAIL, true, ['proxy']]);
      assert.match(String(entered.headers['set-cookie']), /; Secure/);
      const session = sessionOf(through, host, entered);
      assert.equal((await session.call('GET', '/svc/_session')).json.person.id, id);
      assert.equal((await enter(through)).json.person.id, id, 'the same person');

      says = nobody;
      for (const at of [through, gateway]) {
        const refused = await enter(at);
        assert.deepEqual([refused.status, refused.headers['set-cookie']], [403, undefined], refused.text);
      }
    });
});
