/** The routes by which people sign in to their accounts (specification, "Signing in"). */
import { LIMITS } from '../../limits.ts';
import { listOf, object, text, textOrNull } from '../../shapes/schema.ts';
import { TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { MADE, USED } from './passkey-pieces.ts';
import { APP_ROLE, BY, EMAIL, HOSTED, NAME, PASSWORD, PERSON, PERSON_EXAMPLE, ROLE, TYPED_PASSWORD } from './pieces.ts';

/** The answer to who has signed in. */
export const SIGNED_IN = object({
  ok: { const: true },
  expiresAt: { ...TIME, says: 'When it ends if it is not used again' },
  pageKey: { ...text, says: 'The [page key](http-api.md#the-page-key), which is needed beside the cookie' },
  person: object(PERSON),
});
export const COOKIE = { 'set-cookie': 'the session cookie' };
export const SIGNED_IN_EXAMPLE = {
  ok: true,
  expiresAt: PERSON_EXAMPLE.lastSeenAt,
  pageKey: '9b1e…',
  person: PERSON_EXAMPLE,
};
const ELSEWHERE = {
  FORBIDDEN: 'another page asks, nobody signs in at this address, or `signIn` of the configuration turns passwords off',
};

export const enterPassword = row({
  method: 'POST',
  path: '/svc/_auth/password',
  needs: 'anyone',
  title: 'Sign in with a password',
  does: 'Signs a person in, at the console or a shared address. The answer is the same for an unknown person and a wrong password.',
  body: object({ email: { ...EMAIL, says: 'Of the account' }, password: TYPED_PASSWORD }),
  answer: { json: SIGNED_IN, headers: COOKIE },
  errors: {
    ...HOSTED,
    ...ELSEWHERE,
    UNAUTHORIZED: 'there is no such person, or the password is wrong',
    CONFLICT: 'the password was stored by a newer Node.js',
    RATE_LIMITED: 'too many failed sign-ins of this person or address',
  },
  example: SIGNED_IN_EXAMPLE,
});

export const setPassword = row({
  method: 'PUT',
  path: '/svc/_auth/password',
  needs: 'account',
  title: 'Set the own password',
  does: 'Sets the password of the person who asks, and signs them out in their other browsers. Who has none yet says no `current`, and must have [signed in just now](#confirm-who-is-there).',
  body: object({ password: PASSWORD }, { current: { ...TYPED_PASSWORD, says: 'The one until now, if there is one' } }),
  answer: { json: object(PERSON) },
  errors: {
    ...HOSTED,
    BAD_REQUEST: 'it is too short',
    FORBIDDEN: '`current` is wrong, no person asks, or passwords are off',
    FRESH_SIGN_IN_NEEDED: 'the account has no password yet',
    CONFLICT: 'the account has no e-mail address to sign in with',
    RATE_LIMITED: 'too many wrong ones',
    STORAGE_FULL: '',
  },
  example: PERSON_EXAMPLE,
});

export const confirmAccount = row({
  method: 'POST',
  path: '/svc/_auth/confirm',
  needs: 'account',
  title: 'Confirm who is there',
  does: `Notes that the person who is signed in has shown again who they are. To change how they sign in, and to remove their account, this or the sign-in was at most ${LIMITS.freshSignInMs / 60_000} minutes ago. Without \`password\` and \`passkey\` the trusted proxy says it. Who signs in at a provider signs in there again.`,
  body: object(
    {},
    {
      password: { ...TYPED_PASSWORD, says: 'Of the account' },
      passkey: {
        ...USED,
        says: `${USED.says}, of those [to sign in](http-passkeys.md#begin-to-sign-in-with-a-passkey)`,
      },
    },
  ),
  answer: { json: object({ until: { ...TIME, says: 'When it has to be confirmed again' } }) },
  errors: {
    ...HOSTED,
    ...ELSEWHERE,
    UNAUTHORIZED: 'it is not the password, or a passkey, of this account, or the proxy names nobody or somebody else',
    CONFLICT: 'the session or the passkey was ended meanwhile',
    RATE_LIMITED: 'too many failures',
    STORAGE_FULL: '',
  },
  example: { until: PERSON_EXAMPLE.lastSeenAt + LIMITS.freshSignInMs },
});

export const showInvitation = row({
  method: 'POST',
  path: '/svc/_auth/invitation',
  needs: 'anyone',
  title: 'Look at an invitation',
  does: 'Says what an invitation is for. This does not use it up.',
  body: object({ code: { ...text, says: 'What follows `#invitation=` in its link' } }),
  answer: {
    json: object({
      name: textOrNull,
      email: textOrNull,
      role: ROLE,
      by: BY,
      expiresAt: TIME,
      apps: listOf(
        object(
          { id: text, name: text, role: APP_ROLE },
          { roleName: { ...text, says: 'Of a role of its manifest: its name' }, roleDescription: text },
        ),
      ),
      person: { ...textOrNull, says: 'The name of the person whom the link signs in; null: it makes an account' },
    }),
  },
  errors: { ...HOSTED, UNKNOWN_INVITATION: 'it was used, was withdrawn or has expired' },
  example: {
    name: 'Ada',
    email: null,
    role: 'member',
    by: 'Grace',
    expiresAt: 1_767_830_400_000,
    apps: [{ id: 'todos', name: 'Todos', role: 'editor' }],
    person: null,
  },
});

export const acceptInvitation = row({
  method: 'POST',
  path: '/svc/_auth/join',
  needs: 'anyone',
  title: 'Take an invitation',
  does: 'Makes an account, or adds what the invitation shares to the account of who is signed in, and signs in. A link for a person signs that person in.',
  body: object(
    { code: text },
    {
      name: { ...NAME, says: 'Of a new account' },
      email: { ...EMAIL, says: 'Of a new account, unless the invitation has one' },
      password: { ...PASSWORD, says: `Of a new account, or a new one. ${PASSWORD.says}` },
      passkey: {
        ...MADE,
        says: 'In place of a password, or beside it: a new one, of the [options](http-passkeys.md#begin-to-join-with-a-passkey)',
      },
    },
  ),
  answer: { json: SIGNED_IN, headers: COOKIE },
  errors: {
    ...HOSTED,
    ...ELSEWHERE,
    BAD_REQUEST:
      '`name` is missing, there is neither a `passkey` nor an `email` with a `password`, the password is too short, or the passkey is not as asked',
    UNKNOWN_INVITATION: 'it was used, was withdrawn or has expired',
    CONFLICT: 'another person has this e-mail address',
    STORAGE_FULL: '',
  },
  example: SIGNED_IN_EXAMPLE,
});

export const ACCOUNTS = resource({
  name: 'Accounts',
  page: 'accounts',
  about:
    'The pages of the console sign people in with these routes. A browser is signed in with a cookie and a page key, as with a [link](http-sign-in.md); `GET /svc/_session` says who is signed in, and `DELETE /svc/_session` signs out.',
  rows: [enterPassword, setPassword, confirmAccount, showInvitation, acceptInvitation],
});
