/** A real OpenID provider on loopback, which signs in whom the test says, and a browser that goes there and comes back. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Answer, TestGateway } from './gateway.ts';
import { consoleHost, Origin } from './origins.ts';

export const CLIENT = { id: 'svc', secret: 'the secret of the gateway' } as const;
const SCOPE = 'openid email profile';
const TTL_SECONDS = 600;

export type Subject = { sub: string; name?: string; email?: string; email_verified?: boolean };

export class OpenIdProvider {
  /** Who signs in; null: who asks cancels. */
  subject: Subject | null = null;
  /** Answers in the provider's place where it answers true. */
  instead: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  /** What was asked of it. */
  readonly asked: string[] = [];
  readonly #server: Server = createServer();

  get issuer(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async listen(): Promise<void> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening');
  }

  /** Serves a gateway, at whose console the sign-in ends. */
  async serve(redirectUris: string[]): Promise<void> {
    const { default: Provider } = await quietly(() => import('oidc-provider'));
    const ttl = Object.fromEntries(
      ['AccessToken', 'AuthorizationCode', 'Grant', 'IdToken', 'Interaction', 'Session'].map((of) => [of, TTL_SECONDS]),
    );
    const provider = await quietly(
      async () =>
        new Provider(this.issuer, {
          clients: [{ client_id: CLIENT.id, client_secret: CLIENT.secret, redirect_uris: redirectUris }],
          findAccount: (_: unknown, sub: string) => ({ accountId: sub, claims: () => ({ ...this.subject, sub }) }),
          claims: { email: ['email', 'email_verified'], profile: ['name'] },
          features: { devInteractions: { enabled: false } },
          pkce: { required: () => true },
          interactions: { url: () => '/interaction' },
          cookies: { keys: ['a key of the test'] },
          ttl,
        }),
    );
    const callback = provider.callback();
    this.#server.on('request', async (request: IncomingMessage, response: ServerResponse) => {
      this.asked.push(String(request.url).split('?', 1)[0] ?? '');
      if (this.instead(request, response)) return;
      if (request.url !== '/interaction') return callback(request, response);
      if (this.subject === null) return provider.interactionFinished(request, response, { error: 'access_denied' });
      const { sub: accountId } = this.subject;
      const grant = new provider.Grant({ accountId, clientId: CLIENT.id });
      grant.addOIDCScope(SCOPE);
      const consent = { grantId: await grant.save() };
      return provider.interactionFinished(request, response, { login: { accountId }, consent });
    });
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** It warns of what only a provider for others needs. */
async function quietly<T>(work: () => Promise<T>): Promise<T> {
  const { emitWarning } = process;
  const { info, warn } = console;
  try {
    Object.assign(console, { info() {}, warn() {} });
    process.emitWarning = () => {};
    return await work();
  } finally {
    Object.assign(console, { info, warn });
    process.emitWarning = emitWarning;
  }
}

/** A browser on the way to a provider and back: the address there, and the cookie of the gateway that goes with it. */
export type Journey = { url: string; cookie: string };

/** Begins a sign-in, as the page of `origin` does. */
export async function beginAt(origin: Origin, provider: string, body: object = {}): Promise<Journey> {
  const begun = await origin.call('POST', `/svc/_auth/provider/${provider}`, { body });
  assert.equal(begun.status, 200, begun.text);
  return { url: begun.json.url, cookie: String((begun.headers['set-cookie'] as string[])[0]).split(';')[0] ?? '' };
}

/** Goes through the pages of the provider to the address at which it sends the browser back, and answers that one's query. */
export async function signInThere({ url }: Journey): Promise<string> {
  const jar = new Map<string, string>();
  let at = url;
  while (new URL(at).origin === new URL(url).origin) {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(at, { redirect: 'manual', headers: { cookie } });
    for (const one of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(one) ?? [];
      jar.set(name, value);
    }
    const location = answer.headers.get('location');
    assert.ok(location, `${at} answers ${answer.status}: ${await answer.text()}`);
    at = new URL(location, at).href;
  }
  return new URL(at).search.slice(1);
}

/** Gives the gateway what the provider sent the browser back with, as the console's page does. */
export function comeBack(
  gateway: TestGateway,
  provider: string,
  query: string,
  cookie: string,
  from?: Origin,
): Promise<Answer> {
  const cookies = [cookie, from?.cookie].filter(Boolean).join('; ');
  const browser = new Origin(gateway, consoleHost(gateway), cookies, from?.pageKey);
  return browser.call('POST', `/svc/_auth/provider/${provider}/callback`, { body: { query } });
}
