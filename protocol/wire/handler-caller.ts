/** Defines the caller of a handler, `ctx.caller` (decisions, section 11), and its form in a dispatch. */

/**
 * The administrator's token; a browser that is signed in or that an embedding host allows; a token for a program; a visitor
 * without a token; an agent's turn; an automation. A dispatch holds the index in this list.
 */
export const CALLER_KINDS = ['admin', 'session', 'token', 'public', 'agent', 'automation'] as const;

/** `name` is that of the token, the runner of the agent, or the ref of the automation; the other kinds have none. */
export type HandlerCaller = { readonly kind: (typeof CALLER_KINDS)[number]; readonly name?: string };

export const ADMIN_CALLER: HandlerCaller = { kind: 'admin' };

export function isSameCaller(one: HandlerCaller, other: HandlerCaller): boolean {
  return one.kind === other.kind && one.name === other.name;
}
