/** Keeps who may use which app, and in what role: shares and groups (specification, "People"). */
import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type Grant, grantsFor, lastingGrant, RIGHTS, strengthOf } from '../http/access/grants.ts';
import { authorGrants, type Known, type MakerOf } from '../http/access/person.ts';
import { pictureOf } from './pictures.ts';
import type { Account, Change, Group, Held, Records, Share, SharedWith } from './records.ts';

export type NewShare = Pick<Share, 'app' | 'to' | 'role' | 'expiresAt' | 'by'>;

type SharingOptions = {
  records: Records;
  makerOf: MakerOf;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/** `ended`: a share has ended or changed, so what goes on with it must end. */
export class Sharing extends EventEmitter<{ ended: [] }> {
  readonly #records: Records;
  readonly #makerOf: MakerOf;
  readonly #now: () => number;
  readonly #byApp = new Index<Share>();
  /** By `keyOf` of whom they are for. */
  readonly #byWhom = new Index<Share>();
  /** The groups of each person. */
  readonly #groupsOf = new Index<Group>();
  /** What each person was given, until something of it changes. */
  readonly #given = new Map<string, { account: Account; known: Known }>();

  constructor({ records, makerOf, now = Date.now }: SharingOptions) {
    super();
    this.#records = records;
    this.#makerOf = makerOf;
    this.#now = now;
    records.follow((held) => this.#follow(held));
  }

  /** A person with what they may do: an owner everything, an author what they made, and everyone what is shared with them. */
  knownOf(account: Account): Known {
    const given = this.#given.get(account.id);
    const { id, name, email, role } = account;
    const picture = pictureOf(account);
    const before = given?.account;
    const isSame = before?.name === name && before.email === email && before.role === role;
    if (given && isSame && before.picture === account.picture) return given.known;
    const grants = this.#grantsOf(account);
    // What an author made changes, and what ends by itself is asked for each time.
    const isLasting = role !== 'author' && grants.every(({ expiresAt }) => expiresAt === null);
    const known: Known = {
      person: { id, name, ...(email !== null && { email }), ...(picture !== null && { picture }), role },
      grants,
      ...(isLasting && { seen: {} }),
    };
    this.#given.set(id, { account, known });
    return known;
  }

  /** The shares of an app, in the order in which they were made. */
  of(app: string): Share[] {
    return [...this.#byApp.of(app)];
  }

  /** The shares that reach a person, also by groups. */
  with(person: string): Share[] {
    const groups = [...this.#groupsOf.of(person)].map(({ id }) => this.#byWhom.of(`group ${id}`));
    return [this.#byWhom.of(`person ${person}`), ...groups, this.#byWhom.of('everyone')].flatMap((all) => [...all]);
  }

  /**
   * Shares an app. Where it is shared with the same one already, that share changes. `before` gets that one in the turn of the
   * change, and may throw.
   */
  async share(given: NewShare, before: (existing: Share | undefined) => void = () => {}): Promise<Share> {
    const share = await this.#records.change(() => {
      before(this.#existing(given));
      const { share, changes } = this.shares(given);
      return { changes, gives: share };
    });
    this.emit('ended');
    return share;
  }

  /** The changes that give a person at least this role in an app: part of a larger change. Throws as `shares`. */
  raises(given: NewShare): Change[] {
    const known = this.#existing(given);
    if (known === undefined || !this.#isGood(known)) return this.shares(given).changes;
    const isLess = strengthOf(known.role) > strengthOf(given.role);
    const isAsLong = known.expiresAt === null || (given.expiresAt !== null && given.expiresAt <= known.expiresAt);
    return isLess || (known.role === given.role && isAsLong) ? [] : this.shares(given).changes;
  }

  /** The changes that share an app: part of a larger change. Throws `CONFLICT` where there are too many shares. */
  shares(given: NewShare): { share: Share; changes: Change[] } {
    const known = this.#existing(given);
    if (known === undefined && this.#records.share.size >= LIMITS.shares)
      throw new SvcError('CONFLICT', `There are already ${LIMITS.shares} shares, the maximum. End one first.`);
    const id = known?.id ?? `s_${randomBytes(6).toString('hex')}`;
    const share: Share = { ...given, id, createdAt: known?.createdAt ?? this.#now() };
    const over = this.of(given.app).filter((one) => one.id !== id && !this.#isGood(one));
    return { share, changes: [...over.map((one): Change => ['drop', 'share', one.id]), ['put', 'share', share]] };
  }

  /** Ends a share of an app, unless `permit` throws. Rejects with `UNKNOWN_SHARE`. */
  async unshare(app: string, id: string, permit: (share: Share) => void): Promise<Share> {
    const ended = await this.#records.change(() => {
      const share = this.#records.share.get(id);
      if (share?.app !== app)
        throw new SvcError('UNKNOWN_SHARE', `The app "${app}" has no share "${id.slice(0, 80)}".`);
      permit(share);
      return { changes: [['drop', 'share', id]], gives: share };
    });
    this.emit('ended');
    return ended;
  }

  /** The share whose link has a code with this SHA-256. */
  byLink(digest: string): Share | undefined {
    const [share] = this.#byWhom.of(keyOf({ link: digest, maker: null }));
    return share;
  }

  /** Ends all shares of an app that was removed, or whose id a new one takes: part of a larger change. */
  forgetsApp(app: string): Change[] {
    return this.of(app).map(({ id }) => ['drop', 'share', id]);
  }

  /** What else goes with a person: also the links that they made. */
  forgets(person: string): Change[] {
    const made = [...this.#records.share.values()].filter(({ to }) => 'link' in to && to.maker === person);
    const shares = [...this.#byWhom.of(`person ${person}`), ...made].map(({ id }): Change => ['drop', 'share', id]);
    const groups = [...this.#groupsOf.of(person)].map((group): Change => {
      return ['put', 'group', { ...group, members: group.members.filter((member) => member !== person) }];
    });
    return [...shares, ...groups];
  }

  groups(): Group[] {
    return [...this.#records.group.values()];
  }

  /** Throws `UNKNOWN_GROUP`. */
  group(id: string): Group {
    const group = this.#records.group.get(id);
    if (group === undefined) throw new SvcError('UNKNOWN_GROUP', `There is no group "${id.slice(0, 80)}".`);
    return group;
  }

  /** Makes a group. Rejects with `CONFLICT` for a name that another group has, and `UNKNOWN_PERSON` for a member. */
  makeGroup(name: string, members: readonly string[]): Promise<Group> {
    return this.#records.change(() => {
      if (this.#records.group.size >= LIMITS.groups)
        throw new SvcError('CONFLICT', `There are already ${LIMITS.groups} groups, the maximum. Remove one first.`);
      const group = this.#checked({ id: `g_${randomBytes(6).toString('hex')}`, name, members });
      return { changes: [['put', 'group', group]], gives: group };
    });
  }

  /** Changes a group. Rejects as `makeGroup`, and with `UNKNOWN_GROUP`. */
  async changeGroup(id: string, change: Partial<Pick<Group, 'name' | 'members'>>): Promise<Group> {
    const changed = await this.#records.change(() => {
      const group = this.#checked({ ...this.group(id), ...change });
      return { changes: [['put', 'group', group]], gives: group };
    });
    this.emit('ended');
    return changed;
  }

  /** Removes a group, with what is shared with it. Rejects with `UNKNOWN_GROUP`. */
  async removeGroup(id: string): Promise<Group> {
    const removed = await this.#records.change(() => {
      const gives = this.group(id);
      const shares = [...this.#byWhom.of(`group ${id}`)].map((share): Change => ['drop', 'share', share.id]);
      return { changes: [...shares, ['drop', 'group', id]], gives };
    });
    this.emit('ended');
    return removed;
  }

  #existing({ app, to }: NewShare): Share | undefined {
    const key = keyOf(to);
    return [...this.#byWhom.of(key)].find((share) => share.app === app);
  }

  #checked(group: Group): Group {
    const { id, name, members } = group;
    const taken = this.groups().some((other) => other.id !== id && other.name === name);
    if (taken) throw new SvcError('CONFLICT', `Another group is called "${name}".`, { path: 'name' });
    for (const [i, member] of members.entries()) {
      if (!this.#records.person.has(member))
        throw new SvcError('UNKNOWN_PERSON', `There is no person "${member.slice(0, 80)}".`, { path: `members[${i}]` });
    }
    return { ...group, members: [...new Set(members)] };
  }

  /** One grant for all apps of a role that were shared for good, and one for each share that ends by itself. */
  #grantsOf({ id, role }: Account): Grant[] {
    if (role === 'owner') return [lastingGrant('everything', RIGHTS.everything)];
    const shares = this.with(id);
    // Each has preferences of their own.
    const own = lastingGrant({ key: null }, ['settings']);
    const lasting = shares.filter(({ expiresAt }) => expiresAt === null);
    const general = [...new Set(lasting.map((share) => share.role))].flatMap((one) => {
      const apps = new Set(lasting.filter((share) => share.role === one).map(({ app }) => app));
      return grantsFor(one, (app) => apps.has(app));
    });
    const grants = [own, ...general];
    for (const share of shares) {
      const { app, role: given, expiresAt } = share;
      if (expiresAt === null) continue;
      const isGood = () => this.#isGood(share);
      for (const grant of grantsFor(given, (one) => one === app)) grants.push({ ...grant, expiresAt, isGood });
    }
    return role === 'author' ? [...grants, ...authorGrants(id, this.#makerOf)] : grants;
  }

  #isGood({ expiresAt }: Share): boolean {
    return expiresAt === null || expiresAt > this.#now();
  }

  #follow({ kind, before, after }: Held): void {
    if (kind === 'share') {
      this.#byApp.move(before, after, ({ app }) => [app]);
      this.#byWhom.move(before, after, ({ to }) => [keyOf(to)]);
      for (const share of [before, after]) if (share !== undefined) this.#forget(share.to);
    } else if (kind === 'group') {
      this.#groupsOf.move(before, after, ({ members }) => members);
      for (const member of [...(before?.members ?? []), ...(after?.members ?? [])]) this.#given.delete(member);
    } else if (kind === 'person' && after === undefined && before !== undefined) this.#given.delete(before.id);
  }

  #forget(to: SharedWith): void {
    if ('person' in to) this.#given.delete(to.person);
    else if ('everyone' in to) this.#given.clear();
    else if ('group' in to)
      for (const member of this.#records.group.get(to.group)?.members ?? []) this.#given.delete(member);
  }
}

function keyOf(to: SharedWith): string {
  if ('person' in to) return `person ${to.person}`;
  if ('group' in to) return `group ${to.group}`;
  return 'link' in to ? `link ${to.link}` : 'everyone';
}

/** Values by keys, of which each may have several. */
class Index<T> {
  readonly #byKey = new Map<string, Set<T>>();

  of(key: string): ReadonlySet<T> {
    return this.#byKey.get(key) ?? NONE;
  }

  move(before: T | undefined, after: T | undefined, keysOf: (value: T) => readonly string[]): void {
    for (const key of before === undefined ? [] : keysOf(before)) {
      const all = this.#byKey.get(key);
      all?.delete(before as T);
      if (all?.size === 0) this.#byKey.delete(key);
    }
    for (const key of after === undefined ? [] : keysOf(after)) {
      const all = this.#byKey.get(key) ?? new Set();
      this.#byKey.set(key, all.add(after as T));
    }
  }
}

const NONE: ReadonlySet<never> = new Set();
