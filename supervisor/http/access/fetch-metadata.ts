/**
 * Reads from a browser's headers how it came to make a request: by a navigation, and from which origin (specification,
 * "Requests of other sites"). Pure.
 */
import type { Exchange } from '../../edge/edge.ts';
import { BEARER } from './access.ts';
import type { Place } from './places.ts';

/**
 * Whether a person opens a page with this request, in a tab or a frame. Programs do not send these headers. Old browsers only
 * say that they take HTML.
 */
export function isNavigation(exchange: Exchange): boolean {
  if (exchange.method !== 'GET' || BEARER.test(exchange.header('authorization') ?? '')) return false;
  const mode = exchange.header('sec-fetch-mode');
  return mode === undefined ? (exchange.header('accept') ?? '').startsWith('text/html') : mode === 'navigate';
}

/**
 * Whether a request that carries a cookie was made by another origin, which may not use it. `SameSite=Strict` keeps the cookie
 * from other sites, but apps, drafts and the console are one site, and so is another port of the same host.
 *
 * `Sec-Fetch-Site` cannot be set by a page. Browsers leave it out where the connection is not trustworthy (plain HTTP to
 * another machine). `Origin` then decides: browsers send it with every write and with every cross-origin read by a script.
 * Another origin may cause one thing, a navigation that reads. It is of a whole tab, or of a frame when it leads to a page,
 * whose policy says who may frame it. The origin that caused it cannot read the answer.
 */
export function isForeign(exchange: Exchange, place: Place, isPage: boolean): boolean {
  const reads = exchange.method === 'GET' || exchange.method === 'HEAD' || exchange.method === 'OPTIONS';
  const site = exchange.header('sec-fetch-site');
  if (site === 'same-origin') return false;
  if (site !== undefined) {
    if (!reads) return true;
    if (site === 'none') return false;
    if (exchange.header('sec-fetch-mode') !== 'navigate') return true;
    return !isPage && exchange.header('sec-fetch-dest') !== 'document';
  }
  const origin = exchange.header('origin');
  if (origin === undefined) return !reads;
  return isElsewhere(origin, place);
}

/** Whether a browser reports that a page of another origin sent this request, which has no cookie. Programs report nothing. */
export function isOfOtherOrigin(exchange: Exchange, place: Place): boolean {
  const site = exchange.header('sec-fetch-site');
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  const origin = exchange.header('origin');
  return origin !== undefined && isElsewhere(origin, place);
}

/**
 * Whether another origin has a browser ask a gateway that lets everyone in. Opening a page in a tab does not count: the other
 * origin cannot read that answer. Programs report nothing.
 */
export function isBorrowed(exchange: Exchange, place: Place): boolean {
  const opensTab = isNavigation(exchange) && exchange.header('sec-fetch-dest') === 'document';
  return !opensTab && isOfOtherOrigin(exchange, place);
}

function isElsewhere(origin: string, { host }: Place): boolean {
  return origin !== `http://${host}` && origin !== `https://${host}`;
}
