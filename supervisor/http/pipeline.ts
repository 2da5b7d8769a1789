/**
 * Takes every request first: finds its place, route and caller, applies cross-origin rules, and answers errors in one shape.
 */
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { ownerOfPath, type PageOwner, pageHost, pagePath } from '../../protocol/http/origins.ts';
import { PAGE_KEY_HEADER } from '../../protocol/http/page-key.ts';
import { appOfKey, isAppId, isChosenId, scopeKey } from '../../protocol/ids.ts';
import { PUSH_WORKER } from '../../protocol/notice.ts';
import { subjectIn } from '../../protocol/routes/subjects.ts';
import type { AnswerMeter, Exchange, ResponseHeaders } from '../edge/edge.ts';
import { sendErrorPage } from '../pages/error-page.ts';
import { pagePolicy } from '../pages/page-policy.ts';
import { redirect } from '../pages/pages.ts';
import { challenge } from '../people/connections/resources.ts';
import type { Span } from '../tracing/span.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { stoppingError } from '../tree/actor/call-errors.ts';
import { type Access, keyless, unauthorized } from './access/access.ts';
import { type AgentTokens, agentCaller, isOfAgent } from './access/agent-tokens.ts';
import { ADMIN, type Authorize, allowedByHost, hostCaller, NOBODY } from './access/callers.ts';
import { isBorrowed, isForeign, isNavigation } from './access/fetch-metadata.ts';
import { type Caller, demand, demandAccount } from './access/grants.ts';
import { GUEST } from './access/guest.ts';
import { hostPerson, type Identify, type MakerOf, type PersonCaller, personOf } from './access/person.ts';
import { EMBEDDED, type Place, type Places } from './access/places.ts';
import type { Visitors } from './access/visitors.ts';
import { answerError, toSvcError } from './answers.ts';
import type { Match, Params, Route, Router } from './router.ts';

type PipelineOptions = {
  router: Router;
  /** Null when the embedding host owns authentication. */
  access: Access | null;
  agentTokens: AgentTokens;
  /** Null likewise: a host says itself who is let through. */
  visitors: Visitors | null;
  /** The authorization of such a host; null: it checks callers itself. */
  authorize: Authorize | null;
  /** Such a host's word on who calls; null: it gives none. */
  identify: Identify | null;
  makerOf: MakerOf;
  /** The names by which everyone is let in; null where someone checks who calls. */
  openTo: Places | null;
  corsOrigins: readonly string[];
  /** Why an app or draft, by its key, takes no requests here; null where it does, or is none. */
  refusalOf(key: string): SvcError | null;
  meter: AnswerMeter;
  /** Null where no traces are wanted. */
  tracing: Tracing | null;
  log: Logger;
};

/** Headers of the answer to a preflight request, without the methods. */
const PREFLIGHT: ResponseHeaders = {
  'access-control-allow-headers': 'authorization, content-type, idempotency-key, if-match, last-event-id, traceparent',
  'access-control-max-age': '600',
};

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

type Found = Extract<Match, { route: Route }>;

type Terms = { fromListed: boolean; isFile?: boolean };
/** `known`: the caller, where it was needed to find the route. */
type Asked = { place: Place; match: Match; known: Caller | SvcError | undefined; fromListed: boolean };

export class Pipeline {
  readonly #options: PipelineOptions;
  /** Set while the gateway stops: new requests are told to come back. */
  draining = false;

  constructor(options: PipelineOptions) {
    this.#options = options;
  }

  /** Whether a request is the gateway's: by its path, or because its Host is the origin of an app. */
  claims(path: string, host: string | undefined): boolean {
    const { router, access } = this.#options;
    // Where the host authenticates callers, it says how they sign in.
    if (router.claims(path)) return access !== null || !path.startsWith('/.well-known/');
    try {
      return access?.places.of(host).kind === 'page';
    } catch {
      return false;
    }
  }

  /** Whether nothing that a request brings says who sends it, so that it is refused wherever it is handled. */
  isStranger(exchange: Exchange): boolean {
    const { access } = this.#options;
    if (access === null || isOfAgent(exchange)) return false;
    const caller = access.caller(exchange, access.places.of(exchange.header('host')));
    return caller instanceof SvcError && caller.code === 'UNAUTHORIZED';
  }

  readonly handle = (exchange: Exchange): void => {
    const { corsOrigins, meter, tracing } = this.#options;
    exchange.meter = meter;
    exchange.begunAt = performance.now();
    if (tracing !== null) exchange.span = requestSpan(tracing, exchange);
    const cors = corsOrigins.length > 0 ? corsHeaders(exchange, corsOrigins) : null;
    if (cors !== null) exchange.addHeaders(cors);
    let place = EMBEDDED;
    try {
      if (this.draining) throw stoppingError();
      place = this.#options.access?.places.of(exchange.header('host')) ?? EMBEDDED;
      this.#handle(exchange, place, cors !== null);
    } catch (error) {
      this.#fail(exchange, place, error);
    }
  };

