/** Signs people in over HTTP: with a password, or by an invitation (specification, "Signing in"). */
import { SvcError } from '../../../protocol/errors.ts';
import {
  acceptInvitation,
  confirmAccount,
  enterPassword,
  setPassword,
  showInvitation,
} from '../../../protocol/routes/people/accounts-rows.ts';
import type { Exchange } from '../../edge/edge.ts';
import { unauthorized } from '../../http/access/access.ts';
import type { Route } from '../../http/router.ts';
import type { Purpose } from '../../people/challenges.ts';
import { canCheck, checkPassword, hashOf, isOutdated, isPassword } from '../../people/passwords.ts';
import { addressKey } from '../../people/people.ts';
import type { Account, Change } from '../../people/records.ts';
import { demandWay } from '../../people/ways.ts';
import type { Services } from '../../services.ts';
import { refuse } from '../requests.ts';
import { serve } from '../serve-row.ts';
import { takeMade } from './ceremonies.ts';
import { takeUsed } from './passkey-routes.ts';
import { personRow } from './person-row.ts';
import { definedRole } from './roles.ts';
import { accessOf, browserOf, demandFresh, personIn, sessionOf, signedIn, signsInAt } from './signing-in.ts';

export function accountRoutes(services: Services): Route[] {
  const { accounts, addressOf, audit, networkOf, registry, log } = services;

  return [
    ...serve(enterPassword, async ({ body: { email, password }, caller, exchange, place }) => {
      const asked = { exchange, place };
      signsInAt(services, asked);
      demandWay(accounts.ways, 'passwords');
      const browser = browserOf(services, asked);
      const name = addressKey(email);
      const network = networkOf(exchange);
      accounts.attempts.begin(name, network);
      const account = accounts.people.byEmail(email);
      const hash = account?.password ?? null;
      // A disabled person is told the same: the password says nothing that others may know.
      const isRight = (await isPassword(password, hash)) && account?.disabled === false;
      if (hash !== null && !(await canCheck(hash)))
        log.warn(
          { person: account?.id },
          'A password was stored by a newer Node.js, and cannot be checked by this one.',
        );
      if (!isRight || account === undefined || hash === null) {
        await audit.refused(caller, browser.address);
        throw unauthorized('The e-mail address or the password is wrong.');
      }
      accounts.attempts.succeeded(name, network);
      const kept = (await isOutdated(hash)) ? await hashOf(password) : hash;
      const signIn = await accounts.people.begin(account, browser, kept);
      return signedIn(services, asked, account, signIn, 'password');
    }),
    ...serve(setPassword, async ({ body: { password, current }, caller, exchange, place }) => {
      const access = accessOf(services);
      demandWay(accounts.ways, 'passwords');
      const account = accounts.people.get(personIn(caller));
      const { id, email, password: hash, name } = account;
      if (email === null)
        throw new SvcError(
          'CONFLICT',
          'A password needs an e-mail address to sign in with: ask an owner to add yours.',
        );
      checkPassword(password);
      if (hash === null) demandFresh(services, { exchange, place });
      else if (!(await isOwn(account, current ?? '', exchange)))
        throw new SvcError('FORBIDDEN', 'The password until now is wrong.', { path: 'current' });
      const session = sessionOf(access, exchange, place)?.id;
      const changed = await accounts.people.setPassword(account, await hashOf(password), session);
      await audit.record(caller, 'password.set', id, { name });
      return personRow(accounts, changed);
    }),
    ...serve(confirmAccount, async ({ body: { password, passkey }, caller, exchange, place }) => {
      const asked = { exchange, place };
      const session = sessionOf(signsInAt(services, asked), exchange, place);
      const account = accounts.people.get(personIn(caller));
      let notes = (): readonly Change[] => [];
      let isThem: boolean;
      if (passkey !== undefined) {
        const used = await takeUsed(services, asked, caller, passkey);
        isThem = used.account.id === account.id;
        notes = used.notes;
      } else if (password !== undefined) {
        demandWay(accounts.ways, 'passwords');
        isThem = await isOwn(account, password, exchange);
      } else {
        const { identities, proxy } = accounts;
        if (proxy === null) refuse('password', 'Send "password" or "passkey".');
        isThem = identities.who(await proxy.said(exchange))?.id === account.id;
      }
      if (session === null || !isThem) {
        await audit.refused(caller, addressOf(exchange));
        throw unauthorized(
          password === undefined ? `This signs in somebody else than ${account.name}.` : 'The password is wrong.',
        );
      }
      return { until: accounts.people.freshUntil(await accounts.people.confirm(session.id, notes)) };
    }),
    ...serve(showInvitation, async ({ body: { code } }) => {
      accessOf(services);
      const { name, email, role, by, expiresAt, grants, person } = accounts.invitations.withCode(code);
      const there = grants.filter(({ app }) => registry.has(app));
      const named = await Promise.all(
        there.map(async ({ app, role: given }) => {
          const defined = await definedRole(services, app, given);
          const { name: roleName, description: roleDescription } = defined ?? {};
          const words = { ...(roleName && { roleName }), ...(roleDescription && { roleDescription }) };
          return { id: app, name: nameOf(app), role: given, ...words };
        }),
      );
      const signsIn = person === null ? null : accounts.people.get(person).name;
      return { name, email, role, by, expiresAt, apps: named, person: signsIn };
    }),
    ...serve(acceptInvitation, async ({ body: { code, password, passkey: answer, ...said }, exchange, place }) => {
      const asked = { exchange, place };
      signsInAt(services, asked);
      const browser = browserOf(services, asked);
      // Before the hash is made, which takes long.
      const invitation = accounts.invitations.withCode(code);
      if (password !== undefined) {
        demandWay(accounts.ways, 'passwords');
        checkPassword(password);
      }
      const hash = password === undefined ? null : await hashOf(password);
      const isFor = (purpose: Purpose) => purpose.to === 'join' && purpose.invitation === invitation.id;
      const passkey = answer === undefined ? null : await takeMade(services, asked, { answer, name: undefined, isFor });
      const signedInAs = browser.before === undefined ? undefined : accounts.people.signedIn(browser.before.id);
      if (password === undefined && passkey === null && invitation.person === null && signedInAs === undefined)
        demandWay(accounts.ways, 'passwords');
      const guest = { ...said, signedIn: signedInAs?.id ?? null, password: hash, passkey };
      const { account, signIn } = await accounts.invitations.accept(code, guest, browser);
      const by = { kind: 'person', name: account.name } as const;
      await audit.record(by, 'person.joined', account.id, {
        invitation: invitation.id,
        role: account.role,
        apps: invitation.grants.map(({ app }) => app),
      });
      if (passkey !== null) await audit.record(by, 'passkey.added', account.id, { name: passkey.name });
      return signedIn(services, asked, account, signIn, 'invitation');
    }),
  ];

  /** Whether it is the password of an account. Rejects with `RATE_LIMITED`. */
  async function isOwn({ id, password: hash }: Account, password: string, exchange: Exchange): Promise<boolean> {
    const [name, network] = [`own ${id}`, networkOf(exchange)];
    accounts.attempts.begin(name, network);
    const isRight = await isPassword(password, hash);
    if (isRight) accounts.attempts.succeeded(name, network);
    return isRight;
  }

  function nameOf(app: string): string {
    return registry.loaded(app)?.active?.name ?? app;
  }
}
