/**
 * Decides what a token for a program and what a person may do: one table from kinds of requests to kinds of tokens and to roles in
 * an app (decisions, sections 11 and 16).
 */
import { appOfKey, isDraftKey } from '../../../protocol/ids.ts';

/**
 * What a request needs. Each but `admin` is about one app: its page and files (`page`), describe and queries (`read`), actions
 * (`write`), its change stream, storing its settings, talking with an agent about its data (`chat`), and the rest: code,
 * versions, logs, runs, SQL (`manage`). `make` is for a new app, from a template or blank; null where its id is chosen later.
 */
export type Capability = 'page' | 'read' | 'write' | 'stream' | 'settings' | 'chat' | 'manage' | 'make' | 'admin';

/** `read` calls queries and describes, `write` calls actions too, `all` does everything else with its apps. */
export type GrantTools = 'read' | 'write' | 'all';

/** The rights of a token for a program. `apps` null means every app, including later ones; `expiresAt` null means never. */
export type Grant = {
  readonly id: string;
  readonly name: string;
  readonly apps: readonly string[] | null;
  readonly tools: GrantTools;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number | null;
};

/** Roles of people in the gateway: an owner may do everything, an author makes apps and manages those, a member uses what is shared. */
export const GATEWAY_ROLES = ['owner', 'author', 'member'] as const;
export type GatewayRole = (typeof GATEWAY_ROLES)[number];

/** Roles of people in an app; each may do what those before it may. */
export const APP_ROLES = ['viewer', 'editor', 'manager'] as const;
export type AppRole = (typeof APP_ROLES)[number];

/** The least that a token must be for, and that a person must be in the app; null: no token of a program, no role. */
const LEAST: Record<Capability, { tools: GrantTools | null; role: AppRole | null }> = {
  page: { tools: 'read', role: 'viewer' },
  read: { tools: 'read', role: 'viewer' },
  stream: { tools: 'read', role: 'viewer' },
  write: { tools: 'write', role: 'editor' },
  settings: { tools: 'write', role: 'manager' },
  chat: { tools: 'all', role: 'editor' },
  manage: { tools: 'all', role: 'manager' },
  make: { tools: null, role: 'manager' },
  admin: { tools: null, role: null },
};

const RANK: Record<GrantTools, number> = { read: 0, write: 1, all: 2 };

/**
 * Whether the grant allows `capability` on `app`, the key of a live app or of a draft; null means a request about all apps,
 * which needs a grant for every app. A draft needs the right to manage its app.
 */
export function may(grant: Pick<Grant, 'apps' | 'tools'>, capability: Capability, app: string | null): boolean {
  const isDraft = app !== null && isDraftKey(app);
  const { tools } = LEAST[capability];
  const least = isDraft && tools !== null ? 'all' : tools;
  if (least === null || !(RANK[grant.tools] >= RANK[least])) return false;
  return grant.apps === null || (app !== null && grant.apps.includes(appOfKey(app)));
}

/** The roles of a person. `apps` comes from a host and may hold anything. */
type Roles = { readonly id: string; readonly role: GatewayRole; readonly apps?: Readonly<Record<string, unknown>> };

/** The id of the person who made an app; null when it was none, undefined when there is no such app. */
export type MakerOf = (app: string) => string | null | undefined;

/** The strongest role of a person in a live app, or in one that they could make; null for none. */
export function roleIn({ id, role, apps }: Roles, app: string, makerOf: MakerOf): AppRole | null {
  if (role === 'owner') return 'manager';
  if (role === 'author') {
    const maker = makerOf(app);
    if (maker === undefined || maker === id) return 'manager';
  }
  const given = apps !== undefined && Object.hasOwn(apps, app) ? apps[app] : undefined;
  return APP_ROLES.find((one) => one === given) ?? null;
}

/**
 * As `may`, for a person. A request about all apps needs an owner; opening a session, somebody who manages an app or makes some.
 */
export function mayAs(person: Roles, capability: Capability, app: string | null, makerOf: MakerOf): boolean {
  const { role, apps = {} } = person;
  if (role === 'owner') return true;
  if (app === null) {
    if (role === 'author') return capability === 'manage' || capability === 'make';
    return capability === 'manage' && Object.values(apps).some((one) => one === 'manager');
  }
  const { role: weakest } = LEAST[capability];
  const least = isDraftKey(app) && weakest !== null ? 'manager' : weakest;
  const own = roleIn(person, appOfKey(app), makerOf);
  return least !== null && own !== null && APP_ROLES.indexOf(own) >= APP_ROLES.indexOf(least);
}