  #handle(exchange: Exchange, place: Place, crossOrigin: boolean): void {
    const { router } = this.#options;
    const isConsoles = place.kind === 'console' && exchange.path === PUSH_WORKER;
    if (exchange.method === 'GET' && exchange.header('service-worker') === 'script' && !isConsoles) {
      throw new SvcError('FORBIDDEN', 'Service workers are not allowed: they would outlive their version of the app.');
    }
    // Where the host name only stands in for an id, the cookie says whose files are at "/".
    const isNamed = place.kind === 'page' && place.owner === null;
    const known = isNamed ? this.#caller(exchange, place, { fromListed: crossOrigin }) : undefined;
    const path = this.#pathOf(exchange, place, known);
    const match = router.match(exchange.method, path);
    if ('route' in match) {
      exchange.routeKind = match.route.kind;
      if (exchange.span !== null) nameSpan(exchange.span, exchange.method, match);
    }
    if (exchange.method === 'OPTIONS') {
      this.#answerOptions(exchange, match, crossOrigin);
      return;
    }
    const needs = 'route' in match ? match.route.needs : match.open ? 'anyone' : 'admin';
    const caller =
      needs === 'anyone' ? NOBODY : this.#callerOf(exchange, { place, match, known, fromListed: crossOrigin });
    // Programs with a token may use any address.
    if (exchange.method === 'GET' && (caller instanceof SvcError || caller.byCookie)) {
      const elsewhere = rightPlace(exchange, place, path, match, this.#options);
      if (elsewhere !== null) {
        redirect(exchange, place, elsewhere);
        return;
      }
    }
    if (caller instanceof SvcError) {
      const isTaken = 'route' in match && this.#admit(exchange, place, match, caller, crossOrigin);
      if (!isTaken) refuse(exchange, place, match, this.#challenged(exchange, place, caller));
      return;
    }
    if (needs !== 'anyone' && caller.byCookie && isForeign(exchange, place, needs === 'page')) throw foreign();
    if ('error' in match) throw match.error;
    const { route, params } = match;
    // A page that ran at the console could do all that the console can.
    if (place.kind === 'console' && caller.byCookie && needs === 'page') throw foreign();
    if (needs === 'account') demandAccount(caller);
    else if (needs !== 'anyone' && needs !== 'route') demand(caller, needs, subjectOf(route, params));
    for (const { expiresAt } of caller.grants) if (expiresAt !== null) this.#options.access?.endStreamsAt(expiresAt);
    this.#run(exchange, place, match, caller);
  }

  #run(exchange: Exchange, place: Place, { route, params }: Found, caller: Caller): void {
    const { tracing, refusalOf } = this.#options;
    const key = dataOf(exchange, route, params);
    const refusal = key === null ? null : refusalOf(key);
    if (refusal !== null) throw refusal;
    const { span } = exchange;
    exchange.caller = caller;
    const done =
      tracing === null || span === null
        ? route.handle(exchange, params, caller, place)
        : tracing.within(span, () => route.handle(exchange, params, caller, place));
    if (done instanceof Promise) done.catch((error: unknown) => this.#fail(exchange, place, error));
  }

  /** Gives what visitors may use to a visitor; false when `refusal` is the answer. */
  #admit(exchange: Exchange, place: Place, match: Found, refusal: SvcError, fromListed: boolean): boolean {
    const { visitors } = this.#options;
    const use = match.route.visitors;
    // Its page gets the page key first: it is somebody's who has signed in.
    if (visitors === null || use === undefined || (use === 'page' && refusal.path === PAGE_KEY_HEADER)) return false;
    const visitor = visitors.visitor(exchange, place, use, fromListed);
    if (visitor === null) return false;
    // Visitors do not learn the console's address.
    const shown = { ...place, frameAncestors: EMBEDDED.frameAncestors, isPublic: true };
    if (use === 'tool') this.#run(exchange, shown, match, visitor);
    else {
      visitors
        .mayOpen(match.params, place)
        .then((isOpen) => {
          if (isOpen) this.#run(exchange, shown, match, visitor);
          else refuse(exchange, place, match, refusal);
        })
        .catch((error: unknown) => this.#fail(exchange, place, error));
    }
    return true;
  }

  /** The refusal of a program at an MCP address says where it learns how to sign in. */
  #challenged(exchange: Exchange, place: Place, refusal: SvcError): SvcError {
    const { access } = this.#options;
    if (access === null) return refusal;
    return challenge(access.places, place, exchange.path, refusal, exchange.header('authorization') !== undefined);
  }

