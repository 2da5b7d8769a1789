/** Whose pages a call is about: nobody sees or changes those of others. */

/** Callers without an account that act for the administrator. An agent may be asked by anybody, and a visitor is nobody. */
const OF_ADMINISTRATOR = new Set(['admin', 'session', 'token', 'automation']);

/** The id of the person who calls, empty for the administrator, null for callers who have no pages: no row is theirs. */
export function ownerOf({ user, caller }) {
  if (user) return user.id;
  return OF_ADMINISTRATOR.has(caller.kind) ? '' : null;
}

/** The answer to those who have no pages. */
export const NO_OWNER = {
  status: 403,
  body: { code: 'UNAUTHENTICATED', message: 'Sign in to write: everybody has pages of their own here.' },
};
