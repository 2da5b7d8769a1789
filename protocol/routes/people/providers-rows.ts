/** The routes by which people sign in with OpenID providers (specification, "Signing in"). */
import { LIMITS } from '../../limits.ts';
import { flag, listOf, object, orNull, text, textOrNull } from '../../shapes/schema.ts';
import { deleted, TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { COOKIE, SIGNED_IN, SIGNED_IN_EXAMPLE } from './accounts-rows.ts';
import { HOSTED } from './pieces.ts';

const OF_PROVIDER = { provider: 'Its name in `signIn.providers` of the configuration' };
const FAULTS = {
  NOT_FOUND: 'there is no such provider, or the host of this gateway authenticates callers',
  FETCH_FAILED: 'the provider does not answer, or not as it should',
};

export const beginProvider = row({
  method: 'POST',
  path: '/svc/_auth/provider/:provider',
  needs: 'anyone',
  title: 'Begin to sign in at a provider',
  does: `Answers where the browser goes to sign in. It must be back, with the cookie of this answer, within ${LIMITS.providerFlowMs / 60_000} minutes.`,
  params: OF_PROVIDER,
  body: object(
    {},
    {
      invitation: { ...text, says: 'The code of an invitation to take' },
      link: { ...flag, says: '`true`: link the account of the provider to that of who is signed in' },
    },
  ),
  answer: { json: object({ url: text }), headers: { 'set-cookie': 'ties the way there and back to this browser' } },
  errors: {
    ...FAULTS,
    FORBIDDEN: 'another page asks, nobody signs in at this address, or nobody is signed in to link it',
    FRESH_SIGN_IN_NEEDED: 'it is to be linked',
    UNKNOWN_INVITATION: 'it was used, was withdrawn or has expired',
  },
  example: { url: 'https://id.example.org/authorize?client_id=svc&state=6f3a…' },
});

export const openProvider = row({
  method: 'GET',
  path: '/svc/_auth/provider/:provider/callback',
  needs: 'anyone',
  title: 'Come back from a provider',
  does: 'Leads the browser on to the console, which sends what the provider gave it. Register this address at the provider, at the address of the console.',
  params: OF_PROVIDER,
  answer: { status: 303, headers: { location: 'the console' } },
  errors: HOSTED,
});

export const finishProvider = row({
  method: 'POST',
  path: '/svc/_auth/provider/:provider/callback',
  needs: 'anyone',
  title: 'Sign in with a provider',
  does: 'Asks the provider who signed in there, and signs in whose account it is. It works once, in the browser that began.',
  params: OF_PROVIDER,
  body: object({ query: { ...text, says: 'The query with which the provider sent the browser back' } }),
  answer: { json: SIGNED_IN, headers: COOKIE },
  errors: {
    ...FAULTS,
    FORBIDDEN:
      'it was begun elsewhere or too long ago, it was cancelled, or nobody here has this account of the provider',
    UNKNOWN_INVITATION: 'it was used, was withdrawn or has expired',
    CONFLICT: 'the account of the provider is linked to another person, or another one to this person',
    RATE_LIMITED: 'too many failed sign-ins of this address',
    STORAGE_FULL: '',
  },
  example: SIGNED_IN_EXAMPLE,
});

export const enterByProxy = row({
  method: 'POST',
  path: '/svc/_auth/proxy',
  needs: 'anyone',
  title: 'Sign in by the proxy',
  does: 'Signs in whom the trusted proxy names with this request, and makes an account for who has none. Its word counts here only: from then on the session does.',
  body: object({}),
  answer: { json: SIGNED_IN, headers: COOKIE },
  errors: {
    NOT_FOUND: '`signIn` of the configuration names no proxy, or the host of this gateway authenticates callers',
    FORBIDDEN:
      'the proxy names nobody, or what comes is not to be trusted; or another page asks, or nobody signs in at this address',
    FETCH_FAILED: 'the keys of the proxy cannot be fetched',
    STORAGE_FULL: '',
  },
  example: SIGNED_IN_EXAMPLE,
});

const PERSON = { pid: 'The id of the person, or `me`' };

export const listIdentities = row({
  method: 'GET',
  path: '/svc/_people/:pid/identities',
  needs: 'account',
  title: 'List the linked accounts of a person',
  does: 'Lists the accounts of providers by which a person signs in. Of others, owners may.',
  params: PERSON,
  answer: {
    json: listOf(
      object({
        id: text,
        provider: { ...orNull(text), says: 'Its name. Null: the trusted proxy' },
        email: { ...textOrNull, says: 'The address that it vouched for last' },
        createdAt: TIME,
        lastUsedAt: TIME,
      }),
    ),
  },
  errors: { ...HOSTED, UNKNOWN_PERSON: '' },
  example: [
    {
      id: 'o_7d20b1f4c9aa',
      provider: 'company',
      email: 'ada@example.org',
      createdAt: 1_767_225_600_000,
      lastUsedAt: 1_767_229_200_000,
    },
  ],
});

export const removeIdentity = row({
  method: 'DELETE',
  path: '/svc/_people/:pid/identities/:identity',
  needs: 'account',
  title: 'Unlink an account',
  does: 'Takes an account of a provider away from a person, who signs in with it no more. Of others, owners may.',
  params: { ...PERSON, identity: 'The id of the linked account' },
  answer: { json: deleted({ id: text }) },
  errors: {
    NOT_FOUND: 'the person has no such account, or the host of this gateway authenticates callers',
    UNKNOWN_PERSON: '',
    FRESH_SIGN_IN_NEEDED: "it is one's own",
    CONFLICT: 'it is the only way to sign in of the person who asks',
    STORAGE_FULL: '',
  },
  example: { id: 'o_7d20b1f4c9aa', deleted: true },
});

export const PROVIDERS = resource({
  name: 'Providers',
  page: 'providers',
  about:
    'People sign in with accounts of OpenID providers, or as a trusted proxy knows them, as [signing in](sign-in.md) describes.',
  rows: [beginProvider, openProvider, finishProvider, enterByProxy, listIdentities, removeIdentity],
});
