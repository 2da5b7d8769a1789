/** Makes the security headers of every answer to pages (specification, "Page policy"). */
import { LIMITS } from '../../protocol/limits.ts';
import { PRIVATE } from '../edge/edge.ts';
import type { Place } from '../http/access/places.ts';

/** The policies of answers without inline scripts, private ones and public ones, by what follows `frame-ancestors`. */
const PLAIN_POLICIES = {
  private: new Map<string, Record<string, string>>(),
  public: new Map<string, Record<string, string>>(),
};

/**
 * The headers that every answer on the pages' surface has, errors too (specification, "Page policy" and
 * "Requests of other sites"). `scripts` are hash sources of inline scripts. The console may embed pages, other apps may not;
 * nothing in a page can post a form or move its base elsewhere.
 */
export function pagePolicy(
  { frameAncestors, isPublic }: Place,
  scripts: readonly string[] = [],
): Record<string, string> {
  const plain = isPublic ? PLAIN_POLICIES.public : PLAIN_POLICIES.private;
  const known = scripts.length === 0 ? plain.get(frameAncestors) : undefined;
  if (known) return known;
  const scriptSources = ["'self'", ...scripts].join(' ');
  const policy = {
    'content-security-policy': `default-src 'self'; script-src ${scriptSources}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors ${frameAncestors}`,
    'cross-origin-opener-policy': 'same-origin',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    // An app below the host of the console could ask for the passkeys of that host.
    'permissions-policy': 'publickey-credentials-create=(), publickey-credentials-get=()',
    ...(isPublic ? {} : PRIVATE),
  };
  if (scripts.length === 0 && plain.size < LIMITS.hostNames) plain.set(frameAncestors, policy);
  return policy;
}
