/** The routes of passkeys: those by which people sign in, and the ones that an account has (specification, "Signing in"). */
import { LIMITS } from '../../limits.ts';
import { closed, flag, listOf, object, text } from '../../shapes/schema.ts';
import { deleted, TIME, TIME_OR_NULL } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { SIGNED_IN, SIGNED_IN_EXAMPLE } from './accounts-rows.ts';
import { MADE, NEW_OPTIONS, OPTIONS, USED } from './passkey-pieces.ts';
import { HOSTED, NAME, PERSON_EXAMPLE } from './pieces.ts';

/** The cookie by which the browser that gets a challenge is known when it answers. */
const COOKIE = { 'set-cookie': 'by which the answer is known to come from the same browser' };
const SIGNS_IN = { 'set-cookie': 'the session cookie' };
const ELSEWHERE = {
  FORBIDDEN: 'another page asks, nobody signs in at this address, or it has no name but a number',
} as const;
const NOT_AS_ASKED = 'the passkey is not of this browser, this address and the options, or that was too long ago';
const OPTIONS_EXAMPLE = { challenge: 'fUrG…', timeout: LIMITS.passkeyMs };
const NEW_EXAMPLE = {
  ...OPTIONS_EXAMPLE,
  rp: { id: 'apps.example.org', name: 'apps.example.org' },
  user: { id: 'pN3x…', name: 'ada@example.org', displayName: 'Ada' },
  pubKeyCredParams: [{ type: 'public-key', alg: -7 }],
  excludeCredentials: [],
  authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
  attestation: 'none',
};

export const passkeyOptions = row({
  method: 'POST',
  path: '/svc/_auth/passkey/options',
  needs: 'anyone',
  title: 'Begin to sign in with a passkey',
  does: 'Answers the options for `navigator.credentials.get`. They name nobody: the device says whose passkey it has.',
  body: object({}),
  answer: { json: OPTIONS, headers: COOKIE },
  errors: { ...HOSTED, ...ELSEWHERE },
  example: { ...OPTIONS_EXAMPLE, rpId: 'apps.example.org', userVerification: 'required' },
});

export const enterPasskey = row({
  method: 'POST',
  path: '/svc/_auth/passkey',
  needs: 'anyone',
  title: 'Sign in with a passkey',
  does: 'Signs a person in, at the console or a shared address. The answer is the same for an unknown passkey and a person who may not sign in.',
  body: object({ passkey: USED }),
  answer: { json: SIGNED_IN, headers: SIGNS_IN },
  errors: {
    ...HOSTED,
    ...ELSEWHERE,
    UNAUTHORIZED: `there is no such passkey, or ${NOT_AS_ASKED}`,
    CONFLICT: 'the account changed meanwhile',
    RATE_LIMITED: 'too many failed sign-ins of this address',
    STORAGE_FULL: '',
  },
  example: SIGNED_IN_EXAMPLE,
});

export const joinOptions = row({
  method: 'POST',
  path: '/svc/_auth/join/options',
  needs: 'anyone',
  title: 'Begin to join with a passkey',
  does: 'Answers the options for `navigator.credentials.create`, for who [takes an invitation](http-accounts.md#take-an-invitation). This does not use it up.',
  body: object({ code: text }, { name: { ...NAME, says: 'Of a new account' } }),
  answer: { json: NEW_OPTIONS, headers: COOKIE },
  errors: {
    ...HOSTED,
    ...ELSEWHERE,
    BAD_REQUEST: '`name` is missing',
    UNKNOWN_INVITATION: 'it was used, was withdrawn or has expired',
  },
  example: NEW_EXAMPLE,
});

export const newPasskeyOptions = row({
  method: 'POST',
  path: '/svc/_auth/passkeys/options',
  needs: 'account',
  title: 'Begin to add a passkey',
  does: 'Answers the options for `navigator.credentials.create`, for the person who asks.',
  body: object({}),
  answer: { json: NEW_OPTIONS, headers: COOKIE },
  errors: { ...HOSTED, ...ELSEWHERE, FRESH_SIGN_IN_NEEDED: '', CONFLICT: 'there are too many' },
  example: NEW_EXAMPLE,
});

