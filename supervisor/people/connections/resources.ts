/** Says what each MCP address is as a resource of OAuth, and who issues tokens for it (specification, "Connected programs"). Pure. */
import { SvcError } from '../../../protocol/errors.ts';
import { scopeKey } from '../../../protocol/ids.ts';
import { PROTECTED_RESOURCE } from '../../../protocol/routes/people/oauth-rows.ts';
import type { Place, Places } from '../../http/access/places.ts';

/** An MCP address: of one live app or draft, whose key is `app`, or of all apps with null. */
export type Resource = { readonly path: string; readonly app: string | null };

const MCP_PATH = /^\/svc\/(?:(?:_draft\/([A-Za-z0-9][A-Za-z0-9_-]{0,63})\/)?([a-z0-9][a-z0-9_-]{0,62})\/)?_mcp$/;

/** The MCP address that a path is; null for another one. */
export function resourceOf(path: string): Resource | null {
  const [found, workspace, app] = MCP_PATH.exec(path) ?? [];
  return found === undefined ? null : { path, app: app === undefined ? null : scopeKey(app, workspace) };
}

/**
 * Who issues tokens for the MCP addresses at a place, and the origin of the console at which people agree. A client on this machine asks
 * the address that it knows: it may find no name below `localhost`. Null where there is no console with an origin of its own: a page
 * of any app could agree for a person there.
 */
export function issuerAt(places: Places, place: Place): { issuer: string; console: string } | null {
  const console = place.kind === 'console' ? place.origin : places.consoleOf(place);
  if (console === null || place.host === '') return null;
  return { issuer: place.kind === 'page' ? console : place.origin, console };
}

/** The refusal of a request to an MCP address says where a client learns how to sign in (RFC 9728, section 5.1). */
export function challenge(places: Places, place: Place, path: string, refusal: SvcError, hasToken: boolean): SvcError {
  if (refusal.status !== 401 || resourceOf(path) === null || issuerAt(places, place) === null) return refusal;
  const why = hasToken ? 'error="invalid_token", ' : '';
  const headers = {
    'www-authenticate': `Bearer ${why}resource_metadata="${place.origin}${PROTECTED_RESOURCE}${path}"`,
  };
  return new SvcError(refusal.code, refusal.message, {
    headers,
    ...(refusal.path !== undefined && { path: refusal.path }),
  });
}
