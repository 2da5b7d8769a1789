/**
 * Signs browsers in and out: the session cookie and its page key, one-time links, and the way from the console to a page's origin
 * (specification, "Sessions of browsers" and "Page key").
 */
import { SvcError } from '../../../protocol/errors.ts';
import { appLabel, draftLabel, ownerOfPath, type PageOwner } from '../../../protocol/http/origins.ts';
import { checkAppId, isChosenId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  enter,
  makeSignInLink,
  openEntrance,
  setSignInLength,
  showSignIn,
  showSignInLength,
  signIn,
  signOut,
} from '../../../protocol/routes/people/sign-in-rows.ts';
import type { Exchange } from '../../edge/edge.ts';
import { type Access, BEARER, unauthorized } from '../../http/access/access.ts';
import type { Session, SignIn } from '../../http/access/cookie.ts';
import { type Caller, demand } from '../../http/access/grants.ts';
import type { Place, Places } from '../../http/access/places.ts';
import { NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import { redirect } from '../../pages/pages.ts';
import type { Services } from '../../services.ts';
import { originOf, queryOf, refuse } from '../requests.ts';
import { Reply, serve, serveRaw } from '../serve-row.ts';
import { personRow } from './person-row.ts';
import { accessOf, isOwnPage, notHere, sessionOf, sessionReply } from './signing-in.ts';

/** By which a browser says that it has opened this very app before, where another one had its id. */
const SEEN = 'svc_seen';
const SEEN_SECONDS = (LIMITS.dayMs / 1000) * 365;

export function signInRoutes(services: Services): Route[] {
  const { addressOf, audit, registry, gitStore, consoleFiles } = services;
  return [
    ...serve(signIn, async ({ headers: { authorization = '' }, body: { link }, caller, exchange, place }) => {
      const access = accessOf(services);
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
      const session = sessionOf(accessOf(services), exchange, place);
      const shown =
        session === null ? { signedIn: false } : { signedIn: true, expiresAt: accessOf(services).endOf(session) };
      const kind =
        place.kind !== 'page' ? place.kind : place.label.includes('.') ? ('draft' as const) : ('app' as const);
      const { places, accounts } = accessOf(services);
      const base = places.consoleOf(place);
      const account = session === null ? undefined : accounts.people.signedIn(session.id);
      return {
        ...shown,
        place: kind,
        console: base === null ? null : `${base}/svc/`,
        people: accounts.people.all().length > 0,
        ways: waysFor(services, exchange),
        person: account === undefined ? null : personRow(accounts, account),
        guest: session !== null && accounts.links.isGuests(session),
      };
    }),
    ...serve(signOut, async ({ exchange, place }) => {
      const access = accessOf(services);
      if (!isOwnPage(exchange, place)) throw new SvcError('FORBIDDEN', 'Another page cannot sign this one out.');
      // Who has no more than the cookie ends nothing for others.
      const session = sessionOf(access, exchange, place);
      // Of a guest nothing is stored: without the cookie there is no session.
      const isGuest = session !== null && access.accounts.links.isGuests(session);
      const endsAll = !isGuest && (place.kind === 'console' || place.kind === 'shared');
      const person = session === null ? null : access.accounts.known(session.id)?.person;
      const cookies = await access.signOut(exchange, place, endsAll ? session : null);
      const who = person ? ({ kind: 'person', name: person.name } as const) : ({ kind: 'session' } as const);
      if (endsAll && session !== null) await audit.record(who, 'sign-out', person?.id ?? null);
      return new Reply({ ok: true }, { 'set-cookie': cookies, ...NO_STORE });
    }),
    ...serve(showSignInLength, () => accessOf(services).signIns.length),
    ...serve(setSignInLength, async ({ body: { hours }, caller }) => {
      const { signIns } = accessOf(services);
      await signIns.setLength(hours);
      await audit.record(caller, 'sign-in.length', null, { hours });
      return signIns.length;
    }),
    ...serve(makeSignInLink, async ({ body: { open }, caller, headers, place }) => {
      const { signIns, places } = accessOf(services);
      if (open !== undefined) ownerOfText(open);
      const { code, expiresAt } = signIns.link();
      await audit.record(caller, 'sign-in.link', open ?? null);
      const base = consoleOfGateway(services, places, place, headers.host);
      const fragment = new URLSearchParams({ link: code, ...(open === undefined ? {} : { open }) });
      return { url: `${base}/svc/#${fragment}`, expiresAt };
    }),
    ...serveRaw(openEntrance, async (exchange, _params, _caller, place) => {
      accessOf(services);
      const to = queryOf(exchange).get('to');
      if (to !== null && place.base !== null && place.kind !== 'console')
        redirect(exchange, place, `${place.base}/svc/_enter?to=${encodeURIComponent(to)}`);
      else await consoleFiles.serve(exchange, place, 'enter.html');
    }),
    ...serve(enter, async ({ body: { ticket, to }, exchange, place }) => {
      const access = accessOf(services);
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
    return ticketTo(access, place, owner, path, { id: session.id, expiresAt: session.expiresAt });
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
      const app = registry.registered().find((id) => appLabel(id) === first);
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

/** The address that enters the page of `owner`, once, at the path `to`. */
export function ticketTo(access: Access, place: Place, owner: PageOwner, to: string, signIn: SignIn): string {
  const origin = access.places.originOf(place, owner);
  const { host } = new URL(origin);
  const isGuests = access.accounts.links.isGuests(signIn);
  const ticket = access.signIns.ticket({ host, owner, to, signIn }, isGuests);
  // What follows the # reaches no server and no log.
  return `${origin}/svc/_enter#ticket=${ticket}`;
}

/** The address of the console that a link for somebody names; where there is none, where the gateway is reached. */
export function consoleOfGateway(
  { listening }: Services,
  places: Places,
  place: Place,
  host: string | undefined,
): string {
  const base = places.consoleOf(place);
  return base ?? (place.kind === 'shared' ? place.origin : originOf(host, listening()));
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

/** How people sign in, for who is not signed in: without what only the gateway may know. */
function waysFor({ accounts: { ways, proxy } }: Services, exchange: Exchange) {
  const { passwords, passkeys, providers } = ways;
  return {
    passwords,
    passkeys,
    providers: [...providers.keys()].map((name) => ({ name })),
    proxy: proxy?.names(exchange) ?? false,
  };
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

function notSignedIn(link: string | undefined): SvcError {
  const message =
    link !== undefined
      ? 'The link was already used or has expired; make another one with "svc open".'
      : 'Send the access token as "Authorization: Bearer <token>", or the code of a one-time link as "link".';
  return unauthorized(message);
}
