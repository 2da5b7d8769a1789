/** Tells who calls: by the Bearer token, a token for programs, or the session cookie of the origin (decisions, sections 1 and 11). */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { Logger } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Exchange } from '../../edge/edge.ts';
import { ADMIN, type Caller, ConsoleCaller, PageCaller, SharedCaller, TokenCaller } from './caller.ts';
import { cookiesFor, endedCookies, type RegisteredAt, readCookie, type Session, type SignIn } from './cookie.ts';
import type { Place, Places } from './places.ts';
import type { ProgramTokens } from './program-tokens.ts';
import type { SignIns } from './sign-ins.ts';
import { TokenFile } from './token-file.ts';

/** An Authorization header with a Bearer token, which is the first group. */
export const BEARER: RegExp = /^Bearer +(\S+) *$/i;

const WRONG_TOKEN = 'The access token is wrong: it may have been rotated or revoked, or has expired.';

type Credentials = { token: string; digest: Buffer; sessionKey: Buffer };
type AccessOptions = {
  log: Pick<Logger, 'info' | 'warn'>;
  places: Places;
  signIns: SignIns;
  programTokens: Pick<ProgramTokens, 'find' | 'whenRevoked'>;
  registeredAt: RegisteredAt;
  now?: () => number;
};

/**
 * Sessions are not stored: a cookie is what it may do and until when, signed with a key made from the token, so that a new token
 * ends them all. What is kept is which sign-ins were ended before their time.
 */
export class Access {
  readonly places: Places;
  readonly signIns: SignIns;
  readonly #file: TokenFile;
  readonly #programTokens: AccessOptions['programTokens'];
  readonly #registeredAt: RegisteredAt;
  readonly #now: () => number;
  #credentials: Credentials;
  /** Values of the Authorization header that were seen, and the digests of the tokens in them. */
  readonly #digests = new Map<string, Buffer>();
  #onEnded: () => void = () => {};
  /** How often something that was presented has ended. */
  endings = 0;
  #nextEnd = Number.POSITIVE_INFINITY;
  #ending: NodeJS.Timeout | undefined;

  private constructor(
    file: TokenFile,
    { places, signIns, programTokens, registeredAt, now = Date.now }: AccessOptions,
  ) {
    this.#file = file;
    this.places = places;
    this.signIns = signIns;
    this.#programTokens = programTokens;
    programTokens.whenRevoked(() => this.#end());
    this.#registeredAt = registeredAt;
    this.#now = now;
    this.#credentials = credentialsOf(file.token);
    file.whenReplaced((token) => {
      this.#credentials = credentialsOf(token);
      this.#end();
    });
  }

  /** Reads the token file, or creates it. Rejects when it is damaged. */
  static async open(path: string, options: AccessOptions): Promise<Access> {
    return new Access(await TokenFile.open(path, options.log), options);
  }

  /** Called when what some callers presented has ended: streams that were opened with it must end. Who still may opens another. */
  whenEnded(call: () => void): void {
    this.#onEnded = call;
  }

  #end(): void {
    this.endings++;
    this.#onEnded();
  }

  /** For what was asked for when there had been `endings` and began since: it may be of one whose leave has ended. */
  endStreamsSince(endings: number): void {
    if (endings !== this.endings) this.#onEnded();
  }

  /** The administrator's token that is valid now. */
  get token(): string {
    return this.#credentials.token;
  }

  /** Who calls, or the `UNAUTHORIZED` error to answer. */
  caller(exchange: Exchange, place: Place): Caller | SvcError {
    const authorization = exchange.header('authorization') ?? '';
    const presented = this.#digestOf(authorization);
    if (presented !== undefined) {
      if (timingSafeEqual(presented, this.#credentials.digest)) return ADMIN;
      const text = BEARER.exec(authorization)?.[1] ?? '';
      const grant = this.#programTokens.find(text);
      if (grant === undefined) return unauthorized(WRONG_TOKEN);
      return new TokenCaller(grant, () => this.#programTokens.find(text) !== undefined);
    }
    const session = this.session(exchange, place);
    if (session === 'two') return unauthorized('The request carries two session cookies; sign in again.');
    if (session === null) return unauthorized('Send the access token as "Authorization: Bearer <token>".');
    const { expiresAt, owner } = session;
    const isGood = () => expiresAt > this.#now() && !this.signIns.isEnded(session.id);
    if (place.kind === 'console') return new ConsoleCaller(expiresAt, isGood);
    return owner === null ? new SharedCaller(expiresAt, isGood) : new PageCaller(owner, expiresAt, isGood);
  }

  /** The session of this origin's cookie; null when there is none, `two` when there are two cookies. */
  session(exchange: Exchange, place: Place): Session | 'two' | null {
    const cookies = exchange.header('cookie');
    if (cookies === undefined || place.kind === 'loopback') return null;
    const session = readCookie(cookies, place, this.#credentials.sessionKey, this.#registeredAt, this.#now());
    return session !== null && session !== 'two' && this.signIns.isEnded(session.id) ? null : session;
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
      this.#end();
      await stored;
    }
    return cookies;
  }

  /** Has streams end when what this caller presented does. */
  endStreamsAt(expiresAt: number): void {
    if (expiresAt >= this.#nextEnd) return;
    this.#nextEnd = expiresAt;
    clearTimeout(this.#ending);
    const wait = () => {
      const left = expiresAt - this.#now();
      if (left > 0) {
        this.#ending = setTimeout(wait, Math.min(left, LIMITS.dayMs)).unref();
        return;
      }
      this.#nextEnd = Number.POSITIVE_INFINITY;
      this.#end();
    };
    wait();
  }

  /** Stops following the token file. */
  close(): void {
    clearTimeout(this.#ending);
    this.#file.close();
  }

  /**
   * The digest of the token in an Authorization header, remembered because clients present the same one with each request.
   * That a token was seen before is told by the time this takes only to whoever knows all of it.
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

/** By the word of a proxy: a browser does not take a cookie with `Secure` where this is wrong, and nothing else depends on it. */
function isSecure(exchange: Exchange): boolean {
  return exchange.header('x-forwarded-proto') === 'https';
}

function credentialsOf(token: string): Credentials {
  return {
    token,
    digest: hash('sha256', token, 'buffer'),
    sessionKey: createHmac('sha256', token).update('svc_session').digest(),
  };
}

function unauthorized(message: string): SvcError {
  return new SvcError('UNAUTHORIZED', message, { headers: { 'www-authenticate': 'Bearer' } });
}
