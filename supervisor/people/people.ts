/**
 * Keeps the accounts of people and the browsers in which they are signed in (specification, "People"). What an account may do is
 * in `sharing.ts`.
 */
import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { SignIn } from '../http/access/cookie.ts';
import { ALONE, type IdentityNodes } from './identity-db.ts';
import type { Account, Change, Held, PersonSession, Records } from './records.ts';

/** The writer takes a limited number of statements at once. */
const USES_AT_ONCE = 2000;

/** What an account begins with. */
export type NewAccount = Pick<Account, 'name' | 'email' | 'isVouched' | 'role' | 'password'>;
/** Where a browser signs in from, what it calls itself, and the person's session that it had, which ends. */
export type Browser = { address: string; device: string; before: SignIn | undefined };

type PeopleOptions = {
  records: Records;
  nodes?: IdentityNodes | undefined;
  log: Logger;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/** `ended`: what somebody was given may have ended, so what goes on with it must end. */
export class People extends EventEmitter<{ ended: [] }> {
  readonly #records: Records;
  readonly #log: Logger;
  readonly #now: () => number;
  /** The ids of accounts by the e-mail addresses that they have had last, as `addressKey` writes them. */
  readonly #byEmail = new Map<string, string>();
  readonly #sessionsOf = new Map<string, Set<string>>();
  /** When each session was last used, where that is not stored yet. */
  readonly #used = new Map<string, number>();
  readonly #storeUsed: (uses: readonly (readonly [session: string, at: number])[]) => Promise<void>;
  readonly #dropOverdue: (given: null) => Promise<void>;
  #noteTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor({ records, nodes = ALONE, log, now = Date.now }: PeopleOptions) {
    super();
    this.#records = records;
    this.#log = log;
    this.#now = now;
    this.#storeUsed = nodes.atOwner('uses of sessions', (uses: readonly (readonly [string, number])[]) =>
      records.change(() => ({ changes: this.#uses(uses), gives: undefined })),
    );
    this.#dropOverdue = nodes.atOwner('overdue sessions', () =>
      records.change(() => ({ changes: this.#overdue(), gives: undefined })),
    );
    records.follow((held) => this.#follow(held));
  }

  /** All accounts, in the order in which they were made. */
  all(): Account[] {
    return [...this.#records.person.values()];
  }

  find(id: string): Account | undefined {
    return this.#records.person.get(id);
  }

  /** Throws `UNKNOWN_PERSON`. */
  get(id: string): Account {
    const account = this.find(id);
    if (account === undefined)
      throw new SvcError('UNKNOWN_PERSON', `There is no person "${id.slice(0, 80)}". List them with "svc people".`);
    return account;
  }

  byEmail(email: string): Account | undefined {
    const key = addressKey(email);
    const account = this.find(this.#byEmail.get(key) ?? '');
    // The address of an account may have changed since.
    return account?.email != null && addressKey(account.email) === key ? account : undefined;
  }

  /**
   * The changes that make an account: part of a larger change. Throws `CONFLICT` where its e-mail address is another person's, and
   * where there are too many people.
   */
  makes(given: NewAccount): { account: Account; changes: Change[] } {
    if (this.#records.person.size >= LIMITS.people)
      throw new SvcError('CONFLICT', `There are already ${LIMITS.people} people, the maximum. Remove one first.`);
    const id = `p_${randomBytes(6).toString('hex')}`;
    const account: Account = { ...given, id, disabled: false, createdAt: this.#now(), lastSeenAt: null };
    return { account, changes: [...this.#takesEmail(account), ['put', 'person', account]] };
  }

  /** Changes an account. Rejects with `UNKNOWN_PERSON`, and with `CONFLICT` as `makes` does. A disabled one is signed out. */
  async update(
    id: string,
    change: Partial<Pick<Account, 'name' | 'email' | 'isVouched' | 'role' | 'disabled' | 'picture'>>,
  ): Promise<Account> {
    const account = await this.#records.change(() => {
      const next = { ...this.get(id), ...change };
      const ended = next.disabled ? this.dropsSessions(id) : [];
      return { changes: [...this.#takesEmail(next), ['put', 'person', next], ...ended], gives: next };
    });
    if (change.role !== undefined || change.disabled !== undefined) this.emit('ended');
    return account;
  }

  /**
   * Gives a person another password, and signs them out but for one session. Rejects with `CONFLICT` where it was changed since
   * `known` was read.
   */
  async setPassword(known: Account, password: string, session: string | undefined): Promise<Account> {
    const account = await this.#records.change(() => {
      const next = { ...this.#unchanged(known), password };
      const others = this.dropsSessions(known.id).filter(([, , id]) => id !== session);
      return { changes: [['put', 'person', next], ...others], gives: next };
    });
    this.emit('ended');
    return account;
  }

  /** Removes an account, with what `also` names, which is about it. Rejects with `UNKNOWN_PERSON`. */
  async remove(id: string, also: () => readonly Change[]): Promise<Account> {
    const account = await this.#records.change(() => {
      const gives = this.get(id);
      return { changes: [...also(), ...this.dropsSessions(id), ['drop', 'person', id]], gives };
    });
    this.emit('ended');
    return account;
  }

  /**
   * The session of a browser in which somebody signs in, and the changes that store it: part of a larger change. Their sessions that
   * were not used for longest make room.
   */
  begins(person: string, { address, device, before }: Browser): { signIn: SignIn; changes: Change[] } {
    const now = this.#now();
    const id = `p${randomBytes(16).toString('hex')}`;
    const session: PersonSession = {
      id,
      person,
      createdAt: now,
      lastUsedAt: now,
      address,
      device: device.slice(0, LIMITS.deviceChars),
    };
    const old = this.sessionsOf(person).slice(LIMITS.personSessions - 1);
    const ended = [...old.map((one) => one.id), ...(before === undefined ? [] : [before.id])];
    return {
      signIn: { id, expiresAt: now + LIMITS.personCookieMs },
      changes: [...ended.map((old): Change => ['drop', 'session', old]), ['put', 'session', session]],
    };
  }

  /**
   * Signs a person in. `password` is their hash from now on; `also` names what else is stored with that. Rejects with `CONFLICT` where
   * the account was disabled, or its password changed, since `known` was read.
   */
  async begin(
    known: Account,
    browser: Browser,
    password: string | null,
    also: () => readonly Change[] = () => [],
  ): Promise<SignIn> {
    const begun = await this.#records.change(() => {
      const account = this.#unchanged(known);
      const { signIn, changes } = this.begins(account.id, browser);
      return { changes: [['put', 'person', { ...account, password }], ...also(), ...changes], gives: signIn };
    });
    this.used(begun.id);
    return begun;
  }

  /** Whose session this is; undefined where it has ended, or the account may not sign in. */
  signedIn(id: string): Account | undefined {
    const session = this.#records.session.get(id);
    if (session === undefined || this.expiresAt(session) <= this.#now()) return undefined;
    const account = this.find(session.person);
    return account?.disabled === false ? account : undefined;
  }

  /** Notes that a session is used, which lets it last longer. */
  used(id: string, time: number = this.#now()): void {
    this.#used.set(id, time);
    if (!this.#closed) this.#noteTimer ??= setTimeout(() => void this.#storeUses(), LIMITS.useNoteMs).unref();
  }

  /** When a session ends that is not used again. */
  expiresAt({ id, lastUsedAt }: PersonSession): number {
    return (this.#used.get(id) ?? lastUsedAt) + LIMITS.personSessionMs;
  }

  session(id: string): PersonSession | undefined {
    return this.#records.session.get(id);
  }

  /** When a session is no more fresh enough to change how its person signs in. */
  freshUntil({ createdAt, confirmedAt = createdAt }: PersonSession): number {
    return confirmedAt + LIMITS.freshSignInMs;
  }

  isFresh(session: PersonSession): boolean {
    return this.freshUntil(session) > this.#now();
  }

  /**
   * Notes that the person of a session has shown again who they are; `also` names what else is stored with that. Rejects with
   * `CONFLICT` where it has ended meanwhile.
   */
  confirm(id: string, also: () => readonly Change[]): Promise<PersonSession> {
    return this.#records.change(() => {
      const session = this.session(id);
      if (session === undefined) throw new SvcError('CONFLICT', 'You were signed out meanwhile; sign in again.');
      const gives = { ...session, confirmedAt: this.#now() };
      return { changes: [...also(), ['put', 'session', gives]], gives };
    });
  }

  /** The browsers in which somebody is signed in, the one last used first. */
  sessionsOf(person: string): PersonSession[] {
    const ids = [...(this.#sessionsOf.get(person) ?? [])];
    const sessions = ids.flatMap((id) => {
      const session = this.#records.session.get(id);
      return session === undefined || this.expiresAt(session) <= this.#now()
        ? []
        : [{ ...session, lastUsedAt: this.#used.get(id) ?? session.lastUsedAt }];
    });
    return sessions.sort((one, other) => other.lastUsedAt - one.lastUsedAt);
  }

  /** The account as it is now. Throws `CONFLICT` where somebody changed how it is signed in to. */
  #unchanged(known: Account): Account {
    const account = this.get(known.id);
    if (!account.disabled && account.password === known.password) return account;
    throw new SvcError('CONFLICT', 'This account was changed meanwhile; try again.');
  }

  /** When somebody was last here; null for never. */
  lastSeenAt({ id, lastSeenAt }: Account): number | null {
    return this.sessionsOf(id)[0]?.lastUsedAt ?? lastSeenAt;
  }

  /** Ends the sessions of a person for which `ends` is true, and answers how many those were. */
  async end(person: string, ends: (session: PersonSession) => boolean): Promise<number> {
    const ended = await this.#records.change(() => {
      const found = this.sessionsOf(person).filter(ends);
      return { changes: found.map(({ id }) => ['drop', 'session', id] as const), gives: found.length };
    });
    if (ended > 0) this.emit('ended');
    return ended;
  }

  /** Stores the last uses, and no later ones. Later calls do nothing. */
  async storeLastUses(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#noteTimer);
    if (this.#used.size > 0) await this.#storeUses();
  }

  /** Takes an address from whoever only claimed it, for one whose it is said to be. Throws `CONFLICT`. */
  #takesEmail(account: Account): Change[] {
    const holder = account.email === null ? undefined : this.byEmail(account.email);
    if (holder === undefined || holder.id === account.id) return [];
    if (holder.isVouched || !account.isVouched)
      throw new SvcError('CONFLICT', 'Another person of this gateway has this e-mail address.', { path: 'email' });
    return [['put', 'person', { ...holder, email: null }]];
  }

  /** What signs a person out everywhere: part of a larger change. */
  dropsSessions(person: string): (readonly ['drop', 'session', string])[] {
    return [...(this.#sessionsOf.get(person) ?? [])].map((id) => ['drop', 'session', id] as const);
  }

  #follow({ kind, before, after }: Held): void {
    if (kind === 'person' && after !== undefined && after.email !== null) {
      this.#byEmail.set(addressKey(after.email), after.id);
    } else if (kind === 'session' && after !== undefined) {
      const all = this.#sessionsOf.get(after.person) ?? new Set();
      this.#sessionsOf.set(after.person, all.add(after.id));
    } else if (kind === 'session' && before !== undefined) {
      const all = this.#sessionsOf.get(before.person);
      all?.delete(before.id);
      if (all?.size === 0) this.#sessionsOf.delete(before.person);
      this.#used.delete(before.id);
    }
  }

  /** Those that cannot be stored now are stored with the next ones. Sessions that have ended go. */
  async #storeUses(): Promise<void> {
    this.#noteTimer = undefined;
    const all = [...this.#used];
    try {
      for (let at = 0; at < all.length; at += USES_AT_ONCE) {
        const used = all.slice(at, at + USES_AT_ONCE);
        await this.#storeUsed(used);
        for (const [id, last] of used) if (this.#used.get(id) === last) this.#used.delete(id);
      }
      await this.#dropOverdue(null);
    } catch (error) {
      this.#log.warn({ err: error }, 'When people were last here could not be stored.');
    }
  }

  /** Other nodes may have seen later ones. */
  #uses(used: readonly (readonly [session: string, at: number])[]): Change[] {
    const changes: Change[] = [];
    const seen = new Map<string, number>();
    for (const [id, at] of used) {
      const session = this.#records.session.get(id);
      if (session === undefined) continue;
      const lastUsedAt = Math.max(at, session.lastUsedAt);
      changes.push(['put', 'session', { ...session, lastUsedAt }]);
      seen.set(session.person, Math.max(lastUsedAt, seen.get(session.person) ?? 0));
    }
    for (const [id, lastSeenAt] of seen) {
      const account = this.find(id);
      if (account === undefined) continue;
      changes.push(['put', 'person', { ...account, lastSeenAt: Math.max(lastSeenAt, account.lastSeenAt ?? 0) }]);
    }
    return changes;
  }

  #overdue(): Change[] {
    const over = [...this.#records.session.values()].filter((session) => this.expiresAt(session) <= this.#now());
    return over.slice(0, USES_AT_ONCE).map(({ id }) => ['drop', 'session', id]);
  }
}

/** Under which an address is found: people do not tell capitals apart in it. */
export function addressKey(email: string): string {
  return email.normalize('NFC').toLowerCase();
}
