/**
 * Signs browsers in and out: the session cookie, one-time links, and redirects from the console to a page's origin (decisions,
 * section 11).
 */
import { SvcError } from '../../protocol/errors.ts';
import { checkAppId, isSessionId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { appLabel, draftLabel, ownerOfPath, type PageOwner } from '../../protocol/origins.ts';
import type { Exchange } from '../edge/edge.ts';
import { type Access, BEARER, type Caller, demand, unauthorized } from '../http/access/access.ts';
import type { Session, SignIn } from '../http/access/cookie.ts';
import { isNavigation } from '../http/access/fetch-metadata.ts';
import type { Place } from '../http/access/places.ts';
import { answerJson, NO_STORE } from '../http/answers.ts';
import { type Route, route } from '../http/router.ts';
import { redirect } from '../pages/pages.ts';
import type { Services } from '../services.ts';
import { optionalText, originOf, queryOf, readJson, refuse } from './requests.ts';

/** By which a browser says that it has opened this very app before, where another one had its id. */
const SEEN = 'svc_seen';
const SEEN_SECONDS = (LIMITS.dayMs / 1000) * 365;

export function signInRoutes({ access: own, registry, gitStore, listening }: Services): Route[] {
  const accessOf = (): Access => {
    if (own) return own;
    throw new SvcError('NOT_FOUND', 'The host of this gateway handles authentication; there are no sessions.');
  };
  return [
    route('POST', '/svc/_session', 'anyone', async (exchange, _params, _caller, place) => {
      const access = accessOf();
      const hasToken = BEARER.test(exchange.header('authorization') ?? '');
      if (hasToken) demandAdmin(access.caller(exchange, place));
      const { link } = await readJson(exchange);
      if (!hasToken && typeof link !== 'string') throw notSignedIn(link);
      if (place.kind !== 'console' && place.kind !== 'shared') throw notHere(place);
      if (!hasToken && !access.signIns.takeLink(String(link))) throw notSignedIn(link);
      const signIn = access.signIns.begin();
      const cookies = access.cookies(exchange, place, { ...signIn, owner: null });
      answerJson(exchange, 200, { ok: true, expiresAt: signIn.expiresAt }, { 'set-cookie': cookies, ...NO_STORE });
    }),
    route('GET', '/svc/_session', 'anyone', (exchange, _params, _caller, place) => {
      const session = sessionOf(accessOf(), exchange, place);
      const shown = session === null ? { signedIn: false } : { signedIn: true, expiresAt: session.expiresAt };
      const kind = place.kind !== 'page' ? place.kind : place.label.includes('.') ? 'draft' : 'app';
      const base = accessOf().places.consoleOf(place);
      const consoleUrl = base === null ? null : `${base}/svc/`;
      answerJson(exchange, 200, { ...shown, place: kind, console: consoleUrl }, NO_STORE);
    }),
    route('DELETE', '/svc/_session', 'anyone', async (exchange, _params, _caller, place) => {
      const access = accessOf();
      if (!isOwnPage(exchange, place)) throw new SvcError('FORBIDDEN', 'Another page cannot sign this one out.');
      const session = sessionOf(access, exchange, place);
      const endsAll = place.kind === 'console' || place.kind === 'shared';
      const cookies = await access.signOut(exchange, place, endsAll ? session : null);
      answerJson(exchange, 200, { ok: true }, { 'set-cookie': cookies, ...NO_STORE });
    }),
    route('POST', '/svc/_session/links', 'admin', async (exchange, _params, _caller, place) => {
      const { signIns, places } = accessOf();
      const reached = originOf(exchange, listening());
      const open = optionalText(await readJson(exchange), 'open');
      if (open !== undefined) ownerOfText(open);
      const { code, expiresAt } = signIns.link();
      const base = places.consoleOf(place) ?? (place.kind === 'shared' ? place.origin : reached);
      const fragment = new URLSearchParams({ link: code, ...(open === undefined ? {} : { open }) });
      answerJson(exchange, 201, { url: `${base}/svc/#${fragment}`, expiresAt }, NO_STORE);
    }),
    route('GET', '/svc/_enter', 'anyone', async (exchange, _params, _caller, place) => {
      const access = accessOf();
      const query = queryOf(exchange);
      const ticket = query.get('ticket');
      if (ticket !== null) {
        useTicket(access, registry, exchange, place, ticket);
        return;
      }
      const to = query.get('to');
      if (to === null) refuse('to', 'Name the target: ?to=<address>.');
      if (place.base !== null && place.kind !== 'console') {
        redirect(exchange, place, `${place.base}/svc/_enter?to=${encodeURIComponent(to)}`);
        return;
      }
      const session = isOwnPage(exchange, place) ? sessionOf(access, exchange, place) : null;
      if (session === null) {
        redirect(exchange, place, `/svc/#enter=${encodeURIComponent(to)}`);
        return;
      }
      await goOn(access, exchange, place, to, session);
    }),
  ];

  /** Sends a browser that is signed in here to a page. Rejects with `BAD_REQUEST` for other addresses. */
  async function goOn(access: Access, exchange: Exchange, place: Place, to: string, session: Session): Promise<void> {
    const target = URL.canParse(to, place.origin) ? new URL(to, place.origin) : null;
    const path = target === null ? '' : `${target.pathname.replace(/^\/+/, '/')}${target.search}${target.hash}`;
    if (target !== null && target.origin === place.origin && place.kind === 'shared') {
      redirect(exchange, place, path);
      return;
    }
    const owner = target === null ? null : await ownerOf(access, place, target);
    if (owner === null) refuse('to', 'This gateway has no page at that address.');
    const origin = access.places.originOf(place, owner);
    const { host } = new URL(origin);
    const signIn: SignIn = { id: session.id, expiresAt: session.expiresAt };
    const ticket = access.signIns.ticket({ host, owner, to: path, signIn });
    redirect(exchange, place, `${origin}/svc/_enter?ticket=${ticket}`);
  }

  /** Whose page an address is; null when it is no page. */
  async function ownerOf(access: Access, place: Place, target: URL): Promise<PageOwner | null> {
    if (target.origin === place.origin) return ownerOfPath(target.pathname);
    let there: Place;
    try {
      there = access.places.of(target.host);
    } catch {
      return null;
    }
    if (there.kind !== 'page' || there.base !== place.base || there.origin !== target.origin) return null;
    return there.owner ?? (await ownerOfLabel(there.label));
  }

  /** The app or draft that a label stands in for. */
  async function ownerOfLabel(label: string): Promise<PageOwner | null> {
    const [first = '', isDraft] = label.split('.');
    if (isDraft === undefined) {
      const app = registry.ids().find((id) => appLabel(id) === first);
      return app === undefined ? null : { app };
    }
    for (const { sessionId } of (await gitStore?.sessions.list()) ?? []) {
      for (const app of (await gitStore?.sessions.apps(sessionId)) ?? []) {
        if (draftLabel(sessionId, app) === first) return { app, session: sessionId };
      }
    }
    return null;
  }
}

function useTicket(
  access: Access,
  registry: Services['registry'],
  exchange: Exchange,
  place: Place,
  text: string,
): void {
  const ticket = access.signIns.takeTicket(text, place.host);
  if (ticket === null || place.kind !== 'page') {
    // The user went back to the address: the console makes another ticket.
    if (place.base === null || place.kind !== 'page') throw notSignedIn(text);
    redirect(exchange, place, `${place.base}/svc/_enter?to=${encodeURIComponent(`${place.origin}/`)}`);
    return;
  }
  const cookies = access.cookies(exchange, place, { ...ticket.signIn, owner: ticket.owner });
  const { app, session } = ticket.owner;
  const known = `${SEEN}=${registry.registeredAt(app) ?? 0}`;
  const isFresh = session === undefined && registry.wasRemoved(app) && !hasCookie(exchange, known);
  redirect(exchange, place, ticket.to, {
    'set-cookie': isFresh
      ? [...cookies, `${known}; Path=/; Max-Age=${SEEN_SECONDS}; HttpOnly; SameSite=Strict`]
      : cookies,
    // Before the first page: what another app of this id stored in the browser is not this one's.
    ...(isFresh ? { 'clear-site-data': '"cache", "storage"' } : {}),
  });
}

function hasCookie(exchange: Exchange, cookie: string): boolean {
  return (exchange.header('cookie') ?? '').split(';').some((one) => one.trim() === cookie);
}

/** False for requests that another origin makes the browser send, unless it opens a whole page. */
function isOwnPage(exchange: Exchange, place: Place): boolean {
  const site = exchange.header('sec-fetch-site');
  if (site !== undefined) return site === 'same-origin' || site === 'none' || isNavigation(exchange);
  const origin = exchange.header('origin');
  return origin === undefined ? exchange.method === 'GET' : new URL(place.origin).host === hostOf(origin);
}

function hostOf(origin: string): string {
  return URL.canParse(origin) ? new URL(origin).host : '';
}

function sessionOf(access: Access, exchange: Exchange, place: Place): Session | null {
  const session = access.session(exchange, place);
  return session === 'two' ? null : session;
}

/** The page that a text such as `todos` or `_draft/s1/todos` names. Throws as ids do. */
function ownerOfText(text: string): PageOwner {
  const [, session, drafted] = /^_draft\/([^/]+)\/([^/]+)$/.exec(text) ?? [];
  const owner: PageOwner = session === undefined ? { app: text } : { app: drafted ?? '', session };
  checkAppId(owner.app);
  if (session !== undefined && !isSessionId(session)) {
    throw new SvcError('INVALID_ID', `The session id "${session.slice(0, 80)}" is not valid.`, { path: 'open' });
  }
  return owner;
}

/** Throws `UNAUTHORIZED` or `FORBIDDEN`: a program's token buys no session. */
function demandAdmin(caller: Caller | SvcError): void {
  if (caller instanceof SvcError) throw caller;
  demand(caller, 'admin', null);
}

function notHere({ base, kind }: Place): SvcError {
  const there =
    base === null ? 'http://svc.localhost with the port of the gateway, on its own machine' : `${base}/svc/`;
  const why = kind === 'page' ? 'An app is entered from the console' : 'Browsers do not sign in at this address';
  return new SvcError('FORBIDDEN', `${why}; sign in at ${there}.`);
}

function notSignedIn(link: unknown): SvcError {
  const message =
    typeof link === 'string'
      ? 'The link was already used or has expired; make another one with "svc open".'
      : 'Send the access token as "Authorization: Bearer <token>", or the code of a one-time link as "link".';
  return unauthorized(message);
}
