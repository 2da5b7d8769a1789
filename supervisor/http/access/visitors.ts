/**
 * Admits visitors without a token to what apps make public, and counts their calls by address (specification, "Public apps").
 */
import type { BlockList } from 'node:net';
import { isIP } from 'node:net';
import { SvcError } from '../../../protocol/errors.ts';
import { pageHost } from '../../../protocol/http/origins.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { addressesOf, bareAddress, subscriberOf } from '../../../protocol/rules/ip-addresses.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import type { Config } from '../../config.ts';
import type { Apps } from '../../dispatch/apps.ts';
import type { Exchange } from '../../edge/edge.ts';
import { BodyBudget } from '../../edge/exchange.ts';
import type { Params } from '../router.ts';
import { BEARER, unauthorized } from './access.ts';
import { isOfOtherOrigin } from './fetch-metadata.ts';
import type { Caller } from './grants.ts';
import type { Place } from './places.ts';

type PublicUse = 'reads' | 'writes';

/** The path of the files of a version, which may be an old one. */
const PINNED = '/_v/';
/** An address with a port, as some proxies write it. */
const WITH_PORT = /^(?:\[([^\]]+)\]|(\d+\.\d+\.\d+\.\d+)):\d+$/;

/** The calls of visitors at one address since `opened`. */
type Window = { opened: number; reads: number; writes: number };

type VisitorsOptions = {
  apps: Apps;
  config: Config;
  /** A clock in milliseconds that never goes back. */
  now?: () => number;
};

export class Visitors {
  /** The budget of bodies that are read before it is known whether they ask for something public. */
  readonly bodies = new BodyBudget(LIMITS.visitorBodiesBytes);
  readonly #apps: VisitorsOptions['apps'];
  readonly #limits: Record<PublicUse, number>;
  readonly #proxies: BlockList;
  readonly #now: () => number;
  /** The windows by address, in the order in which they opened. */
  readonly #windows = new Map<string, Window>();

  constructor({ apps, config: { trustedProxies, publicLimits }, now = () => performance.now() }: VisitorsOptions) {
    this.#apps = apps;
    this.#limits = { reads: 0, writes: 0, ...publicLimits };
    this.#proxies = addressesOf(trustedProxies);
    this.#now = now;
  }

  /** How many addresses are remembered. */
  get size(): number {
    return this.#windows.size;
  }

  /**
   * The visitor who makes a request without a token for this `use`. It is null where nothing is public, and for a request with
   * any token, even a wrong one. Called in the turn in which the exchange was handed over. `fromListed` is true for a page of
   * an origin in `corsOrigins`.
   */
  visitor(exchange: Exchange, place: Place, use: 'page' | 'tool', fromListed: boolean): Visitor | null {
    // A draft's origin uses nothing live, and no page runs at the console's.
    if (place.kind === 'embedded' || isOfDraft(place) || (use === 'page' && place.kind === 'console')) return null;
    if (BEARER.test(exchange.header('authorization') ?? '')) return null;
    const isForeign = !fromListed && isOfOtherOrigin(exchange, place);
    return new Visitor(this, this.addressOf(exchange), isForeign);
  }

  /** Whether the page of an app is public, as far as that is known at once. */
  mayBePublic(app: string): boolean {
    return this.#apps.mayHavePublicPage(app);
  }

