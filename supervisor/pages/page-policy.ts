/** Makes the security headers of every answer to pages (decisions, section 11). */
import { LIMITS } from '../../protocol/limits.ts';
import type { Place } from '../http/access/places.ts';

/** By what follows `frame-ancestors`: the policies of answers without inline scripts. */
const PLAIN_POLICIES = new Map<string, Record<string, string>>();

/**
 * The headers that every answer on the pages' surface has, errors too (decisions, section 11). `scripts` are hash sources of inline
 * scripts. The console may embed pages, other apps may not; nothing in a page can post a form or move its base elsewhere.
 */
export function pagePolicy({ frameAncestors }: Place, scripts: readonly string[] = []): Record<string, string> {
  const known = scripts.length === 0 ? PLAIN_POLICIES.get(frameAncestors) : undefined;
  if (known) return known;
  const scriptSources = ["'self'", ...scripts].join(' ');
  const policy = {
    'content-security-policy': `default-src 'self'; script-src ${scriptSources}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors ${frameAncestors}`,
    'cross-origin-opener-policy': 'same-origin',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  };
  if (scripts.length === 0 && PLAIN_POLICIES.size < LIMITS.hostNames) PLAIN_POLICIES.set(frameAncestors, policy);
  return policy;
}
