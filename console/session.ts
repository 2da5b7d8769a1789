/** The browser's session: whether there is one, signing in and out, and where the address asked to go on to. */
import { type Given, requestOf } from '../protocol/http/client.ts';
import { refusal } from '../protocol/http/gateway-error.ts';
import type { Received, Sent } from '../protocol/routes/api.ts';
import { keepPageKey, keyHeaders, withPageKey } from './bridge/page-key.ts';
import { GatewayError, gateway } from './gateway.ts';
import { usePasskey } from './people/passkeys.ts';

export type Session = Received<'GET /svc/_session'>;

/** An app, or a draft of one. */
const PAGE = /^(?:_draft\/[A-Za-z0-9][A-Za-z0-9_-]{0,63}\/)?[a-z0-9][a-z0-9_-]{0,62}$/;

/**
 * `#link=<code>` signs in once, `#open=<page>` goes on to an app or a draft, `#enter=<address>` to an address that asked for a
 * session, `#invitation=<code>` takes an invitation, `#guest=<code>` opens a link to an app, `#authorize=<request>` asks whether a program may be connected,
 * `#provider=<name>&query=<query>` brings what a provider of sign-ins gave. None of it reaches a server or stays in the history.
 * `#chat=<app>` is the address of a conversation in earlier versions.
 */
type Errand = {
  link: string | null;
  invitation: string | null;
  guest: string | null;
  authorize: string | null;
  provider: FromProvider | null;
  onward: string | null;
};

/** `query` is what the provider sent the browser back with. */
export type FromProvider = { name: string; query: string };

export function takeErrand(): Errand {
  if (!location.hash.startsWith('#') || location.hash.startsWith('#/'))
    return { link: null, invitation: null, guest: null, authorize: null, provider: null, onward: null };
  const fragment = new URLSearchParams(location.hash.slice(1));
  const chat = fragment.get('chat');
  const kind = fragment.has('conversation') ? 'conversation' : 'window';
  const id = fragment.get(kind);
  const view = chat ? `#/apps/${encodeURIComponent(chat)}/chat${id ? `?${kind}=${encodeURIComponent(id)}` : ''}` : '';
  history.replaceState(null, '', `${location.pathname}${view}`);
  const provider = fragment.get('provider');
  return {
    link: fragment.get('link'),
    invitation: fragment.get('invitation'),
    guest: fragment.get('guest'),
    authorize: fragment.get('authorize'),
    provider: provider === null ? null : { name: provider, query: fragment.get('query') ?? '' },
    onward: onwardOf(fragment),
  };
}

/** Pages of this gateway only. */
function onwardOf(fragment: URLSearchParams): string | null {
  const page = fragment.get('open');
  if (page !== null) return PAGE.test(page) ? `/svc/${page}/` : null;
  const address = fragment.get('enter');
  if (address === null || !URL.canParse(address, location.origin)) return null;
  const { protocol, host, href } = new URL(address, location.origin);
  const isOurs = protocol === location.protocol && (host === location.host || host.endsWith(`.${location.host}`));
  return isOurs ? href : null;
}

/**
 * An app's page has an origin with a session of its own, which it gets from the one here: resolves to the address that gives it, once,
 * within 30 seconds.
 */
export async function wayTo(page: string): Promise<string> {
  const answer = await gateway.call('POST /svc/_enter', { body: { to: page } });
  return withPageKey((answer as Extract<typeof answer, { url: string }>).url);
}

/** Resolves to null where the gateway's host asks who calls, and there are no sessions. */
export async function readSession(): Promise<Session | null> {
  try {
    return await gateway.call('GET /svc/_session');
  } catch (error) {
    if (error instanceof GatewayError && error.status === 404) return null;
    throw error;
  }
}

/** The same, after a sign-in by the proxy where that names who asks and nobody is signed in. Rejects where it lets nobody in. */
export async function enterSession(): Promise<Session | null> {
  const session = await readSession();
  if (session === null || session.signedIn || !session.ways.proxy) return session;
  await enterByProxy();
  return readSession();
}

export const enterByProxy = (): Promise<void> => open('POST /svc/_auth/proxy', {});

/** How tokens of programs begin. */
const PROGRAM = 'svct_';

export const signIn = (token: string): Promise<void> =>
  open(
    'POST /svc/_session',
    { body: {} },
    { authorization: `Bearer ${token}` },
    token.startsWith(PROGRAM)
      ? 'This is the token of a program, and the gateway does not know it any more. Sign in with the access token, which “svc token” prints, or with a link of “svc open”.'
      : 'The gateway does not know this token. It may have been rotated.',
  );

