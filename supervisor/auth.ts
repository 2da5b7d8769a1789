/** Who may call: the Bearer token, or the session cookie that it buys a browser (decisions, sections 1 and 5). */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Logger } from 'pino';
import { SvcError } from '../protocol/errors.ts';
import { LIMITS } from '../protocol/limits.ts';
import { openToken, readToken } from '../storage/token.ts';
import type { Exchange } from './edge/edge.ts';

const COOKIE = 'svc_session';
/** An Authorization header with a Bearer token, which is the first group. */
export const BEARER: RegExp = /^Bearer +(\S+) *$/i;
const SESSION = /^(\d{1,15})\.([0-9a-f]{64})$/;

type Credentials = { token: string; digest: Buffer; sessionKey: Buffer };
type AccessOptions = { log: Pick<Logger, 'info' | 'warn'>; now?: () => number };

/**
 * Checks requests against the token in a file, and follows the file when the token in it is replaced. Sessions are not
 * stored: a cookie is its expiry, signed with a key made from the token, so that a new token ends them all.
 */
export class Access {
  readonly #path: string;
  readonly #log: AccessOptions['log'];
  readonly #now: () => number;
  readonly #poll: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #credentials: Credentials;
  /** Values of the Authorization header that were seen, and the digests of the tokens in them. */
  readonly #digests = new Map<string, Buffer>();
  #onReplaced: () => void = () => {};
  #complaint = '';
  #reads = 0;

  private constructor(path: string, token: string, { log, now = Date.now }: AccessOptions) {
    this.#path = path;
    this.#log = log;
    this.#now = now;
    this.#credentials = credentialsOf(token);
    this.#follow();
    this.#poll = setInterval(() => {
      this.#follow();
      this.#reload();
    }, LIMITS.tokenPollMs).unref();
  }

  /** Reads the token file, or creates it. Rejects when it is damaged. */
  static async open(path: string, options: AccessOptions): Promise<Access> {
    return new Access(path, await openToken(path), options);
  }

  /** Called when another token is in force: what was opened with the one before must end. */
  whenReplaced(call: () => void): void {
    this.#onReplaced = call;
  }

  /** The token that is valid now. */
  get token(): string {
    return this.#credentials.token;
  }

  /** Null when the request may go on, else the error to answer: `UNAUTHORIZED`, or `FORBIDDEN` for another origin's. */
  check(exchange: Exchange): SvcError | null {
    const presented = this.#digestOf(exchange.header('authorization') ?? '');
    if (presented !== undefined) {
      return timingSafeEqual(presented, this.#credentials.digest)
        ? null
        : unauthorized('The access token is wrong; it may have been rotated.');
    }
    if (!this.#hasSession(exchange.header('cookie'))) {
      return unauthorized('Send the access token as "Authorization: Bearer <token>".');
    }
    if (isSameOrigin(exchange)) return null;
    return new SvcError(
      'FORBIDDEN',
      'The session cookie is taken from pages of this gateway only; use the access token.',
    );
  }

  /** Value of a `set-cookie` header that gives a browser what the Bearer token gives. */
  issueSession(): string {
    const expires = String(this.#now() + LIMITS.sessionMs);
    const value = `${expires}.${this.#sign(expires).toString('hex')}`;
    return `${COOKIE}=${value}; Path=/; Max-Age=${LIMITS.sessionMs / 1000}; HttpOnly; SameSite=Strict`;
  }

  /** Stops following the file. */
  close(): void {
    clearInterval(this.#poll);
    this.#watcher?.close();
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
    const digest = sha256(token);
    if (this.#digests.size >= LIMITS.tokenDigests) this.#digests.clear();
    this.#digests.set(authorization, digest);
    return digest;
  }

  #hasSession(cookies: string | undefined): boolean {
    if (cookies === undefined) return false;
    for (const cookie of cookies.split(';')) {
      const equals = cookie.indexOf('=');
      if (equals < 0 || cookie.slice(0, equals).trim() !== COOKIE) continue;
      const [, expires, signature] = SESSION.exec(cookie.slice(equals + 1).trim()) ?? [];
      if (expires === undefined || signature === undefined || Number(expires) <= this.#now()) continue;
      if (timingSafeEqual(Buffer.from(signature, 'hex'), this.#sign(expires))) return true;
    }
    return false;
  }

  #sign(expires: string): Buffer {
    return createHmac('sha256', this.#credentials.sessionKey).update(expires).digest();
  }

  /**
   * Follows the file that is there now; a rotation renames a new file over it, which ends that. Only where there is none it
   * follows the folder: every write to the gateway's databases in it is told to whoever does.
   */
  #watch(path: string): FSWatcher | undefined {
    const name = basename(this.#path);
    try {
      const watcher = watch(path, { persistent: false }, (_event, changed) => {
        if (changed !== null && changed !== name) return;
        this.#follow();
        this.#reload();
      });
      return watcher.on('error', () => watcher.close());
    } catch {
      return undefined;
    }
  }

  /** Follows the file that has the name now. */
  #follow(): void {
    this.#watcher?.close();
    this.#watcher = this.#watch(this.#path) ?? this.#watch(dirname(this.#path));
  }

  /** A file that is missing or damaged for the moment leaves the old token in force. Of several reads the last counts. */
  #reload(): void {
    const read = ++this.#reads;
    readToken(this.#path).then(
      (token) => {
        this.#complaint = '';
        if (read !== this.#reads || token === this.#credentials.token) return;
        this.#credentials = credentialsOf(token);
        this.#log.info('The access token was replaced; the old one and every session made with it have ended.');
        this.#onReplaced();
      },
      (error: NodeJS.ErrnoException) => {
        const complaint = error.code ?? error.message;
        if (complaint === this.#complaint) return;
        this.#complaint = complaint;
        this.#log.warn({ err: error }, 'The token file cannot be read; the token known so far stays valid.');
      },
    );
  }
}

function credentialsOf(token: string): Credentials {
  return { token, digest: sha256(token), sessionKey: createHmac('sha256', token).update(COOKIE).digest() };
}

function sha256(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}

function unauthorized(message: string): SvcError {
  return new SvcError('UNAUTHORIZED', message, { headers: { 'www-authenticate': 'Bearer' } });
}

/**
 * Whether a request that carries the cookie comes from one of our own pages. SameSite=Strict keeps the cookie from other
 * sites, but another port of the same host is the same site, so its pages must be told apart here.
 *
 * `Sec-Fetch-Site` cannot be set by a page. Browsers leave it out where the connection is not trustworthy (plain HTTP to
 * another machine); `Origin` then decides, which they send with every write and every cross-origin read by script.
 * A read may also be a link that the user followed here (`none`, or the navigation of a whole tab): its answer is shown
 * to the user and cannot be read by the page it came from. Frames, images, scripts and event streams of others get nothing.
 */
function isSameOrigin(exchange: Exchange): boolean {
  const reads = exchange.method === 'GET' || exchange.method === 'HEAD' || exchange.method === 'OPTIONS';
  const site = exchange.header('sec-fetch-site');
  if (site === 'same-origin') return true;
  if (site !== undefined) {
    if (!reads) return false;
    const wholeTab =
      exchange.header('sec-fetch-mode') === 'navigate' && exchange.header('sec-fetch-dest') === 'document';
    return site === 'none' || wholeTab;
  }
  const origin = exchange.header('origin');
  if (origin === undefined) return reads;
  const host = exchange.header('host');
  return host !== undefined && (origin === `http://${host}` || origin === `https://${host}`);
}
