/** The browser's session: whether there is one, signing in and out, and where the address asked to go on to. */
import { requestOf } from '../protocol/http/client.ts';
import { refusal } from '../protocol/http/gateway-error.ts';
import type { Received, Sent } from '../protocol/routes/api.ts';
import { keepPageKey, withPageKey } from './bridge/page-key.ts';
import { GatewayError, gateway } from './gateway.ts';

export type Session = Received<'GET /svc/_session'>;

/** An app, or a draft of one. */
const PAGE = /^(?:_draft\/[A-Za-z0-9][A-Za-z0-9_-]{0,63}\/)?[a-z0-9][a-z0-9_-]{0,62}$/;

/**
 * `#link=<code>` signs in once, `#open=<page>` goes on to an app or a draft, `#enter=<address>` to an address that asked for a
 * session. None of it reaches a server or stays in the history. `#chat=<app>` is the address of a conversation in earlier versions.
 */
type Errand = { link: string | null; onward: string | null };

export function takeErrand(): Errand {
  if (!location.hash.startsWith('#') || location.hash.startsWith('#/')) return { link: null, onward: null };
  const fragment = new URLSearchParams(location.hash.slice(1));
  const chat = fragment.get('chat');
  const kind = fragment.has('conversation') ? 'conversation' : 'window';
  const id = fragment.get(kind);
  const view = chat ? `#/apps/${encodeURIComponent(chat)}/chat${id ? `?${kind}=${encodeURIComponent(id)}` : ''}` : '';
  history.replaceState(null, '', `${location.pathname}${view}`);
  return { link: fragment.get('link'), onward: onwardOf(fragment) };
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

/** How tokens of programs begin. */
const PROGRAM = 'svct_';

export const signIn = (token: string): Promise<void> =>
  open(
    {},
    { authorization: `Bearer ${token}` },
    token.startsWith(PROGRAM)
      ? 'This is the token of a program, and the gateway does not know it any more. Sign in with the access token, which “svc token” prints, or with a link of “svc open”.'
      : 'The gateway does not know this token. It may have been rotated.',
  );

export const followLink = (code: string): Promise<void> =>
  open(
    { link: code },
    {},
    'This link was already used or has expired. Get a new one with “svc open”, or paste the access token.',
  );

type Shown = Sent<'POST /svc/_session'>['body'];

/** Without the client, which takes a refusal for the end of the session. Rejects with `unknown` where the gateway knows nothing of it. */
async function open(shown: Shown, headers: Record<string, string>, unknown: string): Promise<void> {
  const { method, path, json } = requestOf('POST /svc/_session', { body: shown });
  const response = await fetch(path, { method, headers, body: JSON.stringify(json) });
  if (response.status === 401) throw new Error(unknown);
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw refusal(response.status, answer);
  keepPageKey((answer as Received<'POST /svc/_session'>).pageKey);
}

/** Ends this sign-in, at the origins of apps too. */
export async function signOut(): Promise<void> {
  await gateway.call('DELETE /svc/_session');
  keepPageKey(null);
}