  /**
   * Whether the parameters of an address name a public page or its files, of the live version and at the place where it is
   * shown.
   */
  async mayOpen({ id: app = '', '*': rest = '' }: Params, place: Place): Promise<boolean> {
    const isItsPlace = place.kind !== 'page' || pageHost({ app }) === place.label;
    return isItsPlace && !rest.startsWith(PINNED) && (await this.#apps.hasPublicPage(app));
  }

  /**
   * The address that a request came from. It is the socket's. Where that is a trusted proxy's, it is the last one in
   * `X-Forwarded-For` that is none. What a visitor wrote there stands before what proxies added, and is not looked at.
   */
  addressOf(exchange: Exchange): string {
    let address = bareAddress(exchange.remoteAddress);
    const forwarded = exchange.header('x-forwarded-for')?.split(',') ?? [];
    while (this.#isProxy(address) && forwarded.length > 0) {
      const text = forwarded.pop()?.trim() ?? '';
      const [, v6, v4] = WITH_PORT.exec(text) ?? [];
      const before = v6 ?? v4 ?? text;
      // A proxy without a readable header counts as the visitor.
      if (isIP(before) === 0) break;
      address = bareAddress(before);
    }
    return address;
  }

  /** The address as limits count it. Of IPv6 that is the network of a client. */
  clientOf(exchange: Exchange): string {
    return subscriberOf(this.addressOf(exchange));
  }

  /** Counts one more call of an address. Throws `RATE_LIMITED` when it has made as many in its window as it may. */
  count(address: string, use: PublicUse): void {
    const now = this.#now();
    const window = this.#window(subscriberOf(address), now);
    if (window[use] < this.#limits[use]) {
      window[use]++;
      return;
    }
    const seconds = Math.max(1, Math.ceil((window.opened + LIMITS.visitorWindowMs - now) / 1000));
    throw new SvcError('RATE_LIMITED', `Too many requests; try again in ${seconds} s.`, {
      headers: { 'retry-after': String(seconds) },
    });
  }

  #isProxy(address: string): boolean {
    return isIP(address) !== 0 && this.#proxies.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');
  }

  #window(key: string, now: number): Window {
    const known = this.#windows.get(key);
    if (known && now - known.opened < LIMITS.visitorWindowMs) return known;
    // An old window is opened again, so that the order stays.
    this.#windows.delete(key);
    for (const [old, { opened }] of this.#windows) {
      if (now - opened < LIMITS.visitorWindowMs && this.#windows.size < LIMITS.visitorAddresses) break;
      this.#windows.delete(old);
    }
    const window = { opened: now, reads: 0, writes: 0 };
    this.#windows.set(key, window);
    return window;
  }
}

const SHOWN: HandlerCaller = { kind: 'public' };

/** The caller without a token. It has no rights: a route that admits visitors checks whether the request is public. */
export class Visitor implements Caller {
  readonly kind = 'public';
  readonly owner = null;
  readonly client = 'public';
  readonly grants = [];
  readonly ended = false;
  readonly #visitors: Visitors;
  readonly #address: string;
  readonly #isForeign: boolean;

  /** `isForeign` is true when a page of another origin makes the browser ask. */
  constructor(visitors: Visitors, address: string, isForeign: boolean) {
    this.#visitors = visitors;
    this.#address = address;
    this.#isForeign = isForeign;
  }

  shown(): HandlerCaller {
    return SHOWN;
  }

  get identity(): string {
    return `visitor ${subscriberOf(this.#address)}`;
  }

  get bodies(): BodyBudget {
    return this.#visitors.bodies;
  }

  refusal(): string {
    return 'This is not public.';
  }

  /** Lets a call in, before a public tool runs. Throws `FORBIDDEN` for a page of another site, and `RATE_LIMITED`. */
  enter(use: PublicUse): void {
    if (this.#isForeign) {
      throw new SvcError('FORBIDDEN', 'Pages of other sites may not call this; their origin is not in corsOrigins.');
    }
    this.#visitors.count(this.#address, use);
  }
}

/** Whether a place is the origin of a draft, which has two labels. */
function isOfDraft({ kind, label }: Place): boolean {
  return kind === 'page' && label.includes('.');
}

/** The answer to a visitor for everything that is not public, whether it is there or not. */
export function notPublic(): SvcError {
  return unauthorized('Send the access token as "Authorization: Bearer <token>".');
}

/** The codes whose messages are about the request, and reveal nothing of the app or the gateway. */
const PLAIN = new Set([
  'BAD_REQUEST',
  'UNAUTHORIZED',
  'FORBIDDEN',
  'PAYLOAD_TOO_LARGE',
  'RATE_LIMITED',
  'INVALID_INPUT',
  'IDEMPOTENCY_MISMATCH',
  'CONFLICT',
]);

/** An error as a visitor gets it. The owner finds the rest in the logs. */
export function shownToVisitors(error: SvcError): SvcError {
  if (PLAIN.has(error.code)) return error;
  const { headers } = error;
  const message = error.status === 503 ? 'This is not available now; try again later.' : 'This did not work.';
  return new SvcError(error.code, message, { status: error.status, ...(headers && { headers }) });
}
