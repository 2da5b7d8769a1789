/**
 * The page on the way to another page, `/svc/_enter` (specification, "Sessions of browsers"). At the console it asks for a
 * ticket with the console's page key: the cookie alone would not do. At the origin of an app or draft it gives the ticket,
 * which is in the fragment of its address, for a session: the cookie, and the page key, which it keeps.
 */
import { keepPageKey, keyHeaders, withPageKey } from './bridge/page-key.ts';

const UNKEPT = 'The browser did not keep the session. Does it block cookies?';

type Answer = { url?: string; pageKey?: string; to?: string; error?: { message: string } };

const post = (body: object): Promise<Response> =>
  fetch('/svc/_enter', { method: 'POST', headers: keyHeaders(), body: JSON.stringify(body) });

/** Goes nowhere by itself any more: what failed once would fail again. */
function stop(message: string, again: string): void {
  const main = document.querySelector('main') as HTMLElement;
  (main.querySelector('[role=alert]') as HTMLElement).textContent = message;
  (main.querySelector('a') as HTMLAnchorElement).href = again;
  main.hidden = false;
}

async function ask(to: string): Promise<void> {
  const response = await post({ to });
  const { url, error } = (await response.json()) as Answer;
  // Whoever signs in there is sent on.
  if (response.status === 401) location.replace(`/svc/#enter=${encodeURIComponent(to)}`);
  else if (url === undefined) stop(error?.message ?? 'This did not work.', '/svc/');
  else location.replace(withPageKey(url));
}

async function enter(ticket: string): Promise<void> {
  // A ticket is used once, and is of no use in the history.
  history.replaceState(null, '', '/svc/_enter');
  const response = await post({ ticket });
  const { pageKey, to, error } = (await response.json()) as Answer;
  const again = `/svc/_enter?to=${encodeURIComponent(`${location.origin}/`)}`;
  if (pageKey === undefined || to === undefined) return stop(error?.message ?? 'This did not work.', again);
  keepPageKey(pageKey);
  const session = await fetch('/svc/_session', { headers: keyHeaders() });
  if (((await session.json()) as { signedIn?: boolean }).signedIn !== true) return stop(UNKEPT, again);
  location.replace(withPageKey(to));
}

const to = new URLSearchParams(location.search).get('to');
const ticket = new URLSearchParams(location.hash.slice(1)).get('ticket');
const work = ticket !== null ? enter(ticket) : to !== null ? ask(to) : Promise.resolve(location.replace('/'));
work.catch(() => stop('The gateway does not answer.', location.href));
