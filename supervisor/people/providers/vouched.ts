/** Reads what a provider or a trusted proxy says of a person. Pure. */
import { LIMITS } from '../../../protocol/limits.ts';
import type { Said } from '../identities.ts';

/** Only ASCII: of other letters some become those of somebody else's address when capitals are ignored. */
const EMAIL = /^[!-?A-~]+@[!-?A-~]+\.[!-?A-~]+$/;
const SUBJECT_CHARS = 255;

/** The claims that are looked at, of the token of a provider or proxy, and of its answer about the person. */
type Claims = Readonly<Record<string, unknown>>;

/**
 * What the claims say. Null: they name nobody. An address counts where it is said to be verified, and with `vouches` where it is
 * not said that it is not.
 */
export function saidIn(claims: Claims, from: Pick<Said, 'provider' | 'issuer'>, vouches = false): Said | null {
  const { sub, email, email_verified: verified, name, preferred_username: login } = claims;
  if (typeof sub !== 'string' || sub === '' || sub.length > SUBJECT_CHARS) return null;
  // Some providers write it as a text.
  const isVerified = verified === true || verified === 'true' || (vouches && verified === undefined);
  const address = isVerified ? addressIn(email) : null;
  const shown = [name, login, address?.split('@', 1)[0]].map(shownName).find((one) => one !== '');
  return { ...from, subject: sub, email: address, name: shown ?? 'New person' };
}

export function addressIn(value: unknown): string | null {
  return typeof value === 'string' && value.length <= LIMITS.emailChars && EMAIL.test(value) ? value : null;
}

function shownName(value: unknown): string {
  const text = typeof value === 'string' ? value.replace(/\p{Cc}+/gu, ' ').trim() : '';
  return [...text].slice(0, LIMITS.personNameChars / 2).join('');
}