export const followLink = (code: string): Promise<void> =>
  open(
    'POST /svc/_session',
    { body: { link: code } },
    {},
    'This link was already used or has expired. Get a new one with “svc open”, or paste the access token.',
  );

export const enterPassword = (email: string, password: string): Promise<void> =>
  open('POST /svc/_auth/password', { body: { email, password } });

export async function enterPasskey(): Promise<void> {
  const passkey = await usePasskey(await gateway.call('POST /svc/_auth/passkey/options'));
  await open('POST /svc/_auth/passkey', { body: { passkey } });
}

/** Takes an invitation, as who is signed in where somebody is. */
export const join = (body: Sent<'POST /svc/_auth/join'>['body']): Promise<void> =>
  open('POST /svc/_auth/join', { body }, keyHeaders());

/** The address of the app of a link, for a guest, or for who is signed in where they have the app. */
export async function openLink(code: string): Promise<string> {
  const { url, pageKey } = await opened('POST /svc/_auth/link', { body: { code } }, keyHeaders());
  if (pageKey !== undefined) keepPageKey(pageKey);
  return withPageKey(url);
}

/** Where what is to be done after a sign-in at a provider waits: with its `state`, so that no other page's sign-in ends here. */
const BEGUN = 'svc:provider';
type Waiting = { onward: string | null; authorize: string | null; view: string | null };
type Begun = Waiting & { state: string | null };
/** `authorize` is what a program asked for, `view` the fragment of the console's view to come back to. */
type Going = { invitation?: string; link?: true } & Partial<Waiting>;

/** Leaves for a provider to sign in there: for an invitation, or to link it to the account of who is signed in. */
export async function goToProvider(
  provider: string,
  { onward = null, authorize = null, view = null, ...body }: Going,
): Promise<void> {
  const { url } = await opened('POST /svc/_auth/provider/:provider', { params: { provider }, body }, keyHeaders());
  const begun: Begun = { state: new URL(url).searchParams.get('state'), onward, authorize, view };
  localStorage.setItem(BEGUN, JSON.stringify(begun));
  location.assign(url);
}

/** What was begun here, for who comes back from a provider; null where it was not begun here. */
export function takeBegun({ query }: FromProvider): Begun | null {
  const begun = JSON.parse(localStorage.getItem(BEGUN) ?? 'null') as Begun | null;
  localStorage.removeItem(BEGUN);
  return begun?.state && begun.state === new URLSearchParams(query).get('state') ? begun : null;
}

/** Signs in who comes back from a provider. */
export const finishProvider = ({ name, query }: FromProvider): Promise<void> =>
  open('POST /svc/_auth/provider/:provider/callback', { params: { provider: name }, body: { query } }, keyHeaders());

export const confirmByPassword = (password: string): Promise<void> => confirm({ password });
export const confirmByProxy = (): Promise<void> => confirm({});

export async function confirmByPasskey(): Promise<void> {
  await confirm({ passkey: await usePasskey(await gateway.call('POST /svc/_auth/passkey/options')) });
}

async function confirm(body: Sent<'POST /svc/_auth/confirm'>['body']): Promise<void> {
  await opened('POST /svc/_auth/confirm', { body }, keyHeaders());
}

type Opening =
  | 'POST /svc/_session'
  | 'POST /svc/_auth/password'
  | 'POST /svc/_auth/passkey'
  | 'POST /svc/_auth/join'
  | 'POST /svc/_auth/proxy'
  | 'POST /svc/_auth/provider/:provider/callback';

/** Without the client, which takes a refusal for the end of the session. Rejects with `unknown` where the gateway knows nothing of it. */
async function open<Key extends Opening>(
  key: Key,
  sent: Sent<Key>,
  headers: Record<string, string> = {},
  unknown?: string,
): Promise<void> {
  const answer = await opened(key, sent, headers, unknown);
  keepPageKey((answer as Received<'POST /svc/_session'>).pageKey);
}

async function opened<
  Key extends Opening | 'POST /svc/_auth/provider/:provider' | 'POST /svc/_auth/link' | 'POST /svc/_auth/confirm',
>(key: Key, sent: Sent<Key>, headers: Record<string, string>, unknown?: string): Promise<Received<Key>> {
  const { method, path, json } = requestOf(key, ...([sent] as Given<Key>));
  const response = await fetch(path, { method, headers, body: JSON.stringify(json) });
  if (response.status === 401 && unknown !== undefined) throw new Error(unknown);
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw refusal(response.status, answer);
  return answer as Received<Key>;
}

/** Ends this sign-in, at the origins of apps too. */
export async function signOut(): Promise<void> {
  await gateway.call('DELETE /svc/_session');
  keepPageKey(null);
}
