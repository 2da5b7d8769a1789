/**
 * Makes and reads the session cookie (specification, "Sessions of browsers"): a signed text that says what its origin may do,
 * and until when. Makes the page key that belongs to it (specification, "Page key"). Neither is stored.
 *
 *     <expires>/<sign-in>/<scope>/<hmac>
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { type PageOwner, pageHost } from '../../../protocol/http/origins.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Caller } from './grants.ts';
import type { Place } from './places.ts';

/**
 * Before a name, where the browser takes it: only with `Secure`, `Path=/` and without `Domain`, so no other origin can set it. It
 * refuses it over plain HTTP to another machine, and where `localhost` counts as insecure.
 */
const HOST_PREFIX = '__Host-';
const NAME = 'svc_session';
const VALUE = /^((\d{1,15})\/([pg][0-9a-f]{32}|[0-9a-f]{16})\/([A-Za-z0-9_/-]{1,220}))\/([0-9a-f]{64})$/;
const OWNER = /^(?:app\/([^/]+)\/(\d{1,15})|draft\/([^/]+)\/([^/]+))$/;

/**
 * The sign-in that a cookie comes from: with the machine's token, a person's (`Accounts`), or a guest's (`Links`). `expiresAt` is in
 * milliseconds since the epoch. That of a person or guest may end before.
 */
export type SignIn = { id: string; expiresAt: number };
/** What a cookie says. `owner` is the app or draft of a page's origin, and null at the console and at a shared origin. */
export type Session = SignIn & { owner: PageOwner | null };

/**
 * The time at which an app was registered. It is null when it is not. Cookies have it, so that the cookie of a removed app is no
 * cookie of a later app with its id.
 */
export type RegisteredAt = (app: string) => number | null;

/** The values of `set-cookie` headers that give `place` a session. `isSecure` is true when the browser came by HTTPS. */
export function cookiesFor(
  place: Place,
  session: Session,
  isSecure: boolean,
  key: Buffer,
  registeredAt: RegisteredAt,
  now: number,
): string[] {
  const text = sessionText(place, session, registeredAt);
  const value = `${text}/${sign(text, place, key).toString('hex')}`;
  // Rounded up, so that a length of whole hours is said whole a millisecond later. The session itself ends in time.
  const seconds = Math.max(0, Math.ceil((session.expiresAt - now) / 1000));
  return setCookies(NAME, place, isSecure, value, seconds);
}

/** The text of a session that its cookie holds and signs. */
export function sessionText(place: Place, { id, expiresAt, owner }: Session, registeredAt: RegisteredAt): string {
  return `${expiresAt}/${id}/${scopeText(place, owner, registeredAt)}`;
}

/** The page key of the session at `place`, in hex. It cannot be made from the cookie. */
export function pageKeyOf(text: string, place: Place, key: Buffer): string {
  return createHmac('sha256', key).update(`page key\n${text}\n${place.host}`).digest('hex');
}

/** The values of `set-cookie` headers that end the session of `place`. */
export function endedCookies(place: Place, isSecure: boolean): string[] {
  return setCookies(NAME, place, isSecure, '', 0);
}

/** One cookie, or the same under both names. The browser keeps what it takes; where it takes both, the first counts. */
export function setCookies(name: string, place: Place, isSecure: boolean, value: string, seconds: number): string[] {
  const common = `=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict`;
  const isHttps = isSecure || place.origin.startsWith('https:');
  return [
    ...(isHttps || place.base !== null ? [`${HOST_PREFIX}${name}${common}; Secure`] : []),
    ...(isHttps ? [] : [`${name}${common}`]),
  ];
}

/**
 * What a cookie says whose signature was checked, at the host that it is for. It may have ended since. `cookies` is the header that
 * it came in.
 */
