/**
 * Says what a caller was given, and decides what it may do with that: one table of rights for tokens, sessions and roles in an
 * app (specification, "Tokens for programs" and "People").
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

/** Whether a role of the gateway may do more than another. */
export function isMore(role: GatewayRole, other: GatewayRole): boolean {
  return GATEWAY_ROLES.indexOf(role) < GATEWAY_ROLES.indexOf(other);
}

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
  // What a role of an app's manifest may do at most: the dispatcher refuses the tools that it does not allow. What a guest may.
  defined: [...VIEWED, 'write'],
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
  /** The role of an app's manifest that gives them. */
  readonly role?: string;
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
  readonly kind: 'admin' | 'host' | 'session' | 'token' | 'agent' | 'public' | 'person' | 'guest';
  /** The app or draft whose page calls; null for other callers. That page is at `/` of its origin too. */
  readonly owner: PageOwner | null;
  /** The client that limits count: the token or sign-in that was presented. */
  readonly client: string;
  /** Who the caller is beyond one sign-in. Idempotency keys belong to it. */
  readonly identity: string;
  /** The caller may do what one of them allows. */
  readonly grants: readonly Grant[];
  /** True once what was presented is good no more, or what `relies` was told. Its streams and turns then end. */
  readonly ended: boolean;
  /** Notes what a request was let in for: what goes on for it ends when that holds no more. */
  relies?(holds: () => boolean): void;
  /** What its host, or the page that it came by, allows. The caller may do no more than that. */
  readonly atMost?: Allows;
  /** True where a browser may ask, whose cookie says who it is, or where nobody asks who it is. */
  readonly byCookie?: true | undefined;
  /** True for the cookie of a session without the page key. */
  readonly keyless?: boolean;
  /** The caller as handlers see it. `app` is the key of their app or draft. */
  shown(app: string): HandlerCaller;
  /** The message of the `FORBIDDEN` answer, which says why the caller may not. */
  refusal(app: string | null): string;
}

/** Says what is allowed at all, whoever asks. */
export type Allows = (capability: Capability, app: string | null) => boolean;

/** Whether a caller has a capability. `app` is the key of a live app or of a draft (`draftKey`). Null: the request is about none. */
export function may(
  { grants, atMost }: Pick<Caller, 'grants' | 'atMost'>,
  capability: Capability,
  app: string | null,
): boolean {
  // Every request is asked this, and a person's several times: a function for each would be waste.
  for (const one of grants)
    if (one.rights.includes(capability) && covers(one, app) && one.isGood())
      return atMost === undefined || atMost(capability, app);
  return false;
}

/** Throws `FORBIDDEN` unless the caller may; what goes on for it ends when it may no more. */
export function demand(caller: Caller, capability: Capability, app: string | null): void {
  if (!may(caller, capability, app)) throw new SvcError('FORBIDDEN', caller.refusal(app));
  caller.relies?.(() => may(caller, capability, app));
}

/** Throws `FORBIDDEN` unless it is a person at the console, where no page of an app acts for them, or the administrator. */
export function demandAccount(caller: Caller): void {
  const isAtConsole = caller.atMost?.('admin', null) === true;
  const isPerson = caller.kind === 'person';
  if ((isPerson && isAtConsole && !caller.ended) || may(caller, 'admin', null)) return;
  throw new SvcError(
    'FORBIDDEN',
    isPerson ? 'This is for people with an account, at the console.' : caller.refusal(null),
  );
}

/** Whether somebody may give or take a role in an app: nobody gives more than they have. A role of its manifest is less than `editor`. */
export function mayGive(caller: Pick<Caller, 'grants' | 'atMost'>, role: string, app: string): boolean {
  return RIGHTS[isAppRole(role) ? role : 'editor'].every((right) => may(caller, right, app));
}

/** Whether somebody has a role in an app, or one that allows more. */
export function hasRole(caller: Pick<Caller, 'grants' | 'atMost'>, role: string, app: string): boolean {
  return mayGive(caller, role, app) || definedRolesIn(caller.grants, app).includes(role);
}

/** How much a role in an app allows: `viewer` the least, then those of its manifest, `editor` and `manager`. */
export function strengthOf(role: string): number {
  return isAppRole(role) ? { viewer: 0, editor: 2, manager: 3 }[role] : 1;
}

/** What a role gives in these apps. Who manages an app may open a workspace. */
export function grantsFor(role: string, apps: (id: string) => boolean): Grant[] {
  if (!isAppRole(role)) return [{ ...lastingGrant({ apps }, RIGHTS.defined), role }];
  const grant = lastingGrant({ apps }, RIGHTS[role]);
  return role === 'manager' ? [grant, lastingGrant({ key: null }, ['manage'])] : [grant];
}

/** Whether a role is one that every app has; others are of its manifest. */
export function isAppRole(role: string): role is AppRole {
  return (APP_ROLES as readonly string[]).includes(role);
}

/** The strongest role that every app has of which these grants give all; null for none. */
export function roleIn(grants: readonly Grant[], app: string): AppRole | null {
  const has = (role: AppRole) =>
    grants.some(
      (one) =>
        one.role === undefined &&
        one.isGood() &&
        covers(one, app) &&
        RIGHTS[role].every((capability) => one.rights.includes(capability)),
    );
  return APP_ROLES.findLast(has) ?? null;
}

/** The roles of an app's manifest that these grants give. */
export function definedRolesIn(grants: readonly Grant[], app: string): string[] {
  return grants.flatMap((one) => (one.role !== undefined && covers(one, app) && one.isGood() ? one.role : []));
}

function covers({ on, rights }: Grant, app: string | null): boolean {
  if (on === 'everything') return true;
  if ('key' in on) return app === on.key;
  if (app !== null && isDraftKey(app) && !rights.includes('manage')) return false;
  return on.apps === null || (app !== null && on.apps(appOfKey(app)));
}
