/**
 * Identifies the caller by the Bearer token, a token for programs or the session cookie with its page key, and decides what it may
 * do (decisions, sections 1, 11 and 19).
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import { draftKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { PageOwner } from '../../../protocol/origins.ts';
import { PAGE_KEY_HEADER, SIGNATURE_PARAMETER } from '../../../protocol/page-key.ts';
import { ADMIN_CALLER, type HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import type { Exchange } from '../../edge/edge.ts';
import {
  cookiesFor,
  endedCookies,
  pageKeyOf,
  type RegisteredAt,
  readCookie,
  type Session,
  type SignIn,
  sessionText,
} from './cookie.ts';
import { type Capability, type Grant, may } from './grants.ts';
import type { Place, Places } from './places.ts';
import type { ProgramTokens } from './program-tokens.ts';
import type { SignIns } from './sign-ins.ts';
import { TokenFile } from './token-file.ts';

/** Made for each request, or once where all requests of its kind are alike. */
export interface Caller {
  readonly kind: 'admin' | 'host' | 'session' | 'token' | 'agent' | 'public' | 'person';
  /** The app or draft whose page this is: its own address is `/` too. */
  readonly owner: PageOwner | null;
  /** The client for limits per client: the token or sign-in that it presented. */
  readonly client: string;
  /** Who it is, for what is kept longer than a sign-in: its idempotency keys are of no one else. */
  readonly identity: string;
  /** When what it presented ends, in milliseconds since the epoch; null when it does not. */
  readonly expiresAt: number | null;
  /** What it presented is good no more: its streams end, and it may do nothing. */
  readonly ended: boolean;
  /** The caller as handlers of an app or draft see it, which its key names. */
  shown(app: string): HandlerCaller;
  /** `app` is the key of a live app or of a draft (`draftKey`); null for what is about none. */
  may(capability: Capability, app: string | null): boolean;
  /** Why it may not, for the `FORBIDDEN` answer. */
  refusal(app: string | null): string;
}

const SIGNED_IN: HandlerCaller = { kind: 'session' };

/** Throws `FORBIDDEN` unless the caller may. */
export function demand(caller: Caller, capability: Capability, app: string | null): void {
  if (!caller.may(capability, app)) throw new SvcError('FORBIDDEN', caller.refusal(app));
}

const ENDED = 'What this was asked with has ended meanwhile.';

/** Has the token of `token.bin`, until another one takes its place. */
function administrator(isGood: () => boolean): Caller {
  return {
    kind: 'admin',
    shown: () => ADMIN_CALLER,
    owner: null,
    client: 'admin',
    identity: ADMIN_CALLER.kind,
    expiresAt: null,
    get ended() {
      return !isGood();
    },
    may: isGood,
    refusal: () => ENDED,
  };
}

/** May do everything where the gateway asks for no token. */
export const ADMIN: Caller = administrator(() => true);

/** The caller of an open route, for which none was looked for. */
export const NOBODY: Caller = {
  kind: 'session',
  shown: () => SIGNED_IN,
  owner: null,
  client: 'nobody',
  identity: 'nobody',
  expiresAt: null,
  ended: false,
  may: () => false,
  refusal: () => 'Sign in first.',
};

/** Has `metricsToken` of the configuration, and asks for metrics. */
const SCRAPER: Caller = { ...ADMIN, kind: 'token', shown: () => ({ kind: 'token', name: 'metrics' }) };
const METRICS_PATH = '/svc/_metrics';

/**
 * The scope of a session or token. The cookie of the console's origin reaches everything; that of a shared origin reaches all
 * apps' pages, without administration; that of a page's origin reaches its own app or draft; a program's token reaches what it
 * grants.
 */
type Reach = 'console' | 'shared' | PageOwner | Grant;

/**
 * Presented a session or a token, which can end. A request may take minutes to arrive, so each question asks anew whether it is
 * still good. A session without its page key is a cookie, which other servers on this machine get as well: it opens pages and loads
 * their files.
 */