export type SignedCookie = {
  readonly cookies: string;
  readonly host: string;
  readonly scope: string;
  readonly session: Session;
  /** Where it was found to be good: to find that out makes texts. */
  good?: { readonly place: Place; readonly registered: number | null };
  /** Its page key, once that was asked for. */
  pageKey?: string;
  /** Makes the callers of a person whose page key was shown, at a time. */
  callerOf?: (time: number) => Caller | null;
};

/**
 * The session cookie that a `cookie` header holds for `place`. It is null when there is none that is good, and `two` when two
 * cookies claim to be it. `known` has the ones that were signed with this key, by their headers.
 */
export function readCookie(
  cookies: string,
  place: Place,
  key: Buffer,
  known: Map<string, SignedCookie>,
  registeredAt: RegisteredAt,
  now: number,
): SignedCookie | 'two' | null {
  let signed = known.get(cookies);
  if (signed === undefined) {
    const [value = '', second] = cookieValues(cookies, NAME);
    if (second !== undefined) return 'two';
    const found = signedCookie(cookies, value, place, key);
    if (found === null) return null;
    signed = found;
    if (known.size >= LIMITS.signedCookies) known.clear();
    if (cookies.length <= LIMITS.signedCookieChars) known.set(cookies, signed);
  }
  return isGoodAt(signed, place, registeredAt, now) ? signed : null;
}

/** Whether a cookie counts at `place` now. */
export function isGoodAt(signed: SignedCookie, place: Place, registeredAt: RegisteredAt, now: number): boolean {
  const { owner, expiresAt } = signed.session;
  if (expiresAt <= now) return false;
  const registered = owner === null ? null : registeredAt(owner.app);
  if (signed.good?.place === place && signed.good.registered === registered) return true;
  if (signed.host !== place.host || scopeText(place, owner, registeredAt) !== signed.scope) return false;
  if (place.kind === 'page' && owner === null) return false;
  signed.good = { place, registered };
  return true;
}

/** Null for a value that this key did not sign for `place`. */
function signedCookie(cookies: string, value: string, place: Place, key: Buffer): SignedCookie | null {
  const [, text, expires, id, scope, signature] = VALUE.exec(value) ?? [];
  if (text === undefined || id === undefined || scope === undefined || signature === undefined) return null;
  if (!timingSafeEqual(Buffer.from(signature, 'hex'), sign(text, place, key))) return null;
  return { cookies, host: place.host, scope, session: { id, expiresAt: Number(expires), owner: ownerOf(scope) } };
}

/** The values that a `cookie` header has for a name which `setCookies` set. */
export function cookieValues(cookies: string, name: string): string[] {
  // Another origin of the site can add a cookie of the plain name, but not of the `__Host-` name. So that one counts first.
  const hosts: string[] = [];
  const plain: string[] = [];
  for (const cookie of cookies.split(';')) {
    const equals = cookie.indexOf('=');
    const found = cookie.slice(0, Math.max(0, equals)).trim();
    const values = found === name ? plain : found === HOST_PREFIX + name ? hosts : null;
    values?.push(cookie.slice(equals + 1).trim());
  }
  return hosts.length > 0 ? hosts : plain;
}

/** The signature of a text at `place`. It includes the host, so a cookie counts only at the origin that it was given to. */
function sign(text: string, place: Place, key: Buffer): Buffer {
  return createHmac('sha256', key).update(`${text}\n${place.host}`).digest();
}

function scopeText(place: Place, owner: PageOwner | null, registeredAt: RegisteredAt): string {
  if (place.kind !== 'page') return place.kind;
  if (owner === null || pageHost(owner) !== place.label) return 'nothing';
  const { app, workspace } = owner;
  return workspace === undefined ? `app/${app}/${registeredAt(app) ?? 0}` : `draft/${workspace}/${app}`;
}

function ownerOf(scope: string): PageOwner | null {
  const [, app, , workspace, drafted] = OWNER.exec(scope) ?? [];
  if (app !== undefined) return { app };
  return workspace !== undefined && drafted !== undefined ? { app: drafted, workspace } : null;
}