  /** The caller of what was found: a session without its page key is refused all but pages. */
  #callerOf(exchange: Exchange, { place, match, known, fromListed }: Asked): Caller | SvcError {
    const isFile = 'route' in match && match.route.isFile === true;
    const caller = known === undefined || isFile ? this.#caller(exchange, place, { fromListed, isFile }) : known;
    return isKeyless(caller) && 'route' in match && match.route.needs !== 'page' ? keyless() : caller;
  }

  /** `fromListed`: a page sent it whose origin the configuration names. */
  #caller(exchange: Exchange, place: Place, { fromListed, isFile = false }: Terms): Caller | SvcError {
    const { access, authorize, identify, agentTokens, openTo } = this.#options;
    if (access === null) {
      // Where a host owns authentication, what an agent may do is still ours to decide.
      const agent = agentCaller(exchange, agentTokens);
      if (agent !== null) return agent;
      const person = identify === null ? null : this.#person(exchange, identify, fromListed);
      if (person !== null) return person;
      if (authorize !== null) return hostCaller(allowedByHost(authorize, exchange));
      if (identify !== null) return unauthorized(UNKNOWN_PERSON);
      if (openTo !== null && isBorrowed(exchange, openTo.of(exchange.header('host'))) && !fromListed)
        throw borrowed('asks its callers for nothing');
      return ADMIN;
    }
    const caller = access.caller(exchange, place, isFile);
    return caller instanceof SvcError ? (agentCaller(exchange, agentTokens) ?? caller) : caller;
  }

  /** The person whom the host names; null for nobody. Throws `INTERNAL` for what is no answer, and `FORBIDDEN` for another site. */
  #person(exchange: Exchange, identify: Identify, fromListed: boolean): PersonCaller | null {
    const { authorize, openTo, makerOf, log } = this.#options;
    let person: ReturnType<typeof personOf>;
    try {
      person = personOf(identify(exchange));
    } catch (error) {
      log.error({ err: error }, 'The host could not say who makes a request, which is refused.');
      if (error instanceof SvcError && error.code === 'INTERNAL') throw error;
      throw new SvcError('INTERNAL', '"identify" of this server failed: its log and the log of the gateway say why.');
    }
    if (person === null) return null;
    // A browser sends what the host knows people by with requests of other sites, too.
    const here = { ...EMBEDDED, host: exchange.header('host') ?? '' };
    if (openTo !== null && isBorrowed(exchange, here) && !fromListed)
      throw borrowed('knows its callers by their browser');
    return hostPerson(person, makerOf, authorize === null ? undefined : allowedByHost(authorize, exchange));
  }

  /** The path of the route: at a page's own origin, its files are at `/` as well. */
  #pathOf(exchange: Exchange, place: Place, known: Caller | SvcError | undefined): string {
    if (place.kind !== 'page' || this.#options.router.claims(exchange.path)) return exchange.path;
    const owner = place.owner ?? (known === undefined || known instanceof SvcError ? null : known.owner);
    return owner === null ? exchange.path : pagePath(owner) + exchange.path;
  }

  #fail(exchange: Exchange, place: Place, error: unknown): void {
    if (isNavigation(exchange)) {
      sendErrorPage(exchange, place, toSvcError(error, this.#options.log));
      return;
    }
    const isPage = place.kind === 'page' || ownerOfPath(exchange.path) !== null;
    answerError(exchange, error, this.#options.log, isPage ? pagePolicy(place) : {});
  }

  #answerOptions(exchange: Exchange, match: Match, crossOrigin: boolean): void {
    const allow = 'error' in match ? match.error.headers?.allow : undefined;
    if (allow === undefined)
      throw 'error' in match ? match.error : new SvcError('NOT_FOUND', 'Nothing is served at this address.');
    exchange.send(204, { allow, ...(crossOrigin ? { ...PREFLIGHT, 'access-control-allow-methods': allow } : {}) }, '');
  }
}

/** The name and attributes follow the semantic conventions of OpenTelemetry; addresses may hold secrets and are left out. */
function requestSpan(tracing: Tracing, exchange: Exchange): Span {
  const method = METHODS.has(exchange.method) ? exchange.method : '_OTHER';
  const span = tracing.start(method === '_OTHER' ? 'HTTP' : method, 'server', exchange.header('traceparent'), true);
  span.set('http.request.method', method);
  return span;
}

function nameSpan(span: Span, method: string, { route, params }: Found): void {
  const subject = subjectOf(route, params);
  span.name = `${method} ${route.path}`;
  span.set('http.route', route.path);
  if (subject !== null) span.set('svc.app', appOfKey(subject));
}

/**
 * For the origins that the configuration names; null for others, which may not read the answer (specification,
 * "Requests of other sites").
 */
