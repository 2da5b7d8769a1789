/** Serves with whom apps are shared over HTTP (specification, "People"). */
import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  listShares,
  openLink,
  type ShareRow,
  shareApp,
  unshareApp,
} from '../../../protocol/routes/people/shares-rows.ts';
import type { BodyOf } from '../../../protocol/routes/row.ts';
import { type Caller, may, mayGive } from '../../http/access/grants.ts';
import { NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import type { Invitation, Share, SharedWith } from '../../people/records.ts';
import type { Services } from '../../services.ts';
import { refuse } from '../requests.ts';
import { Reply, serve } from '../serve-row.ts';
import { mailLink } from './mailed-link.ts';
import { byOf, invitationUrl } from './people-routes.ts';
import { checkRole } from './roles.ts';
import { consoleOfGateway, ticketTo } from './sign-in-routes.ts';
import { accessOf, sessionOf, sessionReply, signsInAt } from './signing-in.ts';

const WHOEVER = 'whoever has the link';

type Whom = Pick<BodyOf<typeof shareApp>, 'person' | 'email' | 'group' | 'everyone' | 'link'>;

export function shareRoutes(services: Services): Route[] {
  const { accounts, addressOf, audit, networkOf, registry } = services;
  const placesFor = (app: string) => {
    const { places } = accessOf(services);
    checkAppId(app);
    if (!registry.has(app)) throw new SvcError('UNKNOWN_APP', `No app "${app}" is registered.`);
    return places;
  };

  return [
    ...serve(listShares, ({ params: { id } }) => {
      placesFor(id);
      const invited = accounts.invitations.all().flatMap((one) => invitedTo(id, one) ?? []);
      return [...accounts.sharing.of(id).map(shareRow), ...invited];
    }),
    ...serve(shareApp, async ({ params: { id: app }, body, caller, place, headers }) => {
      const places = placesFor(app);
      const { role, expiresInDays: days } = body;
      await checkRole(services, app, role, 'role');
      demandRole(caller, role, app);
      const to = whom(body);
      const { by, inviter } = byOf(caller);
      const expiresAt = days === undefined ? null : Date.now() + days * LIMITS.dayMs;
      if (to === 'link') {
        if (role === 'manager') refuse('role', 'A link gives no role "manager": who manages an app has an account.');
        const given = { app, role, by, maker: inviter, expiresAt };
        const { share, code } = await accounts.links.make(given, () => void placesFor(app));
        await audit.record(caller, 'share.given', app, { to: 'link', link: share.id, role });
        const url = `${consoleOfGateway(services, places, place, headers.host)}/svc/#guest=${code}`;
        return { ...shareRow(share), url };
      }
      if (to === null) {
        const email = body.email ?? '';
        const grants = [{ app, role, ...(days !== undefined && { days }) }];
        const invited = { name: null, email, role: 'member', grants, person: null, uses: 1, by, inviter } as const;
        const made = await accounts.invitations.make({ ...invited, expiresInDays: LIMITS.invitationDays });
        await audit.record(caller, 'invitation.made', made.invitation.id, { email, role: 'member', apps: [app] });
        const url = invitationUrl(consoleOfGateway(services, places, place, headers.host), made.code);
        const what = `you get an account, and "${registry.loaded(app)?.active?.name ?? app}" in the role ${role},`;
        const mailed = await mailLink(services, email, { url, expiresAt: made.invitation.expiresAt, by, what });
        return { ...(invitedTo(app, made.invitation) as ShareRow), url, mailed };
      }
      // Another look in the turn of the change: who or what is removed meanwhile gets nothing.
      const share = await accounts.sharing.share({ app, role, by, to, expiresAt }, (existing) => {
        placesFor(app);
        whom(body);
        if (existing !== undefined) demandRole(caller, existing.role, app);
      });
      await audit.record(caller, 'share.given', app, { to: nameOf(share.to), role });
      return shareRow(share);
    }),
    ...serve(unshareApp, async ({ params: { id: app, share: id }, caller }) => {
      placesFor(app);
      const invitation = accounts.invitations.all().find((one) => one.id === id && invitedTo(app, one) !== null);
      if (invitation !== undefined) {
        for (const given of invitation.grants) demandRole(caller, given.role, app);
        await accounts.invitations.withdraw(id);
        await audit.record(caller, 'invitation.withdrawn', id);
        return { id, deleted: true };
      }
      const ended = await accounts.sharing.unshare(app, id, ({ role }) => demandRole(caller, role, app));
      const { to, role } = ended;
      await audit.record(
        caller,
        'share.ended',
        app,
        'link' in to ? { to: 'link', link: id, role } : { to: nameOf(to), role },
      );
      return { id, deleted: true };
    }),
    ...serve(openLink, async ({ body: { code }, exchange, place }) => {
      const access = signsInAt(services, { exchange, place });
      // Counted apart from sign-ins: many may come from one address with a link that has ended.
      const from = `links ${networkOf(exchange)}`;
      accounts.attempts.begin(null, from);
      const link = accounts.links.withCode(code);
      accounts.attempts.succeeded(null, from);
      const { app } = link;
      const isShared = place.kind === 'shared';
      const session = sessionOf(access, exchange, place);
      const known = session === null ? null : access.caller(exchange, place);
      if (session !== null && known !== null && !(known instanceof SvcError) && known.kind !== 'guest') {
        const own = { id: session.id, expiresAt: session.expiresAt };
        if (may(known, 'page', app)) {
          const url = isShared ? `/svc/${app}/` : ticketTo(access, place, { app }, '/', own);
          return new Reply({ url, guest: false }, NO_STORE);
        }
        // There is one session at this address: a guest's would sign them out.
        if (isShared)
          throw new SvcError(
            'CONFLICT',
            'You are signed in here, and this app is not shared with your account. Open the link in a private window, or sign out first.',
          );
      }
      const signIn = accounts.links.begin(link);
      // A full disk keeps nobody out.
      const isFirst = await accounts.links.noteOpened(link).catch(() => false);
      if (isFirst)
        await audit.record({ kind: 'public' }, 'link.opened', app, { link: link.id, address: addressOf(exchange) });
      if (!isShared) return new Reply({ url: ticketTo(access, place, { app }, '/', signIn), guest: true }, NO_STORE);
      const { value, headers } = sessionReply(access, exchange, place, { ...signIn, owner: null });
      return new Reply({ url: `/svc/${app}/`, guest: true, pageKey: value.pageKey }, headers);
    }),
  ];

  /** Whom the body names: null for an e-mail address that nobody is known to have. Throws for none, several, and unknown ones. */
  function whom({ person, email, group, everyone, link }: Whom): SharedWith | 'link' | null {
    const named = [person, email, group, everyone, link].filter((value) => value !== undefined && value !== false);
    if (named.length !== 1) refuse('person', 'Name one of "person", "email", "group", "everyone" and "link".');
    if (link === true) return 'link';
    if (everyone === true) return { everyone: true };
    if (group !== undefined) return { group: accounts.sharing.group(group).id };
    if (person !== undefined) return { person: accounts.people.get(person).id };
    const known = accounts.people.byEmail(email ?? '');
    // What a person only says of themselves is no reason to give them what is meant for somebody.
    return known?.isVouched ? { person: known.id } : null;
  }

  function shareRow({ id, app, to, role, createdAt, expiresAt, by, openedAt }: Share): ShareRow {
    const row = { id, name: nameOf(to), role, createdAt, expiresAt, by };
    if ('link' in to)
      return {
        ...row,
        with: 'link',
        openedAt: openedAt ?? null,
        ...(accounts.links.isVoid(to, app) && { void: true }),
      };
    if ('everyone' in to) return { ...row, with: 'everyone' };
    if ('group' in to) return { ...row, with: 'group', group: to.group };
    const email = accounts.people.find(to.person)?.email;
    return { ...row, with: 'person', person: to.person, ...(email != null && { email }) };
  }

  function nameOf(to: SharedWith): string {
    if ('everyone' in to) return 'everyone';
    if ('link' in to) return WHOEVER;
    if ('person' in to) return accounts.people.find(to.person)?.name ?? to.person;
    return accounts.sharing.groups().find(({ id }) => id === to.group)?.name ?? to.group;
  }
}

/** An invitation that gives this app, and nothing else, as a row of who has it. Null for others, which owners see. */
function invitedTo(app: string, invitation: Invitation): ShareRow | null {
  const { id, name, email, role: inGateway, grants, createdAt, expiresAt, by } = invitation;
  const [given, more] = grants;
  if (given?.app !== app || more !== undefined || inGateway !== 'member') return null;
  const { role } = given;
  const row = { id, name: name ?? email ?? WHOEVER, role, createdAt, expiresAt, by };
  return { ...row, with: 'invitation', ...(email !== null && { email }) };
}

/**
 * Throws `FORBIDDEN` for a role that may do what the caller may not, since nobody gives or takes more than they have, and for a
 * program: what it gave would outlive its token.
 */
function demandRole(caller: Caller, role: string, app: string): void {
  if (caller.kind === 'token')
    throw new SvcError(
      'FORBIDDEN',
      'A token for programs shares nothing: use the access token, or sign in as a person.',
    );
  if (mayGive(caller, role, app)) return;
  throw new SvcError('FORBIDDEN', `You may not give or take the role "${role}": it allows more than you may.`, {
    path: 'role',
  });
}
