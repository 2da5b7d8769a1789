/** Makes the callers who came by a link to an app, without an account (specification, "Links"). */
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import { ENDED, ownerOf, type Reach, reached, refusalAt } from './callers.ts';
import type { SignIn } from './cookie.ts';
import { type Caller, type Grant, isAppRole, may, RIGHTS } from './grants.ts';

/** The `path` of what a guest is told whose link has ended. */
export const GUEST = 'guest';

/** What a link gives: one role in one app, until a time in milliseconds since the epoch, or for good. */
export type Link = {
  readonly id: string;
  readonly app: string;
  readonly role: string;
  readonly expiresAt: number | null;
};

/**
 * The guest of a session; null where the link has ended, which `now` says each time it is asked. What goes on for them ends with
 * the link, and where it gives another role. Whoever opens a link again and again stays one client of the limits.
 */
export function guestCaller({ id }: SignIn, now: () => Link | null, reach: Reach, keyless: boolean): Caller | null {
  const link = now();
  if (link === null) return null;
  const { app, role, expiresAt } = link;
  const isGood = () => now()?.role === role;
  const defined = isAppRole(role) ? null : role;
  const grant: Grant = {
    on: { apps: (one) => one === app },
    // An editor without chat: a conversation is somebody's.
    rights: role === 'viewer' ? RIGHTS.viewer : RIGHTS.defined,
    ...(defined !== null && { role: defined }),
    expiresAt,
    isGood,
  };
  const { on, rights } = reached(reach, keyless);
  const page: Grant = { on, rights, expiresAt: null, isGood: () => true };
  const shown: HandlerCaller = { kind: 'guest', ...(defined !== null && { roles: [defined] }) };
  const holding: (() => boolean)[] = [];
  return {
    kind: 'guest',
    shown: () => shown,
    owner: ownerOf(reach),
    byCookie: true,
    client: `link ${link.id}`,
    identity: `guest ${id}`,
    grants: [grant],
    get ended() {
      return !isGood() || holding.some((holds) => !holds());
    },
    relies: (holds) => holding.push(holds),
    atMost: (capability, of) => may({ grants: [page] }, capability, of),
    keyless,
    refusal(of) {
      if (!isGood()) return ENDED;
      if (keyless) return refusalAt(reach, keyless, of) ?? ENDED;
      return `Who came by this link is ${role} of "${app.slice(0, 80)}", and this needs more. Sign in to use what is yours.`;
    },
  };
}
