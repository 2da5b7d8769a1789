/** Puts together what the gateway knows of people: who they are, what is shared with them, and how they come in (specification, "People"). */
import type { SignIn } from '../http/access/cookie.ts';
import type { Known, MakerOf } from '../http/access/person.ts';
import { Attempts } from './attempts.ts';
import { Challenges } from './challenges.ts';
import { Connections } from './connections/connections.ts';
import { Identities } from './identities.ts';
import { ALONE, type IdentityDb, type IdentityNodes } from './identity-db.ts';
import { Invitations } from './invitations.ts';
import { Links } from './links.ts';
import { Passkeys } from './passkeys.ts';
import { People } from './people.ts';
import { Pictures } from './pictures.ts';
import { proxyIdentity, type TrustedProxy } from './providers/proxy-identity.ts';
import { type Account, Records } from './records.ts';
import { Sharing } from './sharing.ts';
import type { Ways } from './ways.ts';

/** What the ids of people's sessions begin with; those of the machine's own sign-ins have hex digits alone. */
const OF_PERSON = 'p';

export class Accounts {
  readonly people: People;
  readonly sharing: Sharing;
  readonly invitations: Invitations;
  readonly links: Links;
  readonly passkeys: Passkeys;
  readonly connections: Connections;
  readonly identities: Identities;
  readonly pictures: Pictures;
  readonly attempts: Attempts = new Attempts();
  readonly challenges: Challenges = new Challenges();
  readonly ways: Ways;
  /** The trusted proxy, where there is one. */
  readonly proxy: TrustedProxy | null;
  readonly #records: Records;
  readonly #nodes: IdentityNodes;

  private constructor(records: Records, identity: IdentityDb, makerOf: MakerOf, ways: Ways) {
    this.ways = ways;
    this.proxy = ways.proxy === null ? null : proxyIdentity(ways.proxy);
    this.#records = records;
    const { nodes = ALONE } = identity;
    this.#nodes = nodes;
    this.people = new People({ records, nodes, log: identity.log });
    this.sharing = new Sharing({ records, makerOf });
    this.passkeys = new Passkeys({ records });
    const { people, sharing, passkeys } = this;
    this.invitations = new Invitations({ records, people, sharing, passkeys });
    this.links = new Links({ records, people, sharing, nodes });
    this.connections = new Connections({ records, nodes, known: (person) => this.#knownOf(this.people.find(person)) });
    this.identities = new Identities({ records, people: this.people });
    this.pictures = new Pictures(identity, this.people);
    this.forgetApp = nodes.atOwner('shares of an app', (app: string) => this.#forgetApp(app));
  }

  /** Reads what is stored. Where that fails nobody is signed in until it can be read; the start does not wait for it. */
  static async open(identity: IdentityDb, makerOf: MakerOf, ways: Ways): Promise<Accounts> {
    return new Accounts(await Records.open(identity), identity, makerOf, ways);
  }

  /** False in a cluster where this node cannot know what others changed: then nobody is known. */
  get isCurrent(): boolean {
    return this.#nodes.current;
  }

  /** Whether a sign-in is a person's. */
  isPersons({ id }: Pick<SignIn, 'id'>): boolean {
    return id.startsWith(OF_PERSON);
  }

  /** The person of a session, with what they may do now; null where it has ended, or they may not sign in. */
  known(session: string): Known | null {
    return this.#knownOf(this.people.signedIn(session));
  }

  /**
   * Says each time what `known` says, which is looked up once until a record changes. With a time in milliseconds since the epoch it
   * is null, too, where the sign-in has expired then.
   */
  following({ id, expiresAt }: SignIn): (time?: number) => Known | null {
    let known: Known | null = null;
    let changes = -1;
    let until = 0;
    return (time = 0) => {
      if (changes === this.#records.changes && time < until) return known;
      changes = this.#records.changes;
      const found = this.people.session(id);
      until = found === undefined ? Number.POSITIVE_INFINITY : Math.min(expiresAt, this.people.expiresAt(found));
      known = time < expiresAt ? this.known(id) : null;
      return known;
    };
  }

  #knownOf(account: Account | undefined): Known | null {
    return account?.disabled === false && this.#nodes.current ? this.sharing.knownOf(account) : null;
  }

  /** How an account can be signed in to. `without` is an identity that does not count. */
  methodsOf({ id, password, email }: Account, without?: string): string[] {
    const { passkeys, passwords, providers, proxy } = this.ways;
    const linked = this.identities.of(id).flatMap((one) => {
      if (one.id === without) return [];
      if (one.provider === null) return proxy === null ? [] : ['proxy'];
      return providers.has(one.provider) ? [`provider:${one.provider}`] : [];
    });
    return [
      ...(passkeys && this.passkeys.of(id).length > 0 ? ['passkey'] : []),
      ...(passwords && password !== null && email !== null ? ['password'] : []),
      ...linked,
    ];
  }

  /** Whether nobody else is an owner who may sign in. */
  isLastOwner({ id, role }: Account): boolean {
    return role === 'owner' && !this.people.all().some((one) => one.id !== id && one.role === 'owner' && !one.disabled);
  }

  /**
   * Removes an account, with what was shared with it and what it invited to. Rejects with `UNKNOWN_PERSON`, and with what `check`
   * throws.
   */
  remove(id: string, check: () => void): Promise<Account> {
    const { sharing, invitations, passkeys, connections, identities } = this;
    const all = [sharing, invitations, passkeys, connections, identities];
    return this.people.remove(id, () => {
      check();
      return all.flatMap((one) => one.forgets(id));
    });
  }

  /** Signs a browser out. */
  async end(session: string): Promise<void> {
    const person = this.people.session(session)?.person;
    if (person !== undefined) await this.people.end(person, ({ id }) => id === session);
  }

  /** Removes an app from shares and invitations, when it is removed or a new one is about to get its id. */
  readonly forgetApp: (app: string) => Promise<void>;

  async #forgetApp(app: string): Promise<void> {
    const hasEnded = await this.#records.change(() => {
      const changes = [
        ...this.sharing.forgetsApp(app),
        ...this.invitations.forgetsApp(app),
        ...this.connections.forgetsApp(app),
      ];
      return { changes, gives: changes.length > 0 };
    });
    if (hasEnded) this.sharing.emit('ended');
  }

  /** Has `call` run when something that somebody was given has ended. */
  onEnded(call: () => void): void {
    this.people.on('ended', call);
    this.sharing.on('ended', call);
    this.connections.on('ended', call);
    this.#nodes.onEnded(call);
  }

  /** Stores the last uses. */
  async close(): Promise<void> {
    await this.people.storeLastUses();
    this.#records.close();
  }
}
