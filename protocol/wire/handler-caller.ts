/** Defines the caller of a handler, `ctx.caller` and `ctx.user` (specification, "Who calls"), and its form in a dispatch. */

/**
 * The administrator's token; a browser that is signed in or that an embedding host allows; a token for a program; a visitor
 * without a token; an agent's turn; an automation; a person whom an embedding host names. A dispatch holds the index in this list.
 */
export const CALLER_KINDS = ['admin', 'session', 'token', 'public', 'agent', 'automation', 'person'] as const;

/** The person who calls, `ctx.user`. `role` is `owner` for an owner of the gateway, else the role in this app. */
export type HandlerUser = {
  readonly id: string;
  readonly name: string;
  readonly email?: string;
  readonly role: string;
};

/**
 * `name` is that of the token, the runner of the agent, the ref of the automation, or that of the person; the other kinds have
 * none. `user` is there for a person only; handlers see it as `ctx.user`, and not in `ctx.caller`.
 */
export type HandlerCaller = {
  readonly kind: (typeof CALLER_KINDS)[number];
  readonly name?: string;
  readonly user?: HandlerUser;
};

export const ADMIN_CALLER: HandlerCaller = { kind: 'admin' };

/** What a dispatch says of a caller beside its kind: JSON text of a person, else the name or nothing. */
export function callerText({ name = '', user }: HandlerCaller): string {
  return user === undefined ? name : JSON.stringify(user);
}

/** Tells callers apart: two with the same key see the same in `ctx.caller` and `ctx.user`. */
export function callerKey(caller: HandlerCaller): string {
  return `${caller.kind}\0${callerText(caller)}`;
}

export function isSameCaller(one: HandlerCaller, other: HandlerCaller): boolean {
  return one === other || (one.kind === other.kind && callerText(one) === callerText(other));
}
