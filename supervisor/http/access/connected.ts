/** Makes the callers that are programs which somebody connected to an MCP address (specification, "Connected programs"). */
import { appOfKey } from '../../../protocol/ids.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import { ENDED } from './callers.ts';
import {
  type Caller,
  definedRolesIn,
  type Grant,
  hasRole,
  isAppRole,
  may,
  RIGHTS,
  roleIn,
  strengthOf,
} from './grants.ts';
import { AccountCaller, type Known } from './person.ts';

/**
 * What it was given: a role in the app or draft of the key `app`, or with null in every app, until a time. A role of a manifest is
 * for one live app.
 */
type Given = {
  readonly id: string;
  readonly name: string;
  readonly app: string | null;
  readonly role: string;
  readonly expiresAt: number;
  /** False once it was taken back. */
  isGood(): boolean;
};

/**
 * The program acts for the person of `known`, and may do no more than they may now; null where they may not sign in. Without `known`
 * it acts for the administrator.
 */
export function connectedCaller(given: Given, known: (() => Known | null) | null): Caller | null {
  const { app, role, expiresAt } = given;
  const on = app === null ? { apps: null } : { key: app };
  const grant: Grant = {
    on,
    rights: RIGHTS[isAppRole(role) ? role : 'defined'],
    expiresAt,
    isGood: () => given.isGood(),
  };
  if (known === null) return ofAdministrator(given, grant);
  const now = known();
  return now === null ? null : new ConnectedCaller(now, known, given, grant);
}

function ofAdministrator(given: Given, grant: Grant): Caller {
  const { name, role } = given;
  const shown: HandlerCaller = { kind: 'token', name, ...(!isAppRole(role) && { roles: [role] }) };
  const client = `connection ${given.id}`;
  return {
    kind: 'token',
    shown: () => shown,
    owner: null,
    client,
    identity: client,
    grants: [grant],
    get ended() {
      return !given.isGood();
    },
    refusal: () => (given.isGood() ? limitOf(given) : ENDED),
  };
}

class ConnectedCaller extends AccountCaller {
  readonly #given: Given;

  constructor(known: Known, now: () => Known | null, given: Given, grant: Grant) {
    const { app: key, role } = given;
    // Of two roles of a manifest none is less: one that its person has no more is worth nothing.
    const isHad = () => key === null || isAppRole(role) || hasRole({ grants: now()?.grants ?? [] }, role, key);
    super(known, {
      now,
      owner: null,
      client: `connection ${given.id}`,
      atMost: (capability, app) => may({ grants: [grant] }, capability, app) && isHad(),
      limit: () => limitOf(given),
    });
    this.#given = given;
  }

  override refusal(app: string | null): string {
    const { grants } = this;
    const general = app === null ? null : roleIn(grants, appOfKey(app));
    const own = app === null ? [] : [...definedRolesIn(grants, appOfKey(app)), ...(general === null ? [] : [general])];
    const hasMore = this.person.role === 'owner' || own.some((role) => isLess(this.#given.role, role));
    return hasMore && !this.ended ? limitOf(this.#given) : super.refusal(app);
  }

  /** Handlers see a person with no more than the role that the program was given. */
  override shown(app: string): HandlerCaller {
    const { user, ...rest } = super.shown(app);
    if (user === undefined) return rest;
    const { role } = this.#given;
    if (!isAppRole(role)) return { ...rest, user: { ...user, role }, roles: [role] };
    const isOwn = user.role !== 'owner' && isLess(user.role, role);
    return { ...rest, user: isOwn ? user : { ...user, role } };
  }
}

function isLess(role: string, other: string): boolean {
  return strengthOf(role) < strengthOf(other);
}

function limitOf({ name, role }: Given): string {
  return `“${name}” was connected as ${role} of its address, and this needs more. Connect it again to give it more.`;
}
