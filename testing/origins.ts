/** Browsers' origins without a browser: a session at one of them, and the requests that its pages could make. */
import assert from 'node:assert/strict';
import { type PageOwner, pageHost, pagePath } from '../protocol/http/origins.ts';
import { PAGE_KEY_HEADER } from '../protocol/http/page-key.ts';
import type { Answer, CallOptions, TestGateway } from './gateway.ts';

const NAVIGATION = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };

/** A browser's session at one origin of a gateway: its cookie, and the page key that its pages keep. */
export class Origin {
  readonly host: string;
  readonly cookie: string;
  readonly pageKey: string;
  readonly #gateway: TestGateway;

  /** Without a page key it is what another server on the machine gets of the browser. */
  constructor(gateway: TestGateway, host: string, cookie: string, pageKey = '') {
    this.#gateway = gateway;
    this.host = host;
    this.cookie = cookie;
    this.pageKey = pageKey;
  }

  /** What a page of this origin sends with each request to itself. */
  get headers(): Record<string, string> {
    const key: Record<string, string> = this.pageKey === '' ? {} : { [PAGE_KEY_HEADER]: this.pageKey };
    return { host: this.host, cookie: this.cookie, 'sec-fetch-site': 'same-origin', ...key };
  }

  /** A request of a page of this origin to itself; `headers` may say that it came from elsewhere. */
  call(method: string, path: string, { headers = {}, ...options }: Omit<CallOptions, 'token'> = {}): Promise<Answer> {
    return this.#gateway.call(method, path, { ...options, token: null, headers: { ...this.headers, ...headers } });
  }

  /** The user opens an address of this origin in a tab, which sends the cookie alone. */
  visit(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    const browser = { host: this.host, cookie: this.cookie, 'sec-fetch-site': 'none', ...NAVIGATION };
    return this.#gateway.call('GET', path, { token: null, headers: { ...browser, ...headers } });
  }

  /** The console's page asks for the way to another page: its address, with a ticket. */
  wayTo(to: string): Promise<Answer> {
    return this.call('POST', '/svc/_enter', { body: { to } });
  }

  /** Gives the ticket of such an address for a session at this origin. */
  enter(way: Answer): Promise<Answer> {
    assert.equal(way.status, 200, way.text);
    const { host, pathname, hash } = new URL(way.json.url);
    assert.deepEqual([host, pathname], [this.host, '/svc/_enter']);
    const ticket = new URLSearchParams(hash.slice(1)).get('ticket');
    return this.call('POST', '/svc/_enter', { body: { ticket } });
  }
}

/** The host and port at which browsers find the console. */
export function consoleHost(gateway: TestGateway): string {
  return `svc.localhost:${new URL(gateway.url).port}`;
}

/** A browser that signed in at `host`, by default the console's. */
export async function signIn(gateway: TestGateway, host: string = consoleHost(gateway)): Promise<Origin> {
  return sessionOf(gateway, host, await gateway.call('POST', '/svc/_session', { headers: { host } }));
}

/** The same browser at the origin of an app or draft, by the way from the console. */
export async function enter(gateway: TestGateway, console: Origin, owner: PageOwner): Promise<Origin> {
  const host = `${pageHost(owner)}.${console.host}`;
  const way = await console.wayTo(`http://${host}${pagePath(owner)}/`);
  return sessionOf(gateway, host, await new Origin(gateway, host, '').enter(way));
}

/** The session that an answer gave the browser at `host`. */
export function sessionOf(gateway: TestGateway, host: string, answer: Answer): Origin {
  assert.equal(answer.status, 200, answer.text);
  const cookie = String((answer.headers['set-cookie'] as string[])[0]).split(';')[0] as string;
  return new Origin(gateway, host, cookie, answer.json.pageKey);
}

/** The address to which an answer redirects a browser, which must be at `host`. */
export function pathAt(answer: Answer, host: string): string {
  assert.equal(answer.status, 303, answer.text);
  const { pathname, search, host: there } = new URL(String(answer.headers.location), `http://${host}`);
  assert.equal(there, host);
  return pathname + search;
}
