/**
 * Identifies the caller by the Bearer token, a token for programs or the session cookie with its page key (specification,
 * "Access token", "Tokens for programs" and "Page key").
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { Logger } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import { PAGE_KEY_HEADER, SIGNATURE_PARAMETER } from '../../../protocol/http/page-key.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { openToken } from '../../../storage/token.ts';
import type { Exchange } from '../../edge/edge.ts';
import type { Accounts } from '../../people/accounts.ts';
import { type Admits, administrator, KEYLESS, type Reach, SCRAPER, sessionCaller, tokenCaller } from './callers.ts';
import {
  cookiesFor,
  endedCookies,
  isGoodAt,
  pageKeyOf,
  type RegisteredAt,
  readCookie,
  type Session,
  type SignedCookie,
  type SignIn,
  sessionText,
} from './cookie.ts';
import type { Caller } from './grants.ts';
import { GUEST, guestCaller } from './guest.ts';
import { accountCallers } from './person.ts';
import type { Place, Places } from './places.ts';
import type { ProgramTokens } from './program-tokens.ts';
import type { SignIns } from './sign-ins.ts';
import { TokenFile } from './token-file.ts';

/** An Authorization header with a Bearer token. The token is the first group. */
export const BEARER: RegExp = /^Bearer +(\S+) *$/i;

/** What ended longer ago was not what let a request in. */
const JUST_ENDED_MS = 1000;
const METRICS_PATH = '/svc/_metrics';
const NO_TOKEN = 'Send the access token as "Authorization: Bearer <token>".';
const LEFT = 'The link by which you came here has ended. Ask whoever sent it for another one.';
const WRONG_TOKEN = 'The access token is wrong: it may have been rotated or revoked, or has expired.';

/**
 * What is made from the administrator's token. The maps have what was checked and found out before, because a signature takes
 * longer than all else that is asked about a caller: cookies by the headers that they came in, and those with which their page key
 * was shown by that key.
 */
type Credentials = {
  token: string;
  digest: Buffer;
  sessionKey: Buffer;
  cookies: Map<string, SignedCookie>;
  pages: Map<string, SignedCookie>;
  admin: Caller;
};
type AccessOptions = {
  log: Logger;
  places: Places;
  signIns: SignIns;
  programTokens: ProgramTokens;
  accounts: Accounts;
  registeredAt: RegisteredAt;
  /** The administrator's token where the host keeps it. Undefined: it is in `token.bin`. */
  token?: string | undefined;
  /** A token that may read metrics. Null: only the administrator may. */
  metricsToken?: string | null;
  /** Says whether a request is the administrator's, for a host that owns authentication. Null: the token says so. */
  admits?: Admits | null;
  now?: () => number;
};

/**
 * Identifies callers. Sessions are not stored: cookies are signed with a key made from the token, so a new token ends them all.
 * `ended`: what some callers presented has ended, so their streams and turns must end. `rotated`: the token file has a new token.
 */
export class Access extends EventEmitter<{ ended: []; rotated: [] }> {
  readonly places: Places;
  readonly signIns: SignIns;
  readonly accounts: Accounts;
  readonly #programTokens: AccessOptions['programTokens'];
  readonly #registeredAt: RegisteredAt;
  readonly #now: () => number;
  readonly #metricsDigest: Buffer | null;
  readonly #admits: Admits | null;
  #credentials: Credentials;
  /** Maps an Authorization header to the digest of its token. */
  readonly #digests = new Map<string, Buffer>();
  /** Null where the host keeps the token. */
  #file: TokenFile | null = null;
  /** The times at which something that was presented ends. `#nextEnd` is the first of them. */
  readonly #ends = new Set<number>();
  #nextEnd = Number.POSITIVE_INFINITY;
  #ending: NodeJS.Timeout | undefined;

  private constructor(
    token: string,
    {
      places,
      signIns,
      programTokens,
      accounts,
      registeredAt,
      metricsToken = null,
      admits = null,
      now = Date.now,
    }: AccessOptions,
  ) {
    super();
    this.places = places;
    this.signIns = signIns;
    this.accounts = accounts;
    this.#programTokens = programTokens;
    this.#registeredAt = registeredAt;
    this.#now = now;
    this.#admits = admits;
    this.#metricsDigest = metricsToken === null ? null : hash('sha256', metricsToken, 'buffer');
    this.#credentials = this.#credentialsOf(token);
  }

