/**
 * Makes and reads the session cookie (specification, "Sessions of browsers"): a signed text that says what its origin may do,
 * and until when. Makes the page key that belongs to it (specification, "Page key"). Neither is stored. Pure.
 *
 *     <expires>/<sign-in>/<scope>/<hmac>
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { type PageOwner, pageHost } from '../../../protocol/http/origins.ts';
import type { Place } from './places.ts';

/** The usual name. Browsers take it only with `Secure`, `Path=/` and without `Domain`, so no other origin can set it. */
const HOST_NAME = '__Host-svc_session';
/** The name where a browser refuses that one: over plain HTTP to another machine, and where `localhost` counts as insecure. */
const PLAIN_NAME = 'svc_session';
const VALUE = /^((\d{1,15})\/([0-9a-f]{16})\/([A-Za-z0-9_/-]{1,220}))\/([0-9a-f]{64})$/;
const OWNER = /^(?:app\/([^/]+)\/(\d{1,15})|draft\/([^/]+)\/([^/]+))$/;

/** The sign-in that a cookie comes from. `expiresAt` is in milliseconds since the epoch. */
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
  return setCookies(place, isSecure, value, seconds);
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
  return setCookies(place, isSecure, '', 0);
}

/** One cookie, or the same under both names. The browser keeps what it takes; where it takes both, the first counts. */
function setCookies(place: Place, isSecure: boolean, value: string, seconds: number): string[] {
  const common = `=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict`;
  const isHttps = isSecure || place.origin.startsWith('https:');
  return [
    ...(isHttps || place.base !== null ? [`${HOST_NAME}${common}; Secure`] : []),
    ...(isHttps ? [] : [`${PLAIN_NAME}${common}`]),
  ];
}

/**
 * The session that a `cookie` header holds for `place`. It is null when there is none, and `two` when two cookies claim to be
 * it.
 */
export function readCookie(
  cookies: string,
  place: Place,
  key: Buffer,
  registeredAt: RegisteredAt,
  now: number,
): Session | 'two' | null {
  const found = new Map<string, string[]>([
    [HOST_NAME, []],
    [PLAIN_NAME, []],
  ]);
  for (const cookie of cookies.split(';')) {
    const equals = cookie.indexOf('=');
    if (equals > 0) found.get(cookie.slice(0, equals).trim())?.push(cookie.slice(equals + 1).trim());
  }
  // Another origin of the site can add a cookie of the plain name, but not of the `__Host-` name. So that one counts first.
  const hosts = found.get(HOST_NAME) ?? [];
  const values = hosts.length > 0 ? hosts : (found.get(PLAIN_NAME) ?? []);
  if (values.length > 1) return 'two';
  const [, text, expires, id, scope, signature] = VALUE.exec(values[0] ?? '') ?? [];
  if (text === undefined || id === undefined || scope === undefined || signature === undefined) return null;
  if (Number(expires) <= now || !timingSafeEqual(Buffer.from(signature, 'hex'), sign(text, place, key))) return null;
  const owner = ownerOf(scope);
  if (scopeText(place, owner, registeredAt) !== scope || (place.kind === 'page' && owner === null)) return null;
  return { id, expiresAt: Number(expires), owner };
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
