/** Signs people in with passkeys over HTTP, and gives accounts new ones (specification, "Signing in"). */
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  addPasskey,
  enterPasskey,
  joinOptions,
  newPasskeyOptions,
  passkeyOptions,
} from '../../../protocol/routes/people/passkey-rows.ts';
import { unauthorized } from '../../http/access/access.ts';
import type { Caller } from '../../http/access/grants.ts';
import type { Route } from '../../http/router.ts';
import type { Purpose } from '../../people/challenges.ts';
import { checkUsed, type UsedAnswer, wentBack } from '../../people/passkey-answers.ts';
import type { Account, Change, Passkey } from '../../people/records.ts';
import type { Services } from '../../services.ts';
import { refuse } from '../requests.ts';
import { serve } from '../serve-row.ts';
import { askToMake, askToUse, takeAnswer, takeMade } from './ceremonies.ts';
import { type Asked, browserOf, demandFresh, personIn, signedIn, signsInAt } from './signing-in.ts';

export function passkeyRoutes(services: Services): Route[] {
  const { accounts, audit } = services;

  return [
    ...serve(passkeyOptions, ({ exchange, place }) => askToUse(services, { exchange, place })),
    ...serve(enterPasskey, async ({ body: { passkey: answer }, caller, exchange, place }) => {
      const asked = { exchange, place };
      signsInAt(services, asked);
      const browser = browserOf(services, asked);
      const { account, notes } = await takeUsed(services, asked, caller, answer);
      const signIn = await accounts.people.begin(account, browser, account.password, notes);
      return signedIn(services, asked, account, signIn, 'passkey');
    }),
    ...serve(joinOptions, ({ body: { code, name: said }, exchange, place }) => {
      const asked = { exchange, place };
      signsInAt(services, asked);
      const { id: invitation, name, email, person } = accounts.invitations.withCode(code);
      if (person !== null) return toJoin(asked, invitation, accounts.people.get(person));
      const given = said ?? name ?? refuse('name', 'A new account needs "name".');
      return toJoin(asked, invitation, { id: null, name: given, email });
    }),
    ...serve(newPasskeyOptions, ({ caller, exchange, place }) => {
      const asked = { exchange, place };
      signsInAt(services, asked);
      const account = accounts.people.get(personIn(caller));
      // Only what these options are answered with is taken.
      demandFresh(services, asked);
      if (accounts.passkeys.of(account.id).length >= LIMITS.passkeys)
        throw new SvcError('CONFLICT', `An account has at most ${LIMITS.passkeys} passkeys. Remove one first.`);
      return askToMake(services, asked, { to: 'add', person: account.id }, account);
    }),
    ...serve(addPasskey, async ({ body: { passkey: answer, name }, caller, exchange, place }) => {
      const asked = { exchange, place };
      signsInAt(services, asked);
      const person = personIn(caller);
      const isFor = (purpose: Purpose) => purpose.to === 'add' && purpose.person === person;
      const passkey = await accounts.passkeys.add(person, await takeMade(services, asked, { answer, name, isFor }));
      await audit.record(caller, 'passkey.added', person, { name: passkey.name });
      return passkeyRow(passkey);
    }),
  ];

  function toJoin(asked: Asked, invitation: string, whom: Parameters<typeof askToMake>[3]) {
    return askToMake(services, asked, { to: 'join', invitation }, whom);
  }
}

/** Whose passkey a browser used, with the changes that note its use. Rejects with `UNAUTHORIZED` and `RATE_LIMITED`. */
export async function takeUsed(
  services: Services,
  asked: Asked,
  caller: Caller,
  answer: UsedAnswer,
): Promise<{ account: Account; notes: () => Change[] }> {
  const { accounts, audit, networkOf, addressOf } = services;
  const network = networkOf(asked.exchange);
  const address = addressOf(asked.exchange);
  accounts.attempts.begin(null, network);
  const taken = takeAnswer(services, asked, answer);
  if (taken?.purpose.to !== 'sign-in') {
    await audit.refused(caller, address);
    throw unauthorized('This took too long, or was answered already; try again.');
  }
  const passkey = accounts.passkeys.byCredential(answer.id);
  const account = passkey && accounts.people.find(passkey.person);
  const used = passkey === undefined ? null : await checkUsed(answer, passkey, taken);
  // Of a disabled person nothing else is said.
  if (passkey === undefined || account === undefined || account.disabled || used === null) {
    await audit.refused(caller, address);
    throw unauthorized(
      'This passkey does not sign in here: it is not known any more, or of another address. Sign in in another way, or ask an owner of the gateway for a link.',
    );
  }
  if (wentBack(passkey.counter, used.counter)) {
    const detail = { name: passkey.name, address };
    await audit.record({ kind: 'person', name: account.name }, 'passkey.refused', account.id, detail);
    throw unauthorized(
      'This passkey was refused, because there seems to be a copy of it. Sign in in another way, or with a link of an owner of the gateway; then remove it, and make another one.',
    );
  }
  accounts.attempts.succeeded(null, network);
  return { account, notes: () => accounts.passkeys.uses(passkey, used) };
}

/** A passkey without what only signing in needs. */
export function passkeyRow({ id, name, host, synced, createdAt, lastUsedAt }: Passkey) {
  return { id, name, host, synced, createdAt, lastUsedAt };
}
