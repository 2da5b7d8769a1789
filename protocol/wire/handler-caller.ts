/** Defines the caller of a handler, `ctx.caller` and `ctx.user` (specification, "Who calls"), and its form in a dispatch. */

/**
 * The administrator's token; a browser that is signed in or that an embedding host allows; a token for a program; a visitor
 * without a token; an agent's turn; an automation; a person; a guest who came by a link. A dispatch holds the index in this list.
 */
export const CALLER_KINDS = ['admin', 'session', 'token', 'public', 'agent', 'automation', 'person', 'guest'] as const;

/** The person who calls, `ctx.user`. `picture` is the path of one at the app's origin. `role` is `owner` for an owner of the gateway, else the role in this app. */
export type HandlerUser = {
  readonly id: string;
  readonly name: string;
  readonly email?: string;
  readonly picture?: string;
  readonly role: string;
};

/** A person as what they caused names them. */
export type NamedPerson = Pick<HandlerUser, 'id' | 'name'>;

/**
 * `name` is that of the token, the runner of the agent, the ref of the automation, or that of the person; the other kinds have
 * none. `user` is there for a person, and for an agent in a turn that one asked for; handlers see it as `ctx.user`, and not in
 * `ctx.caller`.
 */
export type HandlerCaller = {
  readonly kind: (typeof CALLER_KINDS)[number];
  readonly name?: string;
  readonly user?: HandlerUser;
  /**
   * The roles of which one has to allow the tool: those of the app's manifest, and `viewer`. Absent where no tool is refused. It
   * stays in the supervisor.
   */
  readonly roles?: readonly string[];
};

export const ADMIN_CALLER: HandlerCaller = { kind: 'admin' };

/** Somebody who is shown to one handler is so to the next. */
const texts = new WeakMap<HandlerUser, string>();

/**
 * What a dispatch says of a caller beside its kind: JSON text of a person, else the name or nothing. Of an agent the text of the
 * person who asked it follows its name in a line of its own, empty where none did.
 */
export function callerText({ kind, name = '', user }: HandlerCaller): string {
  if (kind === 'agent') return `${name}\n${user === undefined ? '' : textOf(user)}`;
  return user === undefined ? name : textOf(user);
}

/** The name and the JSON text of the person in what `callerText` made; the text is empty where there is no person. */
export function readCallerText(kind: HandlerCaller['kind'], text: string): { name: string; user: string } {
  if (kind === 'person') return { name: '', user: text };
  if (kind !== 'agent') return { name: text, user: '' };
  // JSON text has no line end, and the name may.
  const end = text.lastIndexOf('\n');
  return { name: text.slice(0, end), user: text.slice(end + 1) };
}

/** The person who caused what a caller does. */
export function causeOf({ user }: { readonly user?: HandlerUser | undefined }): { by?: NamedPerson } {
  return user === undefined ? {} : { by: { id: user.id, name: user.name } };
}

function textOf(user: HandlerUser): string {
  let text = texts.get(user);
  if (text === undefined) {
    text = JSON.stringify(user);
    texts.set(user, text);
  }
  return text;
}

/** Tells callers apart: two with the same key see the same in `ctx.caller` and `ctx.user`. */
export function callerKey(caller: HandlerCaller): string {
  return `${caller.kind}\0${callerText(caller)}`;
}

export function isSameCaller(one: HandlerCaller, other: HandlerCaller): boolean {
  return one === other || (one.kind === other.kind && callerText(one) === callerText(other));
}
