/** What the caller may do with polls, beside what the gateway has checked: that their role allows the tool. */

/** Callers without an account that act for the administrator. An agent may be asked by anybody, and a visitor is nobody. */
const OF_ADMINISTRATOR = new Set(['admin', 'session', 'token', 'automation']);

const isAdministrator = ({ user, caller }) => !user && OF_ADMINISTRATOR.has(caller.kind);

/** Whether the caller may close and remove a poll: who made it, and who manages the app. */
export function manages(ctx, maker) {
  if (isAdministrator(ctx)) return true;
  const { user } = ctx;
  return user !== null && (user.id === maker || user.role === 'manager' || user.role === 'owner');
}

/** Whether the caller may make a poll: people, the administrator, and an agent for whoever asks it. */
export const makes = (ctx) => ctx.user !== null || isAdministrator(ctx) || ctx.caller.kind === 'agent';

const refusal = (status, code, message, path) => ({ status, body: { code, message, ...(path && { path }) } });

export const SIGN_IN_TO_VOTE = refusal(403, 'UNAUTHENTICATED', 'Sign in to vote: each person has one vote.');
export const SIGN_IN_TO_MAKE = refusal(403, 'UNAUTHENTICATED', 'Sign in to make a poll.');
export const CLOSED = refusal(409, 'CLOSED', 'This poll is closed: votes stay as they are.');
export const NOT_YOURS = refusal(403, 'NOT_YOURS', 'Only who made this poll, or manages the app, can do this.');
export const ONE_CHOICE = refusal(400, 'ONE_CHOICE', 'This poll takes one choice.', '/options');
export const UNKNOWN_OPTION = refusal(400, 'UNKNOWN_OPTION', 'This is no option of the poll.', '/options');
export const SAME_OPTION = refusal(400, 'SAME_OPTION', 'Two options are the same: change one of them.', '/options');
export const PAST = refusal(400, 'PAST', 'This time has passed: choose a later one.', '/closesAt');
export const unknownPoll = (id) => refusal(404, 'UNKNOWN_POLL', `There is no poll ${id}; it may have been removed.`);