export class ExpiringCaller implements Caller {
  readonly kind: 'session' | 'token';
  readonly owner: PageOwner | null;
  readonly expiresAt: number | null;
  /** It presented the cookie of a session, but not the page key. */
  readonly keyless: boolean;
  readonly #reach: Reach;
  readonly #shown: HandlerCaller;
  readonly #signIn: string;
  readonly #isGood: () => boolean;

  /** `signIn`: the id of the session's sign-in; empty for a token. */
  constructor(reach: Reach, expiresAt: number | null, isGood: () => boolean, signIn = '', keyless = false) {
    this.kind = isGrant(reach) ? 'token' : 'session';
    this.#shown = isGrant(reach) ? { kind: 'token', name: reach.name } : SIGNED_IN;
    this.owner = typeof reach === 'string' || isGrant(reach) ? null : reach;
    this.expiresAt = expiresAt;
    this.keyless = keyless;
    this.#reach = reach;
    this.#signIn = signIn;
    this.#isGood = isGood;
  }

  shown(): HandlerCaller {
    return this.#shown;
  }

  get client(): string {
    return isGrant(this.#reach) ? `token ${this.#reach.id}` : `session ${this.#signIn}`;
  }

  /** All sign-ins are of one person: the gateway knows no others. */
  get identity(): string {
    return isGrant(this.#reach) ? this.client : 'person';
  }

  get ended(): boolean {
    return !this.#isGood();
  }

  may(capability: Capability, app: string | null): boolean {
    const reach = this.#reach;
    if (!this.#isGood() || (this.keyless && capability !== 'page')) return false;
    if (reach === 'console') return true;
    if (isGrant(reach)) return may(reach, capability, app);
    if (capability === 'manage' || capability === 'make' || capability === 'admin') return false;
    return reach === 'shared' || app === keyOf(reach);
  }

  refusal(app: string | null): string {
    const reach = this.#reach;
    if (this.keyless) return KEYLESS;
    if (!this.#isGood() || reach === 'console') return ENDED;
    if (reach === 'shared') return SHARED;
    return isGrant(reach) ? refusalOfToken(reach) : refusalOfPage(reach, app);
  }
}

const KEYLESS =
  'The session cookie alone opens pages. A page sends its page key with each call: call svc.fetch, and show files by svc.url.';

const SHARED =
  'All apps share this address, so a browser session may not administer here. Use the access token; or open ' +
  'http://svc.localhost with the port of the gateway on its own machine, or set appDomain in the configuration: ' +
  'there each app and the console have separate addresses.';

function isGrant(reach: Reach): reach is Grant {
  return typeof reach === 'object' && 'tools' in reach;
}

function keyOf({ app, session }: PageOwner): string {
  return session === undefined ? app : draftKey(session, app);
}

function refusalOfToken({ name, apps, tools }: Grant): string {
  const which = apps === null ? 'every app' : apps.map((id) => `"${id}"`).join(', ') || 'no app';
  return `The token "${name}" may do "${tools}" with ${which}, and this needs more.`;
}

function refusalOfPage(owner: PageOwner, app: string | null): string {
  const what = owner.session === undefined ? `A page of "${owner.app}"` : `The draft of "${owner.app}"`;
  const scope = `${what} may use its own files, tools, changes and settings only.`;
  if (app === null || app === keyOf(owner) || owner.session !== undefined) return scope;
  return `${scope} To call tools of "${app.slice(0, 80)}", name it under "uses" in the app.json of "${owner.app}".`;
}

/** The question to a host, in place of the Bearer check. `app` is null for requests without one. */
export type HostNeed = { app: string | null; capability: Capability };
/** A request as a host sees it. `raw` is what the host handed over, with what its middleware put there; null where `serve` listens. */
export type HostRequest = {
  method: string;
  path: string;
  query: string;
  header(name: string): string | undefined;
  raw: IncomingMessage | null;
};
/** A host's decision, made at once: the host looks up what that takes, such as who is signed in, before it hands a request over. */
export type Authorize = (request: HostRequest, need: HostNeed) => boolean;

/** Whether a request comes with what the host itself checks, such as its own token; decided at once. */
export type Admits = (request: HostRequest) => boolean;

/** Was let through by a host's own server; `authorize` decides the rest. */
export class HostCaller implements Caller {
  readonly kind = 'host';
  readonly owner = null;
  readonly client = 'host';
  readonly identity = 'host';
  readonly expiresAt = null;
  readonly ended = false;
  readonly #request: HostRequest;
  readonly #authorize: Authorize;

  constructor(request: HostRequest, authorize: Authorize) {
    this.#request = request;
    this.#authorize = authorize;
  }

  shown(): HandlerCaller {
    return SIGNED_IN;
  }

  may(capability: Capability, app: string | null): boolean {
    return this.#authorize(this.#request, { app, capability }) === true;
  }

  refusal(): string {
    return 'The server that this gateway is part of does not allow this.';
  }
}

/** An Authorization header with a Bearer token, which is the first group. */
export const BEARER: RegExp = /^Bearer +(\S+) *$/i;

const WRONG_TOKEN = 'The access token is wrong: it may have been rotated or revoked, or has expired.';

/** `pageKeys`: what a session is and its host → its page key. */
type Credentials = {
  token: string;
  digest: Buffer;
  sessionKey: Buffer;
  pageKeys: Map<string, string>;
  admin: Caller;
};
type AccessOptions = {
  log: Pick<Logger, 'info' | 'warn'>;
  places: Places;
  signIns: SignIns;
  programTokens: Pick<ProgramTokens, 'find' | 'whenRevoked'>;
  registeredAt: RegisteredAt;
  /** The administrator's token, where the host keeps it. */
  token?: string | undefined;
  /** Null: only the administrator may read metrics. */
  metricsToken?: string | null;
  /** Who is the administrator in place of the token: a host that owns authentication. Null: the token is. */
  admits?: Admits | null;
  now?: () => number;
};

/** Where the administrator's token is kept. */
type KeptToken = Pick<TokenFile, 'token' | 'whenReplaced' | 'close'>;

/** The host's token, which stays the same while the gateway runs. */
const keptByHost = (token: string): KeptToken => ({ token, whenReplaced() {}, close() {} });

/** Sessions are not stored: cookies are signed with a key made from the token, so a new token ends them all. */
export class Access {
  readonly places: Places;
  readonly signIns: SignIns;
  readonly #file: KeptToken;
  readonly #programTokens: AccessOptions['programTokens'];
  readonly #registeredAt: RegisteredAt;
  readonly #now: () => number;
  readonly #metricsDigest: Buffer | null;
  readonly #admits: Admits | null;
  #credentials: Credentials;
  /** Authorization header → digest of its token. */
  readonly #digests = new Map<string, Buffer>();
  #onEnded: () => void = () => {};
  /** When something that was presented ends, and the first of these times. */
  readonly #ends = new Set<number>();
  #nextEnd = Number.POSITIVE_INFINITY;
  #ending: NodeJS.Timeout | undefined;

  private constructor(
    file: KeptToken,
    { places, signIns, programTokens, registeredAt, metricsToken = null, admits = null, now = Date.now }: AccessOptions,
  ) {
    this.#file = file;
    this.places = places;
    this.signIns = signIns;
    this.#programTokens = programTokens;
    programTokens.whenRevoked(() => this.#onEnded());
    this.#registeredAt = registeredAt;
    this.#now = now;
    this.#admits = admits;
    this.#metricsDigest = metricsToken === null ? null : hash('sha256', metricsToken, 'buffer');
    this.#credentials = this.#credentialsOf(file.token);
    file.whenReplaced((token) => {
      this.#credentials = this.#credentialsOf(token);
      this.#onEnded();
    });
  }

  /** Reads the token file, or creates it, unless the host gives the token. Rejects when the file is damaged. */
  static async open(path: string, options: AccessOptions): Promise<Access> {
    const { token, log } = options;
    return new Access(token === undefined ? await TokenFile.open(path, log) : keptByHost(token), options);
  }

  /** Called when what some callers presented has ended: their streams and turns must end. */
  whenEnded(call: () => void): void {
    this.#onEnded = call;
  }

  /** The administrator's token that is valid now; where a host says who that is, what sessions are signed with. */
  get token(): string {
    return this.#credentials.token;
  }

  /** The caller, or the `UNAUTHORIZED` error to answer. `isFile`: the address may be signed in place of the page key. */
  caller(exchange: Exchange, place: Place, isFile = false): Caller | SvcError {
    const authorization = exchange.header('authorization') ?? '';
    if (this.#admits?.(exchange) === true) return this.#credentials.admin;
    const presented = this.#digestOf(authorization);
    if (presented !== undefined) {
      if (this.#admits === null && timingSafeEqual(presented, this.#credentials.digest)) return this.#credentials.admin;
      if (this.#mayScrape(exchange.path, presented)) return SCRAPER;
      const text = BEARER.exec(authorization)?.[1] ?? '';
      const grant = this.#programTokens.find(text);
      if (grant === undefined) return unauthorized(WRONG_TOKEN);
      return new ExpiringCaller(grant, grant.expiresAt, () => this.#programTokens.find(text) !== undefined);
    }
    const session = this.session(exchange, place);
    if (session === 'two') return unauthorized('The request carries two session cookies; sign in again.');
    if (session === null) return unauthorized('Send the access token as "Authorization: Bearer <token>".');
    const { expiresAt, owner } = session;
    const credentials = this.#credentials;
    const isGood = () =>
      credentials === this.#credentials && expiresAt > this.#now() && !this.signIns.isEnded(session.id);
    const reach = place.kind === 'console' ? 'console' : (owner ?? 'shared');
    return new ExpiringCaller(reach, expiresAt, isGood, session.id, !this.hasKey(exchange, place, session, isFile));
  }

  #mayScrape(path: string, presented: Buffer): boolean {
    return this.#metricsDigest !== null && path === METRICS_PATH && timingSafeEqual(presented, this.#metricsDigest);
  }

  /** The session of this origin's cookie; null when there is none, `two` when there are two cookies. */
  session(exchange: Exchange, place: Place): Session | 'two' | null {
    const cookies = exchange.header('cookie');
    if (cookies === undefined || place.kind === 'loopback') return null;
    const session = readCookie(cookies, place, this.#credentials.sessionKey, this.#registeredAt, this.#now());
    return session !== null && session !== 'two' && this.signIns.isEnded(session.id) ? null : session;
  }

  /** The page key of a session at this origin, for its page alone: never in a page, an address or a log. */
  pageKey(place: Place, session: Session): string {
    const { pageKeys, sessionKey } = this.#credentials;
    const text = sessionText(place, session, this.#registeredAt);
    const name = `${text} ${place.host}`;
    let pageKey = pageKeys.get(name);
    if (pageKey === undefined) {
      if (pageKeys.size >= LIMITS.hostNames) pageKeys.clear();
      pageKey = pageKeyOf(text, place, sessionKey);
      pageKeys.set(name, pageKey);
    }
    return pageKey;
  }

  /** Whether a request presents the page key of its session: in the header, or for a file in the signature of its address. */
  hasKey(exchange: Exchange, place: Place, session: Session, isFile = false): boolean {
    const shown = exchange.header(PAGE_KEY_HEADER);
    if (shown !== undefined) return isEqual(shown, this.pageKey(place, session));
    if (!isFile) return false;
    const [, query = '', signature] = SIGNED.exec(exchange.query) ?? [];
    if (signature === undefined) return false;
    const signed = query === '' ? exchange.path : `${exchange.path}?${query}`;
    return isEqual(signature, createHmac('sha256', this.pageKey(place, session)).update(signed).digest('hex'));
  }

  /** Values of `set-cookie` headers that give this origin a session. */
  cookies(exchange: Exchange, place: Place, session: Session): string[] {
    const key = this.#credentials.sessionKey;
    return cookiesFor(place, session, isSecure(exchange), key, this.#registeredAt, this.#now());
  }

  /** Ends a sign-in at every origin, for good once it resolves. Values of `set-cookie` headers that take this origin's cookie away. */
  async signOut(exchange: Exchange, place: Place, signIn: SignIn | null): Promise<string[]> {
    const cookies = endedCookies(place, isSecure(exchange));
    if (signIn !== null) {
      const stored = this.signIns.end(signIn);
      this.#onEnded();
      await stored;
    }
    return cookies;
  }

  /** Has streams end when what this caller presented does. */
  endStreamsAt(expiresAt: number): void {
    if (this.#ends.has(expiresAt)) return;
    this.#ends.add(expiresAt);
    if (expiresAt < this.#nextEnd) this.#awaitEnd();
  }

  #awaitEnd(): void {
    clearTimeout(this.#ending);
    const now = this.#now();
    const due = [...this.#ends].filter((end) => end <= now);
    for (const end of due) this.#ends.delete(end);
    this.#nextEnd = [...this.#ends].reduce((one, other) => Math.min(one, other), Number.POSITIVE_INFINITY);
    // Not longer than this, so that a clock that was set is noticed.
    const wait = Math.min(this.#nextEnd - now, LIMITS.programTokenNoteMs);
    if (this.#ends.size > 0) this.#ending = setTimeout(() => this.#awaitEnd(), wait).unref();
    if (due.length > 0) this.#onEnded();
  }

  #credentialsOf(token: string): Credentials {
    const credentials: Credentials = {
      token,
      digest: hash('sha256', token, 'buffer'),
      sessionKey: createHmac('sha256', token).update('svc_session').digest(),
      pageKeys: new Map(),
      admin: administrator(() => this.#credentials === credentials),
    };
    return credentials;
  }

  /** Stops following the token file. */
  close(): void {
    clearTimeout(this.#ending);
    this.#file.close();
  }

  /** Remembered by the header. The time this takes says that a token was seen before only to those who know all of it. */
  #digestOf(authorization: string): Buffer | undefined {
    const known = this.#digests.get(authorization);
    if (known) return known;
    const token = BEARER.exec(authorization)?.[1];
    if (token === undefined) return undefined;
    const digest = hash('sha256', token, 'buffer');
    if (this.#digests.size >= LIMITS.tokenDigests) this.#digests.clear();
    this.#digests.set(authorization, digest);
    return digest;
  }
}

/** A query that ends in a signature: what is before it, and the signature. */
const SIGNED = new RegExp(`^(?:(.*)&)?${SIGNATURE_PARAMETER}=([0-9a-f]{64})$`);

function isEqual(shown: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(shown), Buffer.from(wanted)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/** Claimed by a proxy. If it is wrong, browsers refuse the cookie with `Secure`; nothing else depends on it. */
function isSecure(exchange: Exchange): boolean {
  return exchange.header('x-forwarded-proto') === 'https';
}

export function unauthorized(message: string, path?: string): SvcError {
  const headers = { 'www-authenticate': 'Bearer' };
  return new SvcError('UNAUTHORIZED', message, path === undefined ? { headers } : { headers, path });
}

/** For a session without its page key, where more than a page is asked for. */
export function keyless(): SvcError {
  return unauthorized(KEYLESS, PAGE_KEY_HEADER);
}
