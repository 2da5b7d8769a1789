/** Browsers' origins without a browser: a session at one of them, and the requests that its pages could make. */
import assert from 'node:assert/strict';
import { type PageOwner, pageHost, pagePath } from '../protocol/origins.ts';
import type { Answer, CallOptions, TestGateway } from './gateway.ts';

const NAVIGATION = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };

/** A browser's session at one origin of a gateway. */
export class Origin {
  readonly host: string;
  readonly cookie: string;
  readonly #gateway: TestGateway;

  constructor(gateway: TestGateway, host: string, cookie: string) {
    this.#gateway = gateway;
    this.host = host;
    this.cookie = cookie;
  }

  /** A request of a page of this origin to itself; `headers` may say that it came from elsewhere. */
  call(method: string, path: string, { headers = {}, ...options }: Omit<CallOptions, 'token'> = {}): Promise<Answer> {
    const own = { host: this.host, cookie: this.cookie, 'sec-fetch-site': 'same-origin' };
    return this.#gateway.call(method, path, { ...options, token: null, headers: { ...own, ...headers } });
  }

  /** The user opens an address of this origin in a tab. */
  visit(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.call('GET', path, { headers: { 'sec-fetch-site': 'none', ...NAVIGATION, ...headers } });
  }
}

/** The host and port at which browsers find the console. */
export function consoleHost(gateway: TestGateway): string {
  return `svc.localhost:${new URL(gateway.url).port}`;
}

/** A browser that signed in at `host`, by default the console's. */
export async function signIn(gateway: TestGateway, host: string = consoleHost(gateway)): Promise<Origin> {
  const answer = await gateway.call('POST', '/svc/_session', { headers: { host } });
  assert.equal(answer.status, 200, answer.text);
  return new Origin(gateway, host, cookieOf(answer));
}

/** The same browser at the origin of an app or draft, by following the redirects. */
export async function enter(gateway: TestGateway, console: Origin, owner: PageOwner): Promise<Origin> {
  const host = `${pageHost(owner)}.${console.host}`;
  const stranger = new Origin(gateway, host, '');
  const away = await stranger.visit(`${pagePath(owner)}/`);
  const ticket = await console.visit(pathAt(away, console.host));
  const entered = await stranger.visit(pathAt(ticket, host));
  assert.equal(entered.status, 303, entered.text);
  return new Origin(gateway, host, cookieOf(entered));
}

/** The address to which an answer redirects a browser, which must be at `host`. */
export function pathAt(answer: Answer, host: string): string {
  assert.equal(answer.status, 303, answer.text);
  const { pathname, search, host: there } = new URL(String(answer.headers.location), `http://${host}`);
  assert.equal(there, host);
  return pathname + search;
}

function cookieOf({ headers }: Answer): string {
  return String((headers['set-cookie'] as string[])[0]).split(';')[0] as string;
}
