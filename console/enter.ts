/**
 * The page on the way to another page, `/svc/_enter` (specification, "Sessions of browsers"). At the console it asks for a
 * ticket with the console's page key: the cookie alone would not do. At the origin of an app or draft it gives the ticket,
 * which is in the fragment of its address, for a session: the cookie, and the page key, which it keeps.
 */
import type { ErrorBody } from '../protocol/errors.ts';
import type { Received, Sent } from '../protocol/routes/api.ts';
import { keepPageKey, keyHeaders, withPageKey } from './bridge/page-key.ts';

const UNKEPT = 'The browser did not keep the session. Does it block cookies?';

type Answer = Received<'POST /svc/_enter'> | { error: ErrorBody };
type Session = Received<'GET /svc/_session'>;

/** Without the client of the console, which would make this page several times as large. */
const post = (body: Sent<'POST /svc/_enter'>['body']): Promise<Response> =>
  fetch('/svc/_enter', { method: 'POST', headers: keyHeaders(), body: JSON.stringify(body) });

const reasonIn = (answer: Answer): string => ('error' in answer ? answer.error.message : 'This did not work.');

/** Goes nowhere by itself any more: what failed once would fail again. */
function stop(message: string, again: string): void {
  const main = document.querySelector('main') as HTMLElement;
  (main.querySelector('[role=alert]') as HTMLElement).textContent = message;
  (main.querySelector('a') as HTMLAnchorElement).href = again;
  main.hidden = false;
}

async function ask(to: string): Promise<void> {
  const response = await post({ to });
  const answer = (await response.json()) as Answer;
  // Whoever signs in there is sent on.
  if (response.status === 401) location.replace(`/svc/#enter=${encodeURIComponent(to)}`);
  else if ('url' in answer) location.replace(withPageKey(answer.url));
  else stop(reasonIn(answer), '/svc/');
}

async function enter(ticket: string): Promise<void> {
  // A ticket is used once, and is of no use in the history.
  history.replaceState(null, '', '/svc/_enter');
  const response = await post({ ticket });
  const answer = (await response.json()) as Answer;
  const again = `/svc/_enter?to=${encodeURIComponent(`${location.origin}/`)}`;
  if (!('pageKey' in answer)) return stop(reasonIn(answer), again);
  keepPageKey(answer.pageKey);
  const session = await fetch('/svc/_session', { headers: keyHeaders() });
  if (((await session.json()) as Partial<Session>).signedIn !== true) return stop(UNKEPT, again);
  location.replace(withPageKey(answer.to));
}

const to = new URLSearchParams(location.search).get('to');
const ticket = new URLSearchParams(location.hash.slice(1)).get('ticket');
const work = ticket !== null ? enter(ticket) : to !== null ? ask(to) : Promise.resolve(location.replace('/'));
work.catch(() => stop('The gateway does not answer.', location.href));
