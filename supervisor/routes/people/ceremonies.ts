/** Asks browsers for passkeys and takes what they answer, for all routes that do (specification, "Signing in"). */
import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { browserWords } from '../../../protocol/text/browser-words.ts';
import { isSecure } from '../../http/access/access.ts';
import { cookieValues, setCookies } from '../../http/access/cookie.ts';
import { NO_STORE } from '../../http/answers.ts';
import type { Purpose } from '../../people/challenges.ts';
import {
  ALGORITHMS,
  challengeOf,
  checkMade,
  type MadeAnswer,
  type Asked as ToAnswer,
} from '../../people/passkey-answers.ts';
import type { NewPasskey } from '../../people/passkeys.ts';
import { demandWay } from '../../people/ways.ts';
import type { Services } from '../../services.ts';
import { Reply } from '../serve-row.ts';
import { type Asked, signsInAt } from './signing-in.ts';

/** Of the cookie by which a browser is known from the options of a ceremony to its answer. */
const BROWSER = 'svc_passkey';
const BROWSER_ID = /^[A-Za-z0-9_-]{22}$/;

/** Whom a new passkey is for, as the browser shows it. `id` is null for a new account. */
type ForWhom = { id: string | null; name: string; email: string | null };

/** Answers the options with which a browser asks for a passkey that it has. Throws as `hostOf`. */
export function askToUse(services: Services, asked: Asked) {
  demandWay(services.accounts.ways, 'passkeys');
  const rpId = hostOf(services, asked);
  return begun(services, asked, { to: 'sign-in' }, (challenge) => ({
    challenge,
    timeout: LIMITS.passkeyMs,
    rpId,
    userVerification: 'required',
  }));
}

/** Answers the options with which a browser makes a passkey. Throws as `hostOf`. */
export function askToMake(
  services: Services,
  asked: Asked,
  purpose: { to: 'add'; person: string } | { to: 'join'; invitation: string },
  { id, name, email }: ForWhom,
) {
  const { passkeys, ways } = services.accounts;
  demandWay(ways, 'passkeys');
  const host = hostOf(services, asked);
  const handle = passkeys.handleOf(id);
  const has = id === null ? [] : passkeys.of(id).filter((one) => one.host === host);
  return begun(services, asked, { ...purpose, handle }, (challenge) => ({
    challenge,
    timeout: LIMITS.passkeyMs,
    rp: { id: host, name: host },
    user: { id: handle, name: email ?? name, displayName: name },
    pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key' as const, alg })),
    excludeCredentials: has.map(({ credentialId, transports }) => ({
      type: 'public-key' as const,
      id: credentialId,
      transports: [...transports],
    })),
    // It is all that an account needs: the device keeps whose it is, and asks for a finger, a face or a PIN.
    authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
    attestation: 'none',
  }));
}

/** What an answer is for, and what it must be about; null where its challenge is none of this browser's that waits. */
export function takeAnswer(
  services: Services,
  asked: Asked,
  answer: Parameters<typeof challengeOf>[0],
): (ToAnswer & { purpose: Purpose }) | null {
  const { exchange, place } = asked;
  const host = hostOf(services, asked);
  const challenge = challengeOf(answer);
  const purpose = challenge === null ? null : services.accounts.challenges.take(challenge, browserIn(exchange));
  if (challenge === null || purpose === null) return null;
  // A proxy may have taken the encryption off. Browsers have no passkeys for plain HTTP but on their own machine.
  const origins = place.kind === 'shared' ? [place.origin, `https://${place.host}`] : [place.origin];
  return { purpose, challenge, origins, host };
}

/** The passkey that a browser made, for which `isFor` is true. Rejects with `BAD_REQUEST`. */
export async function takeMade(
  services: Services,
  asked: Asked,
  { answer, name, isFor }: { answer: MadeAnswer; name: string | undefined; isFor: (purpose: Purpose) => boolean },
): Promise<NewPasskey> {
  const taken = takeAnswer(services, asked, answer);
  if (taken === null || taken.purpose.to === 'sign-in' || !isFor(taken.purpose)) throw notAsAsked();
  const made = await checkMade(answer, taken);
  if (made === null) throw notAsAsked();
  return {
    ...made,
    name: name ?? browserWords(asked.exchange.header('user-agent') ?? ''),
    host: taken.host,
    handle: taken.purpose.handle,
    transports: answer.response.transports ?? [],
  };
}

function notAsAsked(): SvcError {
  const message = 'This passkey is not of this browser and address, or it took too long; try again.';
  return new SvcError('BAD_REQUEST', message, { path: 'passkey' });
}

/** Gives a challenge to the browser that asks, in what `options` makes of it. */
function begun<T>(services: Services, asked: Asked, purpose: Purpose, options: (challenge: string) => T): Reply<T> {
  const { exchange, place } = asked;
  // Several pages of a browser may ask at once.
  const browser = browserIn(exchange) ?? randomBytes(16).toString('base64url');
  const network = services.networkOf(exchange);
  const challenge = services.accounts.challenges.give(purpose, { browser, network });
  const cookies = setCookies(BROWSER, place, isSecure(exchange), browser, LIMITS.passkeyMs / 1000);
  return new Reply(options(challenge), { 'set-cookie': cookies, ...NO_STORE });
}

function browserIn(exchange: Asked['exchange']): string | null {
  const [value = '', more] = cookieValues(exchange.header('cookie') ?? '', BROWSER);
  return more === undefined && BROWSER_ID.test(value) ? value : null;
}

/** The relying party where a browser asks. Throws `FORBIDDEN` as `signsInAt`, and for an IP address, which can be none. */
function hostOf(services: Services, asked: Asked): string {
  signsInAt(services, asked);
  const { origin, base } = asked.place;
  const { hostname } = new URL(origin);
  if (isIP(hostname.replace(/^\[|\]$/g, '')) === 0) return hostname;
  const there = base === null ? 'at a name of the gateway, such as a domain' : `at ${base}/svc/`;
  throw new SvcError(
    'FORBIDDEN',
    `Passkeys belong to a name, and this address is a number. Use them ${there}, or sign in here with a password.`,
  );
}
