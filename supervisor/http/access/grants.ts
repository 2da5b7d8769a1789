/**
 * Says what a caller was given, and decides what it may do with that: one table of rights for tokens, sessions and roles in an
 * app (specification, "Tokens for programs" and "People of a host").
 */
import { SvcError } from '../../../protocol/errors.ts';
import type { PageOwner } from '../../../protocol/http/origins.ts';
import { appOfKey, isDraftKey } from '../../../protocol/ids.ts';
import type { Capability } from '../../../protocol/routes/row.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';

/**
 * The roles of people in the gateway. An owner may do everything, an author makes apps and manages those, a member uses what is
 * shared.
 */
export const GATEWAY_ROLES = ['owner', 'author', 'member'] as const;
export type GatewayRole = (typeof GATEWAY_ROLES)[number];

/** The roles of people in an app. Each may do what those before it may. */
export const APP_ROLES = ['viewer', 'editor', 'manager'] as const;
export type AppRole = (typeof APP_ROLES)[number];

const VIEWED = ['page', 'read', 'stream'] as const;
const PAGE = [...VIEWED, 'write', 'settings', 'chat'] as const;
const MANAGED = [...PAGE, 'manage', 'make'] as const;

/**
 * The capabilities that a grant can give, by name. `everything` is for administrators and the console. `page` is for a page with its
 * cookie and page key, `cookie` for one with the cookie alone. Tokens of programs and roles of people have the others.
 */
export const RIGHTS = {
  everything: [...MANAGED, 'admin'],
  page: PAGE,
  cookie: ['page'],
  read: VIEWED,
  write: [...VIEWED, 'write', 'settings'],
  all: [...PAGE, 'manage'],
  viewer: VIEWED,
  editor: [...VIEWED, 'write', 'chat'],
  manager: MANAGED,
} as const satisfies Record<string, readonly Capability[]>;

/**
 * What a grant is for. `everything` is all there is. `key` is one live app or draft; with null it is what is about no app. `apps`
 * says by id which apps it is; with null it is every app, and what is about no app. Who may `manage` an app has its drafts too.
 */
type GrantedFor = 'everything' | { readonly key: string | null } | { readonly apps: ((id: string) => boolean) | null };

/** A thing that a caller was given: for what, how much, and until when. */
export type Grant = {
  readonly on: GrantedFor;
  readonly rights: readonly Capability[];
  /** In milliseconds since the epoch; null when it does not end by itself. */
  readonly expiresAt: number | null;
  /** False once it has expired or was taken back. A request may take minutes to arrive, so each question asks anew. */
  isGood(): boolean;
};

/** A grant that does not end by itself. */
export function lastingGrant(on: GrantedFor, rights: readonly Capability[]): Grant {
  return { on, rights, expiresAt: null, isGood: () => true };
}

/** Who makes a request, and what it was given. */
export interface Caller {
  readonly kind: 'admin' | 'host' | 'session' | 'token' | 'agent' | 'public' | 'person';
  /** The app or draft whose page calls; null for other callers. That page is at `/` of its origin too. */
  readonly owner: PageOwner | null;
  /** The client that limits count: the token or sign-in that was presented. */
  readonly client: string;
  /** Who the caller is beyond one sign-in. Idempotency keys belong to it. */
  readonly identity: string;
  /** The caller may do what one of them allows. */
  readonly grants: readonly Grant[];
  /** True once what was presented is good no more. The caller then may do nothing, and its streams end. */
  readonly ended: boolean;
  /** What a host allows. The caller may do no more than that. */
  readonly hostAllows?: HostAllows;
  /** True for the cookie of a session without the page key. */
  readonly keyless?: boolean;
  /** The caller as handlers see it. `app` is the key of their app or draft. */
  shown(app: string): HandlerCaller;
  /** The message of the `FORBIDDEN` answer, which says why the caller may not. */
  refusal(app: string | null): string;
}

/** Says what the host's `authorize` allows. */
export type HostAllows = (capability: Capability, app: string | null) => boolean;

/** Whether a caller has a capability. `app` is the key of a live app or of a draft (`draftKey`). Null: the request is about none. */
export function may({ grants, hostAllows }: Caller, capability: Capability, app: string | null): boolean {
  const isGiven = grants.some((one) => one.rights.includes(capability) && covers(one, app) && one.isGood());
  return isGiven && (hostAllows === undefined || hostAllows(capability, app));
}

/** Throws `FORBIDDEN` unless the caller may. */
export function demand(caller: Caller, capability: Capability, app: string | null): void {
  if (!may(caller, capability, app)) throw new SvcError('FORBIDDEN', caller.refusal(app));
}

/** The strongest role in an app of which these grants give all; null for none. */
export function roleIn(grants: readonly Grant[], app: string): AppRole | null {
  const has = (role: AppRole) =>
    grants.some((one) => covers(one, app) && RIGHTS[role].every((capability) => one.rights.includes(capability)));
  return APP_ROLES.findLast(has) ?? null;
}

function covers({ on, rights }: Grant, app: string | null): boolean {
  if (on === 'everything') return true;
  if ('key' in on) return app === on.key;
  if (app !== null && isDraftKey(app) && !rights.includes('manage')) return false;
  return on.apps === null || (app !== null && on.apps(appOfKey(app)));
}
