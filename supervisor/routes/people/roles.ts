/** Looks up the roles that people can have in an app: those of each app, and those of its manifest (specification, "People"). */
import type { RoleDefinition } from '../../../protocol/manifest.ts';
import { APP_ROLES, isAppRole } from '../../http/access/grants.ts';
import type { Services } from '../../services.ts';
import { refuse } from '../requests.ts';

type Roles = Readonly<Record<string, RoleDefinition>>;

/** The roles of an app's manifest by their ids; none where no version is live. */
export async function rolesOf({ scopes }: Services, app: string): Promise<Roles> {
  try {
    return (await scopes(undefined).of(app).code()).version?.roles ?? {};
  } catch {
    // What keeps the app from being called does not keep it from being shared.
    return {};
  }
}

/** A role of an app's manifest; undefined for one that each app has, or that is there no more. */
export async function definedRole(services: Services, app: string, role: string): Promise<RoleDefinition | undefined> {
  if (isAppRole(role)) return undefined;
  const roles = await rolesOf(services, app);
  return Object.hasOwn(roles, role) ? roles[role] : undefined;
}

/** Rejects with `BAD_REQUEST` for a role that an app does not have. */
export async function checkRole(services: Services, app: string, role: string, path: string): Promise<void> {
  if (isAppRole(role)) return;
  const defined = await rolesOf(services, app);
  if (!Object.hasOwn(defined, role))
    refuse(path, `"${app}" has no role "${role}"; it has: ${[...APP_ROLES, ...Object.keys(defined)].join(', ')}.`);
}
