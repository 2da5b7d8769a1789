/** Serves people, their sessions, invitations and groups over HTTP (specification, "People"). */
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { listPasskeys, removePasskey, renamePasskey } from '../../../protocol/routes/people/passkey-rows.ts';
import {
  changeGroup,
  changePerson,
  endPersonSession,
  endPersonSessions,
  linkPerson,
  listGroups,
  listInvitations,
  listPeople,
  listPersonSessions,
  makeGroup,
  makeInvitation,
  removeGroup,
  removePerson,
  showPerson,
  withdrawInvitation,
} from '../../../protocol/routes/people/people-rows.ts';
import { type Caller, may } from '../../http/access/grants.ts';
import { personIdOf, publisherIn } from '../../http/access/person.ts';
import type { Route } from '../../http/router.ts';
import type { Invitation } from '../../people/records.ts';
import type { Services } from '../../services.ts';
import { pageOf, refuse } from '../requests.ts';
import { serve } from '../serve-row.ts';
import { mailLink } from './mailed-link.ts';
import { passkeyRow } from './passkey-routes.ts';
import { personRow } from './person-row.ts';
import { checkRole } from './roles.ts';
import { consoleOfGateway } from './sign-in-routes.ts';
import { accessOf, demandFresh, sessionOf } from './signing-in.ts';

/** How long a link for somebody who has an account is good. */
const PERSON_LINK_DAYS = 1;
const PERSON_ID = /^p_[0-9a-f]{1,32}$/;