  /** Reads the token file, or creates it, unless the host gives the token. Rejects when the file is damaged. */
  static async open(path: string, options: AccessOptions): Promise<Access> {
    if (options.token !== undefined) return new Access(options.token, options);
    const token = await openToken(path);
    const access = new Access(token, options);
    access.#file = new TokenFile(path, token, options.log, (next) => {
      access.#credentials = access.#credentialsOf(next);
      access.emit('ended');
      access.emit('rotated');
    });
    return access;
  }

  /**
   * The administrator's token that is valid now. Sessions are signed with it, also where a host says who the administrator is.
   */
  get token(): string {
    return this.#credentials.token;
  }

  /**
   * The caller, or the error to answer: `UNAUTHORIZED`, or `STORAGE_UNAVAILABLE` where this node cannot know. With `isFile` the address
   * may be signed in place of the page key.
   */
  caller(exchange: Exchange, place: Place, isFile = false): Caller | SvcError {
    const caller = this.#caller(exchange, place, isFile);
    return caller instanceof SvcError && !this.accounts.isCurrent ? notCurrent() : caller;
  }

  #caller(exchange: Exchange, place: Place, isFile: boolean): Caller | SvcError {
    const authorization = exchange.header('authorization');
    if (this.#admits?.(exchange) === true) return this.#credentials.admin;
    const presented = authorization === undefined ? undefined : this.#digestOf(authorization);
    if (authorization !== undefined && presented !== undefined) {
      if (this.#admits === null && timingSafeEqual(presented, this.#credentials.digest)) return this.#credentials.admin;
      if (this.#mayScrape(exchange.path, presented)) return SCRAPER;
      const text = BEARER.exec(authorization)?.[1] ?? '';
      const found = this.#programTokens.find(text);
      if (found === undefined) return this.#connected(text, exchange.path) ?? unauthorized(WRONG_TOKEN);
      return tokenCaller(found, () => this.#programTokens.find(text) !== undefined);
    }
    return this.#byCookie(exchange, place, isFile);
  }

  #byCookie(exchange: Exchange, place: Place, isFile: boolean): Caller | SvcError {
    const cookies = cookiesOf(exchange, place);
    if (cookies === undefined) return unauthorized(NO_TOKEN);
    const time = this.#now();
    // The key is found by its hash, and its cookie compared with the whole header, many characters at once: the time that takes tells
    // nothing to whoever has only one of the two.
    const signed = this.#credentials.pages.get(exchange.header(PAGE_KEY_HEADER) ?? '');
    if (signed?.cookies === cookies && isGoodAt(signed, place, this.#registeredAt, time))
      return this.#bySession(signed, place, false, time);
    const read = this.#read(cookies, place, time);
    if (read === 'two') return unauthorized('The request carries two session cookies; sign in again.');
    if (read === null) return unauthorized(NO_TOKEN);
    return this.#bySession(read, place, !this.#isShown(exchange, place, read, isFile), time);
  }

  #bySession(signed: SignedCookie, place: Place, isKeyless: boolean, time: number): Caller | SvcError {
    if (!this.accounts.isPersons(signed.session)) return this.#byOther(signed.session, place, isKeyless);
    const callerOf = (isKeyless ? undefined : signed.callerOf) ?? this.#callersOf(signed, place, isKeyless);
    const caller = callerOf(time);
    if (caller === null) return unauthorized(NO_TOKEN);
    if (!isKeyless) this.accounts.people.used(signed.session.id, time);
    return caller;
  }

  /** What makes the callers of a person, see `accountCallers`. It is kept where the page key was shown. */
  #callersOf(signed: SignedCookie, place: Place, isKeyless: boolean): (time: number) => Caller | null {
    const credentials = this.#credentials;
    const following = this.accounts.following(signed.session);
    const now = (time?: number) => (credentials === this.#credentials ? following(time) : null);
    const callerOf = accountCallers({ now, clock: this.#now }, reachOf(signed.session, place), isKeyless);
    if (!isKeyless) signed.callerOf = callerOf;
    return callerOf;
  }

  /** The caller of a guest, or of who signed in with the machine's token. */
  #byOther(session: Session, place: Place, isKeyless: boolean): Caller | SvcError {
    const { id, expiresAt } = session;
    const credentials = this.#credentials;
    const reach = reachOf(session, place);
    const isGood = () => credentials === this.#credentials && expiresAt > this.#now();
    const { links } = this.accounts;
    if (links.isGuests(session)) {
      const now = () => (isGood() ? links.of(id) : null);
      return guestCaller(session, now, reach, isKeyless) ?? unauthorized(LEFT, GUEST);
    }
    if (this.signIns.isEnded(id)) return unauthorized(NO_TOKEN);
    return sessionCaller(reach, session, () => isGood() && !this.signIns.isEnded(id), isKeyless);
  }

  /** Whether a request presents the page key of its cookie, which is then found by that key. */
  #isShown(exchange: Exchange, place: Place, signed: SignedCookie, isFile: boolean): boolean {
    const { pages } = this.#credentials;
    signed.pageKey ??= this.pageKey(place, signed.session);
    if (!isShown(exchange, signed.pageKey, isFile)) return false;
    if (signed.cookies.length > LIMITS.signedCookieChars) return true;
    if (pages.size >= LIMITS.signedCookies) pages.clear();
    pages.set(signed.pageKey, signed);
    return true;
  }

  /** The program that somebody connected; its token is good at one address. */
  #connected(token: string, path: string): Caller | undefined {
    const found = this.accounts.connections.caller(token, path);
    if (found !== undefined) this.endStreamsAt(found.expiresAt);
    return found?.caller;
  }

  #mayScrape(path: string, presented: Buffer): boolean {
    return this.#metricsDigest !== null && path === METRICS_PATH && timingSafeEqual(presented, this.#metricsDigest);
  }

  /** The session of this origin's cookie. It is null when there is none, and `two` when there are two cookies. */
  session(exchange: Exchange, place: Place): Session | 'two' | null {
    const cookies = cookiesOf(exchange, place);
    const signed = cookies === undefined ? null : this.#read(cookies, place, this.#now());
    if (signed === null || signed === 'two') return signed;
    return this.#isEnded(signed.session) ? null : signed.session;
  }

  /** What `readCookie` finds, also where it has ended before its time. */
  #read(cookies: string, place: Place, time: number): SignedCookie | 'two' | null {
    const { sessionKey, cookies: known } = this.#credentials;
    return readCookie(cookies, place, sessionKey, known, this.#registeredAt, time);
  }

  /** When a session ends. A person's lasts longer with each use. */
  endOf({ id, expiresAt }: SignIn): number {
    const session = this.accounts.people.session(id);
    return session === undefined ? expiresAt : this.accounts.people.expiresAt(session);
  }

  #isEnded(session: SignIn): boolean {
    const { links } = this.accounts;
    if (links.isGuests(session)) return links.of(session.id) === null;
    return this.accounts.isPersons(session)
      ? this.accounts.known(session.id) === null
      : this.signIns.isEnded(session.id);
  }

  /** The page key of a session at this origin. Only its page may get it: it is never in a page, an address or a log. */
  pageKey(place: Place, session: Session): string {
    return pageKeyOf(sessionText(place, session, this.#registeredAt), place, this.#credentials.sessionKey);
  }

  /** Whether a request presents the page key of its session. */
  hasKey(exchange: Exchange, place: Place, session: Session): boolean {
    return isShown(exchange, this.pageKey(place, session), false);
  }

  /** The values of `set-cookie` headers that give this origin a session. */
  cookies(exchange: Exchange, place: Place, session: Session): string[] {
    const key = this.#credentials.sessionKey;
    return cookiesFor(place, session, isSecure(exchange), key, this.#registeredAt, this.#now());
  }

  /**
   * Ends a sign-in at every origin, for good once it resolves. Answers the `set-cookie` headers that take this origin's cookie
   * away.
   */
  async signOut(exchange: Exchange, place: Place, signIn: SignIn | null): Promise<string[]> {
    const cookies = endedCookies(place, isSecure(exchange));
    if (signIn !== null) {
      const isPersons = this.accounts.isPersons(signIn);
      const stored = isPersons ? this.accounts.end(signIn.id) : this.signIns.end(signIn);
      if (!isPersons) this.emit('ended');
      await stored;
    }
    return cookies;
  }

  /** Has the streams of a caller end at this time, when what it presented ends. */
  endStreamsAt(expiresAt: number): void {
    if (this.#ends.has(expiresAt) || expiresAt < this.#now() - JUST_ENDED_MS) return;
    this.#ends.add(expiresAt);
    if (expiresAt < this.#nextEnd) this.#awaitEnd();
  }

  #awaitEnd(): void {
    clearTimeout(this.#ending);
    const now = this.#now();
    const due = [...this.#ends].filter((end) => end <= now);
    for (const end of due) this.#ends.delete(end);
    this.#nextEnd = [...this.#ends].reduce((one, other) => Math.min(one, other), Number.POSITIVE_INFINITY);
    // The wait is short, so that a clock that was set is noticed.
    const wait = Math.min(this.#nextEnd - now, LIMITS.useNoteMs);
    if (this.#ends.size > 0) this.#ending = setTimeout(() => this.#awaitEnd(), wait).unref();
    if (due.length > 0) this.emit('ended');
  }

  #credentialsOf(token: string): Credentials {
    const credentials: Credentials = {
      token,
      digest: hash('sha256', token, 'buffer'),
      sessionKey: createHmac('sha256', token).update('svc_session').digest(),
      cookies: new Map(),
      pages: new Map(),
      admin: administrator(() => this.#credentials === credentials),
    };
    return credentials;
  }

  close(): void {
    clearTimeout(this.#ending);
    this.#file?.close();
  }

  /**
   * The digest of a presented token, remembered by the header. Its timing tells of a token only to those who know all of it.
   */
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

/** A query that ends in a signature. The groups are what is before it, and the signature. */
const SIGNED = new RegExp(`^(?:(.*)&)?${SIGNATURE_PARAMETER}=([0-9a-f]{64})$`);

/** What a session reaches at the place where it is shown. */
function reachOf({ owner }: Session, place: Place): Reach {
  return place.kind === 'console' ? 'console' : (owner ?? 'shared');
}

/** The header that may have a session; undefined where none counts. */
function cookiesOf(exchange: Exchange, place: Place): string | undefined {
  return place.kind === 'loopback' ? undefined : exchange.header('cookie');
}

/** Whether a request presents a page key: in the header, or for a file by the signature of its address. */
function isShown(exchange: Exchange, pageKey: string, isFile: boolean): boolean {
  const shown = exchange.header(PAGE_KEY_HEADER);
  if (shown !== undefined) return isEqual(shown, pageKey);
  if (!isFile) return false;
  const [, query = '', signature] = SIGNED.exec(exchange.query) ?? [];
  if (signature === undefined) return false;
  const signed = query === '' ? exchange.path : `${exchange.path}?${query}`;
  return isEqual(signature, createHmac('sha256', pageKey).update(signed).digest('hex'));
}

/** Takes as long for each text of the length that is wanted. Without a buffer, which would take longer than all else. */
function isEqual(shown: string, wanted: string): boolean {
  if (shown.length !== wanted.length) return false;
  let differs = 0;
  for (let i = 0; i < wanted.length; i++) differs |= shown.charCodeAt(i) ^ wanted.charCodeAt(i);
  return differs === 0;
}

/**
 * Whether a proxy says that the browser came by HTTPS. If that is wrong, browsers refuse the cookie; nothing else depends on
 * it.
 */
export function isSecure(exchange: Exchange): boolean {
  return exchange.header('x-forwarded-proto') === 'https';
}

function notCurrent(): SvcError {
  return new SvcError('STORAGE_UNAVAILABLE', 'This node cannot know who may do what now; try again in a moment.', {
    headers: { 'retry-after': '1' },
  });
}

export function unauthorized(message: string, path?: string): SvcError {
  const headers = { 'www-authenticate': 'Bearer' };
  return new SvcError('UNAUTHORIZED', message, path === undefined ? { headers } : { headers, path });
}

/** The answer to a session without its page key that asks for more than a page. */
export function keyless(): SvcError {
  return unauthorized(KEYLESS, PAGE_KEY_HEADER);
}
