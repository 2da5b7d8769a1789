/** Signs people in with OpenID providers over HTTP (specification, "Signing in"). */
import { randomBytes } from 'node:crypto';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  beginProvider,
  enterByProxy,
  finishProvider,
  listIdentities,
  openProvider,
  removeIdentity,
} from '../../../protocol/routes/people/providers-rows.ts';
import type { Exchange } from '../../edge/edge.ts';
import { isSecure } from '../../http/access/access.ts';
import { cookieValues, setCookies } from '../../http/access/cookie.ts';
import type { Caller } from '../../http/access/grants.ts';
import { PersonCaller } from '../../http/access/person.ts';
import type { Place } from '../../http/access/places.ts';
import { OneTime } from '../../http/access/sign-ins.ts';
import { NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import { redirect } from '../../pages/pages.ts';
import type { Entered, Said } from '../../people/identities.ts';
import { type Journey, OpenId } from '../../people/providers/open-id.ts';
import type { TrustedProxy } from '../../people/providers/proxy-identity.ts';
import type { Account } from '../../people/records.ts';
import type { Services } from '../../services.ts';
import { Reply, serve, serveRaw } from '../serve-row.ts';
import { personNamed } from './people-routes.ts';
import { personRow } from './person-row.ts';
import {
  type Asked,
  accessOf,
  browserOf,
  demandFresh,
  sessionOf,
  sessionReply,
  signedIn,
  signsInAt,
} from './signing-in.ts';

const COOKIE = 'svc_provider';

/** A way to a provider. `browser` is the value of its cookie; `links` the id of who links an account to theirs. */
type Begun = Journey & { browser: string; invitation: string | null; links: string | null };

export function providerRoutes(services: Services): Route[] {
  const { accounts, audit, networkOf, log } = services;
  const openId = new OpenId({ providers: () => accounts.ways.providers, log });
  const begun = new OneTime<Begun>(LIMITS.providerFlowMs, () => performance.now());

  return [
    ...serve(beginProvider, async ({ params: { provider }, body: { invitation, link }, exchange, place }) => {
      const asked = { exchange, place };
      signsInAt(services, asked);
      openId.settings(provider);
      if (invitation !== undefined) accounts.invitations.withCode(invitation);
      const links = link === true ? selfOf(asked).id : null;
      if (links !== null) demandFresh(services, asked);
      const browser = randomBytes(32).toString('hex');
      const origin = isSecure(exchange) ? place.origin.replace(/^http:/, 'https:') : place.origin;
      const back = `${origin}/svc/_auth/provider/${provider}/callback`;
      const url = await openId.begin(provider, back, (journey) =>
        begun.add({ ...journey, browser, invitation: invitation ?? null, links }),
      );
      const seconds = LIMITS.providerFlowMs / 1000;
      const cookies = setCookies(COOKIE, place, isSecure(exchange), browser, seconds);
      return new Reply({ url }, { 'set-cookie': cookies, ...NO_STORE });
    }),
    ...serveRaw(openProvider, (exchange, { provider = '' }, _caller, place) => {
      accessOf(services);
      // The page sends it from there, so that only the console's page key is made for who comes.
      const fragment = new URLSearchParams({ provider, query: exchange.query });
      redirect(exchange, place, `/svc/#${fragment}`);
    }),
    ...serve(finishProvider, async ({ params: { provider }, body, caller, exchange, place }) => {
      const asked = { exchange, place };
      signsInAt(services, asked);
      const query = new URLSearchParams(body.query);
      const network = networkOf(exchange);
      accounts.attempts.begin(null, network);
      const journey = begun.take(query.get('state') ?? '');
      if (journey === null || journey.provider !== provider || !isBrowserOf(journey, exchange))
        throw new SvcError(
          'FORBIDDEN',
          `This sign-in at "${provider.slice(0, 80)}" was used already, took too long, or was begun in another browser. Begin again.`,
        );
      return refusing(asked, caller, async () => {
        const reply = await enter(asked, journey, await openId.finish(journey, query));
        accounts.attempts.succeeded(null, network);
        return withoutCookie(reply, exchange, place);
      });
    }),
    ...serve(enterByProxy, async ({ caller, exchange, place }) => {
      const asked = { exchange, place };
      signsInAt(services, asked);
      if (accounts.proxy === null)
        throw new SvcError('NOT_FOUND', 'This gateway trusts no proxy ("signIn.proxy" in its configuration).');
      const browser = browserOf(services, asked);
      return refusing(asked, caller, async () => {
        const said = await (accounts.proxy as TrustedProxy).said(exchange);
        return signedInBy(asked, await accounts.identities.enter(said, { role: 'member' }, browser), 'proxy');
      });
    }),
    ...serve(listIdentities, ({ params: { pid }, caller }) => {
      accessOf(services);
      const { id } = accounts.people.get(personNamed(pid, caller));
      return accounts.identities
        .of(id)
        .map(({ id, provider, email, createdAt, lastUsedAt }) => ({ id, provider, email, createdAt, lastUsedAt }));
    }),
    ...serve(removeIdentity, async ({ params: { pid, identity: id }, caller, exchange, place }) => {
      accessOf(services);
      const person = personNamed(pid, caller);
      const account = accounts.people.get(person);
      // Whoever has none left gets a link from an owner.
      const isOwn = caller instanceof PersonCaller && caller.person.id === person;
      if (isOwn) demandFresh(services, { exchange, place });
      const { provider } = await accounts.identities.unlink(person, id, () => {
        if (!isOwn || accounts.methodsOf(accounts.people.get(person), id).length > 0) return;
        throw new SvcError('CONFLICT', 'This is the only way to sign in to this account; add another one first.');
      });
      await audit.record(caller, 'identity.unlinked', person, { name: account.name, provider: provider ?? 'proxy' });
      return { id, deleted: true };
    }),
  ];

  async function enter(asked: Asked, { provider, invitation, links }: Begun, said: Said) {
    const { identities, invitations, people } = accounts;
    const by = `provider ${provider}`;
    if (links !== null) {
      const session = sessionOf(accessOf(services), asked.exchange, asked.place);
      if (session === null || selfOf(asked).id !== links)
        throw new SvcError('FORBIDDEN', 'Somebody else is signed in here by now. Begin again.');
      const account = await identities.link(links, said);
      await audit.record({ kind: 'person', name: account.name }, 'identity.linked', links, { provider });
      const { value, headers } = sessionReply(accessOf(services), asked.exchange, asked.place, session);
      return new Reply({ ...value, person: personRow(accounts, account) }, headers);
    }
    const browser = browserOf(services, asked);
    if (invitation === null) {
      const { allow, role } = openId.settings(provider);
      return signedInBy(asked, await identities.enter(said, { allow, role }, browser), by);
    }
    const { id, person } = invitations.withCode(invitation);
    const known = person === null ? identities.who(said) : undefined;
    if (known?.disabled) throw new SvcError('FORBIDDEN', 'This account may not sign in; ask an owner of the gateway.');
    const other = { email: said.email, changes: (account: Account) => identities.links(account.id, said) };
    const guest = { signedIn: known?.id ?? null, password: null, passkey: null, name: said.name, other };
    const { account, signIn } = await invitations.accept(invitation, guest, browser);
    await joined(people.get(account.id), { invitation: id, by });
    return signedIn(services, asked, account, signIn, by);
  }

  async function signedInBy(asked: Asked, { account, signIn, isNew }: Entered, by: string) {
    if (isNew) await joined(account, { by });
    return signedIn(services, asked, account, signIn, by);
  }

  /** Notes in the audit log who was not let in. */
  async function refusing<T>({ exchange }: Asked, caller: Caller, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof SvcError && error.code === 'FORBIDDEN')
        await audit.refused(caller, services.addressOf(exchange));
      throw error;
    }
  }

  function joined({ id, name, role }: Account, detail: Record<string, string>): Promise<void> {
    return audit.record({ kind: 'person', name }, 'person.joined', id, { ...detail, role });
  }

  /** Who is signed in, with the page key. Throws `FORBIDDEN` for nobody. */
  function selfOf(asked: Asked): Account {
    const { before } = browserOf(services, asked);
    const account = before === undefined ? undefined : accounts.people.signedIn(before.id);
    if (account !== undefined) return account;
    throw new SvcError('FORBIDDEN', 'Sign in to your account first; then link the provider under it.');
  }
}

/** Another browser has another cookie, or none. */
function isBrowserOf({ browser }: Begun, exchange: Exchange): boolean {
  const values = cookieValues(exchange.header('cookie') ?? '', COOKIE);
  return values.length === 1 && values[0] === browser;
}

function withoutCookie<T>({ value, headers }: Reply<T>, exchange: Exchange, place: Place): Reply<T> {
  const ended = setCookies(COOKIE, place, isSecure(exchange), '', 0);
  return new Reply(value, { ...headers, 'set-cookie': [...(headers['set-cookie'] ?? []), ...ended] });
}
