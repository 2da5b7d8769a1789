/** The browser's session: whether there is one, signing in and out, and where the address asked to go on to. */
import { get } from '/svc/_console/view.js';

/** An app, or a draft of one. */
const PAGE = /^(?:_draft\/[A-Za-z0-9][A-Za-z0-9_-]{0,63}\/)?[a-z0-9][a-z0-9_-]{0,62}$/;

const APP = /^[a-z0-9][a-z0-9_-]{0,62}$/;
const CONVERSATION = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

/**
 * `#link=<code>` signs in once, `#open=<page>` goes on to an app or a draft, `#enter=<address>` to an address that asked for a
 * session. None of it reaches a server or stays in the history. `#chat=<app>` is a conversation about an app, and stays.
 */
const fragment = new URLSearchParams(location.hash.slice(1));
/** The app that is talked about and, where the address names one, the conversation, as `kind` and `id`; or null. */
export const chat = findChat();
history.replaceState(null, '', `${location.pathname}${chat ? location.hash : ''}`);
// The same address with a new fragment does not load the page again by itself.
addEventListener('hashchange', () => location.reload());

/** The code of a one-time link, or null. */
export const link = fragment.get('link');

/** The address to go on to after signing in, or null: pages of this gateway only. */
export const onward = findOnward();

function findChat() {
  const app = fragment.get('chat');
  if (app === null || !APP.test(app)) return null;
  const kind = fragment.has('conversation') ? 'conversation' : 'window';
  const id = fragment.get(kind);
  return { app, kind, id: id !== null && CONVERSATION.test(id) ? id : null };
}

function findOnward() {
  const page = fragment.get('open');
  if (page !== null) return PAGE.test(page) ? `/svc/${page}/` : null;
  const address = fragment.get('enter');
  if (address === null || !URL.canParse(address, location.origin)) return null;
  const { protocol, host, href } = new URL(address, location.origin);
  const isOurs = protocol === location.protocol && (host === location.host || host.endsWith(`.${location.host}`));
  return isOurs ? href : null;
}

/** Its origin has a session of its own, which it gets from the one here. */
export const goOn = () => location.replace(`/svc/_enter?to=${encodeURIComponent(onward)}`);

/** Resolves to null where the gateway's host asks who calls, and there are no sessions. */
export async function readSession() {
  try {
    return await get('/svc/_session');
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

export const signIn = (token) =>
  open(
    { headers: { authorization: `Bearer ${token}` } },
    'The gateway does not know this token. It may have been rotated.',
  );

export const followLink = (code) =>
  open(
    { body: JSON.stringify({ link: code }) },
    'This link was already used or has expired. Get a new one with “svc open”, or paste the access token.',
  );

/** Rejects with `refusal` where the gateway does not take what it was given. */
async function open(init, refusal) {
  const response = await fetch('/svc/_session', { method: 'POST', ...init });
  if (response.status === 401) throw new Error(refusal);
  if (!response.ok) throw new Error(`The gateway answered with status ${response.status}.`);
}

/** Ends this sign-in, at the origins of apps too. */
export async function signOut() {
  const response = await fetch('/svc/_session', { method: 'DELETE' });
  if (!response.ok) throw new Error(`The gateway answered with status ${response.status}.`);
}
