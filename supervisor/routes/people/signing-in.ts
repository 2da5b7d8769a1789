/** What all ways in which people sign in over HTTP share: where they may, the browser that does, and the answer (specification, "Signing in"). */
import { SvcError } from '../../../protocol/errors.ts';
import type { Exchange, ResponseHeaders } from '../../edge/edge.ts';
import type { Access } from '../../http/access/access.ts';
import type { Session, SignIn } from '../../http/access/cookie.ts';
import type { Caller } from '../../http/access/grants.ts';
import { personIdOf } from '../../http/access/person.ts';
import type { Place } from '../../http/access/places.ts';
import { NO_STORE } from '../../http/answers.ts';
import type { Browser } from '../../people/people.ts';
import type { Account } from '../../people/records.ts';
import type { Services } from '../../services.ts';
import { Reply } from '../serve-row.ts';
import { personRow } from './person-row.ts';

/** A request, and the address that it came to. */
export type Asked = { exchange: Exchange; place: Place };

/** Throws `NOT_FOUND` where the host of this gateway handles authentication. */
export function accessOf({ access }: Services): Access {
  if (access === null)
    throw new SvcError(
      'NOT_FOUND',
      'The host of this gateway handles authentication; there are no sessions and no people here.',
    );
  return access;
}

/** Throws `FORBIDDEN` where nobody signs in, and where a page of another site asks: it would sign this browser in as its own. */
export function signsInAt(services: Services, { exchange, place }: Asked): Access {
  const access = accessOf(services);
  if (place.kind !== 'console' && place.kind !== 'shared') throw notHere(place);
  if (!isOwnPage(exchange, place)) throw new SvcError('FORBIDDEN', 'Another page cannot sign this browser in.');
  return access;
}

/** The browser that asks, with the session of a person that it has. */
export function browserOf(services: Services, { exchange, place }: Asked): Browser {
  const session = sessionOf(accessOf(services), exchange, place);
  const before = session !== null && services.accounts.isPersons(session) ? session : undefined;
  return { address: services.addressOf(exchange), device: exchange.header('user-agent') ?? '', before };
}

/** Answers who has signed in, with the cookie and the page key, and notes it in the audit log. */
export async function signedIn(
  services: Services,
  { exchange, place }: Asked,
  account: Account,
  signIn: SignIn,
  by: string,
) {
  const { accounts, addressOf, audit } = services;
  const detail = { address: addressOf(exchange), with: by };
  await audit.record({ kind: 'person', name: account.name }, 'sign-in', account.id, detail);
  const { value, headers } = sessionReply(accessOf(services), exchange, place, { ...signIn, owner: null });
  return new Reply({ ...value, person: personRow(accounts, account) }, headers);
}

/**
 * Throws `FRESH_SIGN_IN_NEEDED` where the person who asks signed in a while ago: whoever finds a browser signed in, or takes its
 * session over, is not to keep the account.
 */
export function demandFresh(services: Services, { exchange, place }: Asked): void {
  const { people } = services.accounts;
  const session = people.session(sessionOf(accessOf(services), exchange, place)?.id ?? '');
  if (session !== undefined && people.isFresh(session)) return;
  throw new SvcError(
    'FRESH_SIGN_IN_NEEDED',
    'You signed in a while ago. Confirm that it is you, or sign in again, and then do this within 10 minutes.',
  );
}

/** The id of the person who asks. Throws `FORBIDDEN` for who is no person. */
export function personIn(caller: Caller): string {
  const id = personIdOf(caller);
  if (id !== null) return id;
  throw new SvcError('FORBIDDEN', 'The administrator has no account; sign in as a person.');
}

/** Gives this origin a session: the cookie, and its page key for the page that asked. */
export function sessionReply(
  access: Access,
  exchange: Exchange,
  place: Place,
  session: Session,
  { cookies = [], headers = {} }: { cookies?: string[]; headers?: ResponseHeaders } = {},
) {
  const answer = { ok: true, expiresAt: access.endOf(session), pageKey: access.pageKey(place, session) } as const;
  const all = [...access.cookies(exchange, place, session), ...cookies];
  return new Reply(answer, { ...headers, 'set-cookie': all, ...NO_STORE });
}

/** False for writes that another origin makes the browser send. */
export function isOwnPage(exchange: Exchange, place: Place): boolean {
  const site = exchange.header('sec-fetch-site');
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  const origin = exchange.header('origin');
  return origin !== undefined && new URL(place.origin).host === hostOf(origin);
}

function hostOf(origin: string): string {
  return URL.canParse(origin) ? new URL(origin).host : '';
}

/** The session whose cookie and page key a request presents. */
export function sessionOf(access: Access, exchange: Exchange, place: Place): Session | null {
  const session = access.session(exchange, place);
  return session !== null && session !== 'two' && access.hasKey(exchange, place, session) ? session : null;
}

export function notHere({ base, kind }: Place): SvcError {
  const there =
    base === null ? 'http://svc.localhost with the port of the gateway, on its own machine' : `${base}/svc/`;
  const why = kind === 'page' ? 'An app is entered from the console' : 'Browsers do not sign in at this address';
  return new SvcError('FORBIDDEN', `${why}; sign in at ${there}.`);
}