export function peopleRoutes(services: Services): Route[] {
  const { accounts, audit, registry } = services;
  const record = (caller: Caller, action: Parameters<typeof audit.record>[1], target: string | null, detail = {}) =>
    audit.record(caller, action, target, detail);

  return [
    ...serve(listPeople, ({ query }) => {
      accessOf(services);
      const all = accounts.people.all().sort((one, other) => (one.id < other.id ? -1 : 1));
      const page = pageOf(
        query,
        all,
        ({ id }) => id,
        (id) => PERSON_ID.test(id),
      );
      return page.map((account) => personRow(accounts, account));
    }),
    ...serve(showPerson, ({ params, caller }) => {
      accessOf(services);
      return personRow(accounts, accounts.people.get(personNamed(params.pid, caller)));
    }),
    ...serve(changePerson, async ({ params, body, caller, exchange, place }) => {
      accessOf(services);
      const id = personNamed(params.pid, caller);
      const { name, ...rest } = body;
      const [more] = Object.keys(rest);
      if (more !== undefined && !may(caller, 'admin', null))
        throw new SvcError('FORBIDDEN', `Only an owner of the gateway changes "${more}".`, { path: more });
      if (rest.email !== undefined && id === personIdOf(caller)) demandFresh(services, { exchange, place });
      const vouched = rest.email !== undefined && { isVouched: true };
      const changed = await accounts.people.update(id, { ...(name !== undefined && { name }), ...rest, ...vouched });
      await record(caller, 'person.changed', id, body);
      return personRow(accounts, changed);
    }),
    ...serve(removePerson, async ({ params, caller, exchange, place }) => {
      accessOf(services);
      const account = accounts.people.get(personNamed(params.pid, caller));
      const isOwn = personIdOf(caller) === account.id;
      if (isOwn) demandFresh(services, { exchange, place });
      const { id, name, picture } = await accounts.remove(account.id, () => {
        if (!isOwn || !accounts.isLastOwner(accounts.people.get(account.id))) return;
        throw new SvcError(
          'CONFLICT',
          'You are the last owner of this gateway. Make somebody else an owner first; who has the machine can remove you with "svc people rm".',
        );
      });
      await services.preferences.forget(id);
      if (picture) await accounts.pictures.forget(id);
      // Who has removed their own is nobody by now.
      await audit.record(isOwn ? { kind: 'person', name } : caller, 'person.removed', id, { name });
      return { id, deleted: true };
    }),
    ...serve(linkPerson, async ({ params: { pid }, caller, place, headers }) => {
      const { places } = accessOf(services);
      const { id, name, role, email, isVouched } = accounts.people.get(pid);
      const given = { name, email: null, role, grants: [], person: id, uses: 1, ...byOf(caller) };
      const { invitation, code } = await accounts.invitations.make({ ...given, expiresInDays: PERSON_LINK_DAYS });
      await record(caller, 'invitation.made', invitation.id, { person: id });
      const { expiresAt, by } = invitation;
      const url = invitationUrl(consoleOfGateway(services, places, place, headers.host), code);
      // An address that they only claimed may be somebody else's, who would be signed in as them.
      const mailed = await mailLink(services, isVouched ? email : null, {
        url,
        expiresAt,
        by,
        what: 'you sign in, once,',
      });
      return { url, expiresAt, mailed };
    }),
    ...serve(listPersonSessions, ({ params, caller, exchange, place }) => {
      const current = sessionOf(accessOf(services), exchange, place)?.id;
      const { id: person } = accounts.people.get(personNamed(params.pid, caller));
      return accounts.people.sessionsOf(person).map(({ person: _, ...session }) => ({
        ...session,
        id: shownId(session.id),
        current: session.id === current,
        expiresAt: session.lastUsedAt + LIMITS.personSessionMs,
      }));
    }),
    ...serve(endPersonSessions, async ({ params, caller, exchange, place }) => {
      const current = sessionOf(accessOf(services), exchange, place)?.id;
      const { id } = accounts.people.get(personNamed(params.pid, caller));
      const ended = await accounts.people.end(id, (session) => session.id !== current);
      if (ended > 0) await record(caller, 'session.ended', id, { ended });
      return { ended };
    }),
    ...serve(endPersonSession, async ({ params, caller }) => {
      accessOf(services);
      const { id } = accounts.people.get(personNamed(params.pid, caller));
      const ended = await accounts.people.end(id, (session) => shownId(session.id) === params.session);
      if (ended > 0) await record(caller, 'session.ended', id, { ended });
      return { ended };
    }),
    ...serve(listPasskeys, ({ params, caller }) => {
      accessOf(services);
      return accounts.passkeys.of(accounts.people.get(personNamed(params.pid, caller)).id).map(passkeyRow);
    }),
    ...serve(renamePasskey, async ({ params, body: { name }, caller }) => {
      accessOf(services);
      const { id } = accounts.people.get(personNamed(params.pid, caller));
      return passkeyRow(await accounts.passkeys.rename(id, params.passkey, name));
    }),
    ...serve(removePasskey, async ({ params, caller, exchange, place }) => {
      accessOf(services);
      const account = accounts.people.get(personNamed(params.pid, caller));
      // An owner can send others a link, but may have nobody who sends them one.
      const isOwn = personIdOf(caller) === account.id;
      if (isOwn) demandFresh(services, { exchange, place });
      const mayBeLast = () => !isOwn || accounts.methodsOf(account).some((method) => method !== 'passkey');
      const { id, name } = await accounts.passkeys.remove(account.id, params.passkey, mayBeLast);
      await record(caller, 'passkey.removed', account.id, { name });
      return { id, deleted: true };
    }),
    ...serve(makeInvitation, async ({ body, caller, place, headers }) => {
      const { places } = accessOf(services);
      const { name = null, email = null, role = 'member', grants = [], uses = 1 } = body;
      for (const [i, { app, role: given }] of grants.entries()) {
        if (!registry.has(app))
          throw new SvcError('UNKNOWN_APP', `No app "${app}" is registered.`, { path: `grants[${i}].app` });
        if (grants.findIndex((one) => one.app === app) < i)
          refuse(`grants[${i}].app`, `The app "${app}" is named twice; it gives one role.`);
        await checkRole(services, app, given, `grants[${i}].role`);
      }
      if (email !== null && accounts.people.byEmail(email)?.isVouched)
        throw new SvcError('CONFLICT', 'A person of this gateway has this e-mail address.', { path: 'email' });
      const { expiresInDays = LIMITS.invitationDays } = body;
      const given = { name, email, role, grants, person: null, uses, expiresInDays, ...byOf(caller) };
      const { invitation, code } = await accounts.invitations.make(given);
      await record(caller, 'invitation.made', invitation.id, { name, email, role, apps: grants.map(({ app }) => app) });
      const url = invitationUrl(consoleOfGateway(services, places, place, headers.host), code);
      const { expiresAt, by } = invitation;
      const mailed = await mailLink(services, email, { url, expiresAt, by, what: 'you get an account' });
      return { ...invitationRow(invitation), url, mailed };
    }),
    ...serve(listInvitations, () => {
      accessOf(services);
      return accounts.invitations.all().map(invitationRow);
    }),
    ...serve(withdrawInvitation, async ({ params, caller }) => {
      accessOf(services);
      const { id } = await accounts.invitations.withdraw(params.invitation);
      await record(caller, 'invitation.withdrawn', id);
      return { id, deleted: true };
    }),
    ...serve(listGroups, () => {
      accessOf(services);
      return accounts.sharing.groups();
    }),
    ...serve(makeGroup, async ({ body: { name, members = [] }, caller }) => {
      accessOf(services);
      const group = await accounts.sharing.makeGroup(name, members);
      await record(caller, 'group.changed', group.id, { name, members });
      return group;
    }),
    ...serve(changeGroup, async ({ params: { gid }, body, caller }) => {
      accessOf(services);
      const group = await accounts.sharing.changeGroup(gid, body);
      await record(caller, 'group.changed', gid, body);
      return group;
    }),
    ...serve(removeGroup, async ({ params: { gid }, caller }) => {
      accessOf(services);
      const { id, name } = await accounts.sharing.removeGroup(gid);
      await record(caller, 'group.removed', id, { name });
      return { id, deleted: true };
    }),
  ];
}

/** The id that `me` or an id names. Throws `FORBIDDEN` for somebody else's, unless the caller is an owner. */
export function personNamed(pid: string, caller: Caller): string {
  const self = personIdOf(caller);
  const id = pid === 'me' && self !== null ? self : pid;
  if (pid === 'me' && self === null)
    throw new SvcError('UNKNOWN_PERSON', 'The administrator has no account; name a person by id.');
  if (id !== self && !may(caller, 'admin', null))
    throw new SvcError('FORBIDDEN', "This is another person's account; an owner of the gateway may see and change it.");
  return id;
}

/** Who gives it: by name, and the id of a person. */
export function byOf(caller: Caller): { by: string | null; inviter: string | null } {
  const { maker, by } = publisherIn(caller);
  return { by, inviter: maker };
}

/** The link of an invitation. What follows the # reaches no server and no log. */
export function invitationUrl(console: string, code: string): string {
  return `${console}/svc/#invitation=${code}`;
}

/** A session's id is part of its cookie. What is shown of it is enough to name it. */
function shownId(id: string): string {
  return id.slice(0, 'p'.length + 12);
}

function invitationRow({ digest: _, inviter: __, ...row }: Invitation) {
  return { ...row, grants: [...row.grants] };
}