const PASSKEY = object({
  id: text,
  name: text,
  host: { ...text, says: 'The host at which it signs in' },
  synced: { ...flag, says: "It is on more of its owner's devices, or in a password manager" },
  createdAt: TIME,
  lastUsedAt: TIME_OR_NULL,
});
const EXAMPLE = {
  id: 'k_7d20c4e19b3f',
  name: 'Chrome on Linux',
  host: 'apps.example.org',
  synced: false,
  createdAt: PERSON_EXAMPLE.createdAt,
  lastUsedAt: PERSON_EXAMPLE.lastSeenAt,
};
const PASSKEY_NAME = { ...NAME, says: 'What the browser calls itself where it is left out' } as const;

export const addPasskey = row({
  method: 'POST',
  path: '/svc/_auth/passkeys',
  needs: 'account',
  title: 'Add a passkey',
  does: 'Gives the person who asks a passkey.',
  body: object({ passkey: MADE }, { name: PASSKEY_NAME }),
  answer: { status: 201, json: PASSKEY },
  errors: {
    ...HOSTED,
    ...ELSEWHERE,
    BAD_REQUEST: NOT_AS_ASKED,
    CONFLICT: 'it is there already, or there are too many',
    STORAGE_FULL: '',
  },
  example: EXAMPLE,
});

const PID = { pid: 'The id of the person, or `me`' };
const PASSKEY_ID = { ...PID, passkey: 'The id of the passkey' };
const OWN = ' Of others, owners may.';

export const listPasskeys = row({
  method: 'GET',
  path: '/svc/_people/:pid/passkeys',
  needs: 'account',
  title: 'List the passkeys of a person',
  does: `Lists the passkeys of a person, the oldest first.${OWN}`,
  params: PID,
  answer: { json: listOf(PASSKEY) },
  errors: { ...HOSTED, UNKNOWN_PERSON: '' },
  example: [EXAMPLE],
});

export const renamePasskey = row({
  method: 'PATCH',
  path: '/svc/_people/:pid/passkeys/:passkey',
  needs: 'account',
  title: 'Rename a passkey',
  does: `Gives a passkey another name.${OWN}`,
  params: PASSKEY_ID,
  body: closed({ name: NAME }),
  answer: { json: PASSKEY },
  errors: { ...HOSTED, UNKNOWN_PERSON: '', UNKNOWN_PASSKEY: '', STORAGE_FULL: '' },
  example: { ...EXAMPLE, name: 'Laptop' },
});

export const removePasskey = row({
  method: 'DELETE',
  path: '/svc/_people/:pid/passkeys/:passkey',
  needs: 'account',
  title: 'Remove a passkey',
  does: `Removes a passkey: it signs nobody in any more. Who is signed in with it stays so. One's own last way to sign in stays, too.${OWN}`,
  params: PASSKEY_ID,
  answer: { json: deleted({ id: text }) },
  errors: {
    ...HOSTED,
    UNKNOWN_PERSON: '',
    UNKNOWN_PASSKEY: '',
    FRESH_SIGN_IN_NEEDED: "it is one's own",
    CONFLICT: "it is one's own last way to sign in",
    STORAGE_FULL: '',
  },
  example: { id: EXAMPLE.id, deleted: true },
});

export const PASSKEYS = resource({
  name: 'Passkeys',
  page: 'passkeys',
  about: `A passkey is a key pair of which a device or a password manager has the private half. It signs in at one host, so an address that is a number has none. Each ceremony of WebAuthn begins with options, which one answer of the same browser may use, within ${LIMITS.passkeyMs / 60_000} minutes.`,
  rows: [
    passkeyOptions,
    enterPasskey,
    joinOptions,
    newPasskeyOptions,
    addPasskey,
    listPasskeys,
    renamePasskey,
    removePasskey,
  ],
});
