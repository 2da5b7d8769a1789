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
import { type Admits, administrator, KEYLESS, SCRAPER, sessionCaller, tokenCaller } from './callers.ts';
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
import type { Caller } from './grants.ts';
import type { Place, Places } from './places.ts';
import type { ProgramTokens } from './program-tokens.ts';
import type { SignIns } from './sign-ins.ts';
import { TokenFile } from './token-file.ts';

/** An Authorization header with a Bearer token. The token is the first group. */
export const BEARER: RegExp = /^Bearer +(\S+) *$/i;

const METRICS_PATH = '/svc/_metrics';
const WRONG_TOKEN = 'The access token is wrong: it may have been rotated or revoked, or has expired.';

/** What is made from the administrator's token. `pageKeys` maps the text of a session, with its host, to its page key. */
type Credentials = {
  token: string;
  digest: Buffer;
  sessionKey: Buffer;
  pageKeys: Map<string, string>;
  admin: Caller;
};
type AccessOptions = {
  log: Logger;
  places: Places;
  signIns: SignIns;
  programTokens: ProgramTokens;
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
    { places, signIns, programTokens, registeredAt, metricsToken = null, admits = null, now = Date.now }: AccessOptions,
  ) {
    super();
    this.places = places;
    this.signIns = signIns;
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

  /** The caller, or the `UNAUTHORIZED` error to answer. With `isFile` the address may be signed in place of the page key. */
  caller(exchange: Exchange, place: Place, isFile = false): Caller | SvcError {
    const authorization = exchange.header('authorization') ?? '';
    if (this.#admits?.(exchange) === true) return this.#credentials.admin;
    const presented = this.#digestOf(authorization);
    if (presented !== undefined) {
      if (this.#admits === null && timingSafeEqual(presented, this.#credentials.digest)) return this.#credentials.admin;
      if (this.#mayScrape(exchange.path, presented)) return SCRAPER;
      const text = BEARER.exec(authorization)?.[1] ?? '';
      const found = this.#programTokens.find(text);
      if (found === undefined) return unauthorized(WRONG_TOKEN);
      return tokenCaller(found, () => this.#programTokens.find(text) !== undefined);
    }
    const session = this.session(exchange, place);
    if (session === 'two') return unauthorized('The request carries two session cookies; sign in again.');
    if (session === null) return unauthorized('Send the access token as "Authorization: Bearer <token>".');
    const { expiresAt } = session;
    const credentials = this.#credentials;
    const isGood = () =>
      credentials === this.#credentials && expiresAt > this.#now() && !this.signIns.isEnded(session.id);
    const reach = place.kind === 'console' ? 'console' : (session.owner ?? 'shared');
    return sessionCaller(reach, session, isGood, !this.hasKey(exchange, place, session, isFile));
  }

  #mayScrape(path: string, presented: Buffer): boolean {
    return this.#metricsDigest !== null && path === METRICS_PATH && timingSafeEqual(presented, this.#metricsDigest);
  }

  /** The session of this origin's cookie. It is null when there is none, and `two` when there are two cookies. */
  session(exchange: Exchange, place: Place): Session | 'two' | null {
    const cookies = exchange.header('cookie');
    if (cookies === undefined || place.kind === 'loopback') return null;
    const session = readCookie(cookies, place, this.#credentials.sessionKey, this.#registeredAt, this.#now());
    return session !== null && session !== 'two' && this.signIns.isEnded(session.id) ? null : session;
  }

  /** The page key of a session at this origin. Only its page may get it: it is never in a page, an address or a log. */
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

  /** Whether a request presents the page key of its session: in the header, or for a file by the signature of its address. */
  hasKey(exchange: Exchange, place: Place, session: Session, isFile = false): boolean {
    const shown = exchange.header(PAGE_KEY_HEADER);
    if (shown !== undefined) return isEqual(shown, this.pageKey(place, session));
    if (!isFile) return false;
    const [, query = '', signature] = SIGNED.exec(exchange.query) ?? [];
    if (signature === undefined) return false;
    const signed = query === '' ? exchange.path : `${exchange.path}?${query}`;
    return isEqual(signature, createHmac('sha256', this.pageKey(place, session)).update(signed).digest('hex'));
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
      const stored = this.signIns.end(signIn);
      this.emit('ended');
      await stored;
    }
    return cookies;
  }

  /** Has the streams of a caller end at this time, when what it presented ends. */
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
    // The wait is short, so that a clock that was set is noticed.
    const wait = Math.min(this.#nextEnd - now, LIMITS.programTokenNoteMs);
    if (this.#ends.size > 0) this.#ending = setTimeout(() => this.#awaitEnd(), wait).unref();
    if (due.length > 0) this.emit('ended');
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

function isEqual(shown: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(shown), Buffer.from(wanted)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/**
 * Whether a proxy says that the browser came by HTTPS. If that is wrong, browsers refuse the cookie; nothing else depends on
 * it.
 */
function isSecure(exchange: Exchange): boolean {
  return exchange.header('x-forwarded-proto') === 'https';
}

export function unauthorized(message: string, path?: string): SvcError {
  const headers = { 'www-authenticate': 'Bearer' };
  return new SvcError('UNAUTHORIZED', message, path === undefined ? { headers } : { headers, path });
}

/** The answer to a session without its page key that asks for more than a page. */
export function keyless(): SvcError {
  return unauthorized(KEYLESS, PAGE_KEY_HEADER);
}
