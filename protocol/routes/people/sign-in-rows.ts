/** The routes that sign browsers in and out (specification, "Sessions of browsers" and "Page key"). */
import { LIMITS } from '../../limits.ts';
import { flag, integer, listOf, type Of, object, oneOf, orNull, text, textOrNull, words } from '../../shapes/schema.ts';
import { TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { PERSON, PERSON_EXAMPLE } from './pieces.ts';

const HOUR_MS = 3_600_000;
/** How long sign-ins last, the least of which is usual. The configuration has the same. */
export const SIGN_IN_HOURS = integer(LIMITS.sessionMs / HOUR_MS, LIMITS.sessionMaxMs / HOUR_MS);

const OK = { ok: { const: true } } as const;
const PAGE_KEY = {
  ...text,
  says: 'The [page key](http-api.md#the-page-key), which is needed beside the cookie',
} as const;
const SESSION = { ...OK, expiresAt: TIME, pageKey: PAGE_KEY } as const;
const COOKIE = { 'set-cookie': 'the session cookie' };
const LENGTH = object({
  hours: SIGN_IN_HOURS,
  setBy: { ...oneOf('configuration', 'console'), says: 'Where it can be changed' },
});
export type SignInLength = Of<typeof LENGTH>;

const WAYS = object({
  passwords: flag,
  passkeys: flag,
  providers: { ...listOf(object({ name: text })), says: 'The providers that `signIn` of the configuration names' },
  proxy: { ...flag, says: 'This request comes with the word of the trusted proxy on who asks' },
});

/** Where the host authenticates callers. */
const HOSTED = { NOT_FOUND: 'the host of this gateway authenticates callers' };
const SESSION_EXAMPLE = { ok: true, expiresAt: 1_767_268_800_000, pageKey: '9b1e…' };

export const signIn = row({
  method: 'POST',
  path: '/svc/_session',
  needs: 'anyone',
  title: 'Sign in',
  does: 'Signs a browser in, at the console or a shared address, with the access token as Bearer or with a one-time link.',
  headers: { authorization: '`Bearer` and the access token; without it `link` is needed' },
  body: object({}, { link: { ...text, says: 'The code of a one-time link' } }),
  answer: { json: object(SESSION), headers: COOKIE },
  errors: { ...HOSTED, UNAUTHORIZED: '', FORBIDDEN: 'the token of a program, or an address where nobody signs in' },
  example: SESSION_EXAMPLE,
});

export const showSignIn = row({
  method: 'GET',
  path: '/svc/_session',
  needs: 'anyone',
  title: 'Show the sign-in',
  does: 'Says whether this browser is signed in at this address, and as whom.',
  answer: {
    json: object(
      {
        signedIn: { ...flag, says: 'Cookie and page key are right' },
        place: {
          ...oneOf('console', 'app', 'draft', 'shared', 'loopback', 'embedded'),
          says: "`embedded` is a host's own server; see [origins](http-api.md#origins)",
        },
        console: { ...textOrNull, says: 'The address of the console' },
        people: { ...flag, says: 'There are accounts to sign in to' },
        ways: { ...WAYS, says: 'How people sign in to them' },
        person: {
          ...orNull(object(PERSON)),
          says: 'Whose account it is. Null: nobody is signed in, or a guest or the administrator is',
        },
        guest: { ...flag, says: 'Who came by a [link](people.md#links), to one app' },
      },
      { expiresAt: TIME },
    ),
  },
  errors: HOSTED,
  example: {
    signedIn: true,
    place: 'app',
    console: 'http://svc.localhost:8787/svc/',
    people: true,
    ways: { passwords: true, passkeys: true, providers: [{ name: 'company' }], proxy: false },
    person: PERSON_EXAMPLE,
    guest: false,
    expiresAt: SESSION_EXAMPLE.expiresAt,
  },
});

export const signOut = row({
  method: 'DELETE',
  path: '/svc/_session',
  needs: 'anyone',
  title: 'Sign out',
  does: 'Signs this browser out: here, and with the page key of the console everywhere.',
  answer: { json: object(OK), headers: { 'set-cookie': 'what removes the cookie' } },
  errors: { ...HOSTED, FORBIDDEN: 'another page asks' },
  example: { ok: true },
});

export const showSignInLength = row({
  method: 'GET',
  path: '/svc/_session/length',
  needs: 'admin',
  title: 'Show how long sign-ins last',
  does: 'Answers how long sign-ins last that begin from now on.',
  answer: { json: LENGTH },
  errors: HOSTED,
  example: { hours: SIGN_IN_HOURS.minimum, setBy: 'console' },
});

export const setSignInLength = row({
  method: 'PUT',
  path: '/svc/_session/length',
  needs: 'admin',
  title: 'Set how long sign-ins last',
  does: 'Sets how long sign-ins last that begin from now on.',
  body: object({ hours: SIGN_IN_HOURS }),
  answer: { json: LENGTH },
  errors: { ...HOSTED, CONFLICT: 'the configuration sets it', STORAGE_FULL: '' },
  example: { hours: 168, setBy: 'console' },
});

export const makeSignInLink = row({
  method: 'POST',
  path: '/svc/_session/links',
  needs: 'admin',
  title: 'Make a link that signs in',
  does: `Makes a link that signs one browser in, once, within ${LIMITS.linkMs / 60_000} minutes.`,
  body: object(
    {},
    { open: { ...words(LIMITS.textChars), says: "What it opens: an app's id, or `_draft/<workspace>/<app>`" } },
  ),
  answer: { status: 201, json: object({ url: text, expiresAt: TIME }) },
  errors: { ...HOSTED, INVALID_ID: '', RESERVED_ID: '' },
  example: { url: 'http://svc.localhost:8787/svc/#link=6f3a…&open=todos', expiresAt: 1_767_226_200_000 },
});

export const openEntrance = row({
  method: 'GET',
  path: '/svc/_enter',
  needs: 'anyone',
  title: 'Open the way to a page',
  does: 'Answers a page that leads the browser to another one, by the console.',
  query: object({}, { to: { ...text, says: 'The address of the page' } }),
  answer: { media: 'text/html', also: { 303: 'to the same address of the console' } },
  errors: HOSTED,
});

export const enter = row({
  method: 'POST',
  path: '/svc/_enter',
  needs: 'anyone',
  title: 'Enter a page',
  does: 'Takes a sign-in from the console to the origin of a page: the console asks for a ticket with `to`, and the origin takes the `ticket` for a cookie and a page key of its own.',
  body: object({}, { to: { ...text, says: 'The address of the page' }, ticket: { ...text, says: 'Works once' } }),
  answer: {
    json: {
      anyOf: [
        object({ url: { ...text, says: 'Of `to`: the address that enters the page, with the ticket after the `#`' } }),
        object({ ...SESSION, to: { ...text, says: 'Of `ticket`: the path of the page' } }),
      ],
    },
    headers: { 'set-cookie': 'the session cookie, of `ticket`' },
  },
  errors: {
    ...HOSTED,
    BAD_REQUEST: 'this gateway has no page at `to`',
    UNAUTHORIZED: 'nobody is signed in, or the ticket is not good here',
    FORBIDDEN: 'another page asks',
  },
  example: { ...SESSION_EXAMPLE, to: '/' },
});

export const SIGN_IN = resource({
  name: 'Signing in',
  page: 'sign-in',
  about:
    'What these routes are for is in [signing in with a browser](http-api.md#signing-in-with-a-browser). Programs send a token instead.',
  rows: [signIn, showSignIn, signOut, showSignInLength, setSignInLength, makeSignInLink, openEntrance, enter],
});
