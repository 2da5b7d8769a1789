/**
 * Signs browsers in and out: the session cookie and its page key, one-time links, and the way from the console to a page's origin
 * (specification, "Sessions of browsers" and "Page key").
 */
import { SvcError } from '../../protocol/errors.ts';
import { appLabel, draftLabel, ownerOfPath, type PageOwner } from '../../protocol/http/origins.ts';
import { checkAppId, isChosenId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import {
  enter,
  makeSignInLink,
  openEntrance,
  setSignInLength,
  showSignIn,
  showSignInLength,
  signIn,
  signOut,
} from '../../protocol/routes/operations/sign-in-rows.ts';
import type { Exchange, ResponseHeaders } from '../edge/edge.ts';
import { type Access, BEARER, unauthorized } from '../http/access/access.ts';
import type { Session, SignIn } from '../http/access/cookie.ts';
import { type Caller, demand } from '../http/access/grants.ts';
import type { Place } from '../http/access/places.ts';
import { NO_STORE } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import { redirect } from '../pages/pages.ts';
import type { Services } from '../services.ts';
import { originOf, queryOf, refuse } from './requests.ts';
import { Reply, serve, serveRaw } from './serve-row.ts';

/** By which a browser says that it has opened this very app before, where another one had its id. */
const SEEN = 'svc_seen';
const SEEN_SECONDS = (LIMITS.dayMs / 1000) * 365;

export function signInRoutes(services: Services): Route[] {
  const { access: own, addressOf, audit, registry, gitStore, listening, consoleFiles } = services;
  const accessOf = (): Access => {
    if (own) return own;
    throw new SvcError('NOT_FOUND', 'The host of this gateway handles authentication; there are no sessions.');
  };
  return [
    ...serve(signIn, async ({ headers: { authorization = '' }, body: { link }, caller, exchange, place }) => {
      const access = accessOf();
      const address = addressOf(exchange);
      const hasToken = BEARER.test(authorization);
      try {
        if (hasToken) demandAdmin(access.caller(exchange, place));
        else if (link === undefined) throw notSignedIn(undefined);
        if (place.kind !== 'console' && place.kind !== 'shared') throw notHere(place);
        if (!hasToken && !access.signIns.takeLink(link ?? '')) throw notSignedIn(link);
      } catch (error) {
        await audit.refused(caller, address);
        throw error;
      }
      const begun = access.signIns.begin();
      await audit.record({ kind: 'session' }, 'sign-in', null, { address, with: hasToken ? 'token' : 'link' });
      return sessionReply(access, exchange, place, { ...begun, owner: null });
    }),
    ...serve(showSignIn, ({ exchange, place }) => {
      const session = sessionOf(accessOf(), exchange, place);
      const shown = session === null ? { signedIn: false } : { signedIn: true, expiresAt: session.expiresAt };
      const kind =
        place.kind !== 'page' ? place.kind : place.label.includes('.') ? ('draft' as const) : ('app' as const);
      const base = accessOf().places.consoleOf(place);
      return { ...shown, place: kind, console: base === null ? null : `${base}/svc/` };
    }),
    ...serve(signOut, async ({ exchange, place }) => {
      const access = accessOf();
      if (!isOwnPage(exchange, place)) throw new SvcError('FORBIDDEN', 'Another page cannot sign this one out.');
      // Who has no more than the cookie ends nothing for others.
      const session = sessionOf(access, exchange, place);
      const endsAll = place.kind === 'console' || place.kind === 'shared';
      const cookies = await access.signOut(exchange, place, endsAll ? session : null);
      if (endsAll && session !== null) await audit.record({ kind: 'session' }, 'sign-out', null);
      return new Reply({ ok: true }, { 'set-cookie': cookies, ...NO_STORE });
    }),
    ...serve(showSignInLength, () => accessOf().signIns.length),
    ...serve(setSignInLength, async ({ body: { hours }, caller }) => {
      const { signIns } = accessOf();
      await signIns.setLength(hours);
      await audit.record(caller, 'sign-in.length', null, { hours });
      return signIns.length;
    }),
    ...serve(makeSignInLink, async ({ body: { open }, caller, headers, place }) => {
      const { signIns, places } = accessOf();
      if (open !== undefined) ownerOfText(open);
      const { code, expiresAt } = signIns.link();
      await audit.record(caller, 'sign-in.link', open ?? null);
      const reached = originOf(headers.host, listening());
      const base = places.consoleOf(place) ?? (place.kind === 'shared' ? place.origin : reached);
      const fragment = new URLSearchParams({ link: code, ...(open === undefined ? {} : { open }) });
      return { url: `${base}/svc/#${fragment}`, expiresAt };
    }),
    ...serveRaw(openEntrance, async (exchange, _params, _caller, place) => {
      accessOf();
      const to = queryOf(exchange).get('to');
      if (to !== null && place.base !== null && place.kind !== 'console')
        redirect(exchange, place, `${place.base}/svc/_enter?to=${encodeURIComponent(to)}`);
      else await consoleFiles.serve(exchange, place, 'enter.html');
    }),
    ...serve(enter, async ({ body: { ticket, to }, exchange, place }) => {
      const access = accessOf();
      if (!isOwnPage(exchange, place)) throw new SvcError('FORBIDDEN', 'Another page cannot enter here.');
      if (ticket !== undefined) return useTicket(access, registry, exchange, place, ticket);
      if (to === undefined) refuse('to', 'Name the target, as "to", or send a "ticket".');
      const session = sessionOf(access, exchange, place);
      if (session === null || place.kind === 'page') throw notSignedIn(undefined);
      return { url: await wayTo(access, place, to, session) };
    }),
  ];

  /** Where a browser that is signed in here enters a page. Rejects with `BAD_REQUEST` for other addresses. */
  async function wayTo(access: Access, place: Place, to: string, session: Session): Promise<string> {
    const target = URL.canParse(to, place.origin) ? new URL(to, place.origin) : null;
    const path = target === null ? '' : `${target.pathname.replace(/^\/+/, '/')}${target.search}${target.hash}`;
    if (target !== null && target.origin === place.origin && place.kind === 'shared') return path;
    const owner = target === null ? null : await ownerOf(access, place, target);
    if (owner === null) refuse('to', 'This gateway has no page at that address.');
    const origin = access.places.originOf(place, owner);
    const { host } = new URL(origin);
    const own: SignIn = { id: session.id, expiresAt: session.expiresAt };
    const ticket = access.signIns.ticket({ host, owner, to: path, signIn: own });
    // What follows the # reaches no server and no log.
    return `${origin}/svc/_enter#ticket=${ticket}`;
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
    for (const { sessionId } of (await gitStore?.workspaces.list()) ?? []) {
      for (const app of (await gitStore?.workspaces.apps(sessionId)) ?? []) {
        if (draftLabel(sessionId, app) === first) return { app, workspace: sessionId };
      }
    }
    return null;
  }
}

/** Gives this origin a session: the cookie, and its page key for the page that asked. */
function sessionReply(
  access: Access,
  exchange: Exchange,
  place: Place,
  session: Session,
  { cookies = [], headers = {} }: { cookies?: string[]; headers?: ResponseHeaders } = {},
) {
  const answer = { ok: true, expiresAt: session.expiresAt, pageKey: access.pageKey(place, session) } as const;
  const all = [...access.cookies(exchange, place, session), ...cookies];
  return new Reply(answer, { ...headers, 'set-cookie': all, ...NO_STORE });
}

function useTicket(access: Access, registry: Services['registry'], exchange: Exchange, place: Place, text: string) {
  const ticket = access.signIns.takeTicket(text, place.host);
  if (ticket === null || place.kind !== 'page')
    throw unauthorized('The ticket was used, is too old, or is for another address; the console gives another one.');
  const { app, workspace } = ticket.owner;
  const known = `${SEEN}=${registry.registeredAt(app) ?? 0}`;
  const isFresh = workspace === undefined && registry.wasRemoved(app) && !hasCookie(exchange, known);
  // Before the first page: what another app of this id stored in the browser is not this one's.
  const fresh = {
    cookies: [`${known}; Path=/; Max-Age=${SEEN_SECONDS}; HttpOnly; SameSite=Strict`],
    headers: { 'clear-site-data': '"cache", "storage"' },
  };
  const entered = { ...ticket.signIn, owner: ticket.owner };
  const { value, headers } = sessionReply(access, exchange, place, entered, isFresh ? fresh : {});
  return new Reply({ ...value, to: ticket.to }, headers);
}

function hasCookie(exchange: Exchange, cookie: string): boolean {
  return (exchange.header('cookie') ?? '').split(';').some((one) => one.trim() === cookie);
}

/** False for writes that another origin makes the browser send. */
function isOwnPage(exchange: Exchange, place: Place): boolean {
  const site = exchange.header('sec-fetch-site');
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  const origin = exchange.header('origin');
  return origin !== undefined && new URL(place.origin).host === hostOf(origin);
}

function hostOf(origin: string): string {
  return URL.canParse(origin) ? new URL(origin).host : '';
}

/** The session whose cookie and page key a request presents. */
function sessionOf(access: Access, exchange: Exchange, place: Place): Session | null {
  const session = access.session(exchange, place);
  return session !== null && session !== 'two' && access.hasKey(exchange, place, session) ? session : null;
}

/** The page that a text such as `todos` or `_draft/s1/todos` names. Throws as ids do. */
function ownerOfText(text: string): PageOwner {
  const [, workspace, drafted] = /^_draft\/([^/]+)\/([^/]+)$/.exec(text) ?? [];
  const owner: PageOwner = workspace === undefined ? { app: text } : { app: drafted ?? '', workspace };
  checkAppId(owner.app);
  if (workspace !== undefined && !isChosenId(workspace)) {
    throw new SvcError('INVALID_ID', `The workspace id "${workspace.slice(0, 80)}" is not valid.`, { path: 'open' });
  }
  return owner;
}

/** Throws `UNAUTHORIZED` or `FORBIDDEN`: a program's token buys no session. */
function demandAdmin(caller: Caller | SvcError): void {
  if (caller instanceof SvcError) throw caller;
  if (caller.kind === 'token') {
    const { name } = caller.shown('');
    throw new SvcError(
      'FORBIDDEN',
      `This is the token of a program, “${name}”. A browser signs in with the access token, which “svc token” prints, or with a link of “svc open”.`,
    );
  }
  demand(caller, 'admin', null);
}

function notHere({ base, kind }: Place): SvcError {
  const there =
    base === null ? 'http://svc.localhost with the port of the gateway, on its own machine' : `${base}/svc/`;
  const why = kind === 'page' ? 'An app is entered from the console' : 'Browsers do not sign in at this address';
  return new SvcError('FORBIDDEN', `${why}; sign in at ${there}.`);
}

function notSignedIn(link: string | undefined): SvcError {
  const message =
    link !== undefined
      ? 'The link was already used or has expired; make another one with "svc open".'
      : 'Send the access token as "Authorization: Bearer <token>", or the code of a one-time link as "link".';
  return unauthorized(message);
}
