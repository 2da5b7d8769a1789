/**
 * Keeps the page key of this origin's session (specification, "Page key"): in the browser's storage, which knows the port as
 * cookies do not; where that is blocked, in memory and in the fragment of the address on the way from one page to the next.
 */
import { PAGE_KEY_HEADER, SIGNATURE_PARAMETER } from '../../protocol/http/page-key.ts';
import { hmac } from './hmac.ts';

const NAME = 'svc:page-key';
/** The paths that have a page, and so a bridge that takes the fragment away. */
const PAGE = /(?:\/|\.html?)$/;
const FRAGMENT = /^#svc-page-key=([0-9a-f]{64})(?:&(.*))?$/s;

/** The last one that this page had: for a page that clears its storage, and for browsers that block it. */
let memory: string | null = null;
let isStored = true;

function stored(): string | null {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
}

/** The page key of now: another tab may have signed in again. */
export function pageKey(): string | null {
  if (isStored) memory = stored() ?? memory;
  return memory;
}

/** Null forgets it. */
export function keepPageKey(key: string | null): void {
  memory = key;
  try {
    if (key === null) localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, key);
  } catch {
    // It stays in memory.
  }
  isStored = stored() === key;
}

/** The address for a page of this origin: with the page key where it could not be stored. That page takes it away at once. */
export function withPageKey(address: string): string {
  const { origin, pathname } = new URL(address, location.href);
  if (isStored || memory === null || origin !== location.origin || !PAGE.test(pathname)) return address;
  const [page = '', ...fragment] = address.split('#');
  const rest = fragment.join('#');
  return `${page}#svc-page-key=${memory}${rest && `&${rest}`}`;
}

/** Takes the page key out of the address, before anything else can see it. */
export function takePageKey(): void {
  const [, key, rest = ''] = FRAGMENT.exec(location.hash) ?? [];
  if (key === undefined) return;
  history.replaceState(history.state, '', `${location.pathname}${location.search}${rest && `#${rest}`}`);
  // Where storage works the key comes from there: an address that anybody can make does not replace it.
  if (!canStore()) keepPageKey(key);
}

function canStore(): boolean {
  try {
    localStorage.setItem(`${NAME}:probe`, '');
    localStorage.removeItem(`${NAME}:probe`);
    return true;
  } catch {
    return false;
  }
}

/** The headers by which a call of this page is taken. */
export function keyHeaders(): Record<string, string> {
  const key = pageKey();
  return key === null ? {} : { [PAGE_KEY_HEADER]: key };
}

/** The address of a file as the browser itself may load it, for a picture or a download; others stay as they are. */
export function signedAddress(address: string): string {
  const key = pageKey();
  const { origin, pathname, searchParams, hash } = new URL(address, location.href);
  if (key === null || origin !== location.origin) return address;
  searchParams.delete(SIGNATURE_PARAMETER);
  const query = searchParams.size === 0 ? '' : `?${searchParams}`;
  const file = `${pathname}${query}`;
  return `${file}${query === '' ? '?' : '&'}${SIGNATURE_PARAMETER}=${hmac(key, file)}${hash}`;
}