function corsHeaders(exchange: Exchange, origins: readonly string[]): ResponseHeaders | null {
  const origin = exchange.header('origin');
  if (origin === undefined || !origins.includes(origin)) return null;
  return {
    'access-control-allow-origin': origin,
    vary: 'origin',
    'access-control-expose-headers': 'server-timing, idempotency-replayed, etag, log-cursor',
  };
}

/** Whose page or file is asked for, however its address is written; null when it is none. */
function ownerOf(match: Match): PageOwner | null {
  if (!('route' in match) || match.route.needs !== 'page') return null;
  const { id = '', sid } = match.params;
  if (!isAppId(id)) return null;
  return sid === undefined ? { app: id } : isChosenId(sid) ? { app: id, workspace: sid } : null;
}

/** The key of the app or draft whose data a request is about, by its address; null where that names none. */
function dataOf({ query }: Exchange, { path, about }: Route, params: Params): string | null {
  if (about === undefined) return null;
  const named = subjectIn(about, (place, name) => {
    if (place === 'path') return params[name];
    return place === 'query' ? new URLSearchParams(query).get(name) : null;
  });
  if (named === null) return null;
  return scopeKey(named.id, path.startsWith('/svc/_draft/') ? params.sid : undefined);
}

/** The app or draft that a route's address names; null where it names none. */
function subjectOf({ path, needs }: Route, { app, id, sid }: Params): string | null {
  if (needs === 'admin') return null;
  const named = app ?? id ?? null;
  return named === null ? null : scopeKey(named, path.startsWith('/svc/_draft/') ? sid : undefined);
}

function isKeyless(caller: Caller | SvcError): boolean {
  return !(caller instanceof SvcError) && caller.keyless === true;
}

/** Answers who has no session or token: with an error, or in a browser with the way to sign in. Throws the error. */
function refuse(exchange: Exchange, place: Place, match: Match, refusal: SvcError): void {
  // What is no page cannot be opened by its address, with a session or without.
  const isPage = !('route' in match) || match.route.needs === 'page';
  if (isPage && refusal.path === GUEST && isNavigation(exchange)) throw new SvcError('LINK_ENDED', refusal.message);
  const toSignIn =
    isPage && refusal.status === 401 && isNavigation(exchange) ? signInAddress(exchange, place, ownerOf(match)) : null;
  if (toSignIn === null) throw refusal;
  redirect(exchange, place, toSignIn);
}

function foreign(): SvcError {
  return new SvcError(
    'FORBIDDEN',
    'The session cookie is accepted only from pages of its origin; use the access token.',
  );
}

const UNKNOWN_PERSON = 'Sign in first: the server that this gateway is part of does not know who makes this request.';

function borrowed(why: string): SvcError {
  return new SvcError(
    'FORBIDDEN',
    `Another site made this request, and this gateway ${why}. To let pages of that site in, add its origin to corsOrigins.`,
  );
}

/** Where a browser should have gone instead, null where it is right: pages are shown at their own origins only. */
function rightPlace(
  exchange: Exchange,
  place: Place,
  path: string,
  match: Match,
  { access, visitors }: PipelineOptions,
): string | null {
  if (place.kind === 'shared' && path === '/' && isNavigation(exchange)) return '/svc/';
  if (place.base === null) return null;
  const query = queryText(exchange);
  if (place.kind === 'loopback') return isNavigation(exchange) ? `${place.base}${exchange.path}${query}` : null;
  const owner = ownerOf(match);
  if (place.kind === 'console') {
    if (path === '/') return '/svc/';
    const session = access?.session(exchange, place) ?? null;
    if (owner === null || (!isNavigation(exchange) && session === null)) return null;
    const address = `${access?.places.originOf(place, owner)}${path}${query}`;
    // Through a ticket if the page may be public: such a page does not ask to sign in.
    const mayEnter = isNavigation(exchange) && session !== null && session !== 'two';
    return mayEnter && owner.workspace === undefined && visitors?.mayBePublic(owner.app)
      ? `/svc/_enter?to=${encodeURIComponent(address)}`
      : address;
  }
  if (place.kind !== 'page' || !isNavigation(exchange)) return null;
  if (path === '/svc' || path === '/svc/') return `${place.base}/svc/`;
  if (owner === null || pageHost(owner) === place.label) return null;
  return `${access?.places.originOf(place, owner)}${path}${query}`;
}

/** Where a browser without a session signs in before it comes back to this page; null where the answer is an error. */
function signInAddress(exchange: Exchange, place: Place, owner: PageOwner | null): string | null {
  if (place.kind !== 'page' && owner === null) return null;
  const address = encodeURIComponent(`${place.origin}${exchange.path}${queryText(exchange)}`);
  if (place.kind === 'shared') return `/svc/#enter=${address}`;
  return place.kind === 'page' ? `${place.base}/svc/_enter?to=${address}` : null;
}

function queryText({ query }: Exchange): string {
  return query === '' ? '' : `?${query}`;
}
