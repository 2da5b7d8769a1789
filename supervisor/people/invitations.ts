/** Keeps invitations: links by which people come to an account, and to what is shared with them (specification, "People"). */
import { hash, randomBytes } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { SignIn } from '../http/access/cookie.ts';
import { isMore, may, mayGive } from '../http/access/grants.ts';
import type { NewPasskey, Passkeys } from './passkeys.ts';
import { addressKey, type Browser, type People } from './people.ts';
import type { Account, Change, Invitation, Records } from './records.ts';
import type { Sharing } from './sharing.ts';

export type NewInvitation = Pick<
  Invitation,
  'name' | 'email' | 'role' | 'grants' | 'person' | 'uses' | 'by' | 'inviter'
> & {
  expiresInDays: number;
};

/**
 * Who takes an invitation: the person who is signed in, or null, and what was said of a new account. `password` is its hash; null
 * where there is to be none, or where it stays. `passkey` is one that the account gets.
 */
export type Guest = {
  signedIn: string | null;
  password: string | null;
  passkey: NewPasskey | null;
  name?: string;
  email?: string;
  other?: OtherWay;
};
/** Another way to sign in, which the account gets, and with which it needs no password. `email` is an address that it proves. */
export type OtherWay = { email: string | null; changes: (account: Account) => readonly Change[] };

type InvitationsOptions = {
  records: Records;
  people: People;
  sharing: Sharing;
  passkeys: Passkeys;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

export class Invitations {
  readonly #records: Records;
  readonly #people: People;
  readonly #sharing: Sharing;
  readonly #passkeys: Passkeys;
  readonly #now: () => number;

  constructor({ records, people, sharing, passkeys, now = Date.now }: InvitationsOptions) {
    this.#records = records;
    this.#people = people;
    this.#sharing = sharing;
    this.#passkeys = passkeys;
    this.#now = now;
  }

  /** Those that may still be used, the newest first. */
  all(): Invitation[] {
    return [...this.#records.invitation.values()].filter(({ expiresAt }) => expiresAt > this.#now()).reverse();
  }

  /** Makes an invitation; its code is in the answer and nowhere else. Expired ones make room. Rejects with `CONFLICT`. */
  make({ expiresInDays, ...given }: NewInvitation): Promise<{ invitation: Invitation; code: string }> {
    const code = randomBytes(32).toString('base64url');
    return this.#records.change(() => {
      const now = this.#now();
      const old = [...this.#records.invitation.values()].filter(({ expiresAt }) => expiresAt <= now);
      if (this.#records.invitation.size - old.length >= LIMITS.invitations)
        throw new SvcError('CONFLICT', `There are already ${LIMITS.invitations} invitations, the maximum.`);
      const invitation: Invitation = {
        ...given,
        id: `i_${randomBytes(6).toString('hex')}`,
        digest: hash('sha256', code),
        createdAt: now,
        expiresAt: now + expiresInDays * LIMITS.dayMs,
      };
      const changes = old.map(({ id }): Change => ['drop', 'invitation', id]);
      return { changes: [...changes, ['put', 'invitation', invitation]], gives: { invitation, code } };
    });
  }

  /** Takes an invitation back. Rejects with `UNKNOWN_INVITATION`. */
  withdraw(id: string): Promise<Invitation> {
    return this.#records.change(() => {
      const invitation = this.#records.invitation.get(id);
      if (invitation === undefined)
        throw new SvcError('UNKNOWN_INVITATION', `There is no invitation "${id.slice(0, 80)}".`);
      return { changes: [['drop', 'invitation', id]], gives: invitation };
    });
  }

  /** The invitation with this code. Throws `UNKNOWN_INVITATION` for one that was used, was withdrawn, has expired or is void. */
  withCode(code: string): Invitation {
    const digest = hash('sha256', code);
    const found = [...this.#records.invitation.values()].find((one) => one.digest === digest);
    if (found !== undefined && found.expiresAt > this.#now() && !this.#isVoid(found)) return found;
    throw new SvcError(
      'UNKNOWN_INVITATION',
      'This invitation was used, was withdrawn or has expired. Ask whoever sent it for another one.',
    );
  }

  /**
   * Takes an invitation, signs in who takes it unless they are, and shares with them what it names. All of it is stored, or nothing: of two who
   * take the last use at once, one does. Rejects with `UNKNOWN_INVITATION`, and with `CONFLICT` for an e-mail address of another
   * person.
   */
  async accept(code: string, guest: Guest, browser: Browser): Promise<{ account: Account; signIn: SignIn }> {
    const accepted = await this.#records.change(() => {
      const invitation = this.withCode(code);
      const { account, changes: made } = this.#accountOf(guest, invitation);
      const changes = [...made, ...(guest.other?.changes(account) ?? [])];
      const shares = invitation.grants.flatMap(({ app, role, days }) => {
        const expiresAt = days === undefined ? null : this.#now() + days * LIMITS.dayMs;
        return this.#sharing.raises({ app, role, to: { person: account.id }, expiresAt, by: invitation.by });
      });
      const keys = guest.passkey === null ? [] : this.#passkeys.adds(account.id, guest.passkey).changes;
      const uses = invitation.uses - 1;
      const used: Change =
        uses === 0 ? ['drop', 'invitation', invitation.id] : ['put', 'invitation', { ...invitation, uses }];
      const { before } = browser;
      const isThere =
        before !== undefined &&
        this.#people.signedIn(before.id)?.id === guest.signedIn &&
        account.id === guest.signedIn;
      const begun = isThere ? { signIn: before, changes: [] } : this.#people.begins(account.id, browser);
      return {
        changes: [...changes, ...shares, ...keys, used, ...begun.changes],
        gives: { account, signIn: begun.signIn },
      };
    });
    this.#sharing.emit('ended');
    this.#people.used(accepted.signIn.id);
    return accepted;
  }

  /** Takes back what a person made, and what was made for them: part of a larger change. */
  forgets(person: string): Change[] {
    const all = [...this.#records.invitation.values()];
    const theirs = all.filter((one) => one.person === person || one.inviter === person);
    return theirs.map(({ id }) => ['drop', 'invitation', id]);
  }

  /** Takes an app that is gone out of all invitations: part of a larger change. */
  forgetsApp(app: string): Change[] {
    const all = [...this.#records.invitation.values()];
    return all.flatMap((one): Change[] => {
      const grants = one.grants.filter((given) => given.app !== app);
      return grants.length === one.grants.length ? [] : [['put', 'invitation', { ...one, grants }]];
    });
  }

  /** Whether who made it may no more give what it gives, or may not sign in. */
  #isVoid({ inviter, role, grants, person }: Invitation): boolean {
    if (inviter === null) return false;
    const maker = this.#people.find(inviter);
    if (maker === undefined || maker.disabled) return true;
    const known = this.#sharing.knownOf(maker);
    if ((role !== 'member' || person !== null) && !may(known, 'admin', null)) return true;
    return grants.some((given) => !mayGive(known, given.role, given.app));
  }

  /** The account of who takes an invitation, and what changes of it. Throws `BAD_REQUEST` where a new one lacks something. */
  #accountOf(guest: Guest, invitation: Invitation): { account: Account; changes: readonly Change[] } {
    const { password } = guest;
    const { person, role } = invitation;
    if (person !== null) {
      const account = this.#people.get(person);
      if (account.disabled)
        throw new SvcError('FORBIDDEN', 'This account may not sign in; ask an owner of the gateway.');
      if (password === null) return { account, changes: [] };
      const next = { ...account, password };
      return { account: next, changes: [['put', 'person', next], ...this.#people.dropsSessions(person)] };
    }
    if (guest.signedIn !== null) {
      const account = this.#people.get(guest.signedIn);
      if (!isMore(role, account.role)) return { account, changes: [] };
      const next = { ...account, role };
      return { account: next, changes: [['put', 'person', next]] };
    }
    return this.#newAccount(guest, invitation);
  }

  /** Throws `BAD_REQUEST` where it lacks something. */
  #newAccount(guest: Guest, { role, email, name, inviter }: Invitation): { account: Account; changes: Change[] } {
    const { password, passkey, other } = guest;
    const wanted = { name: guest.name ?? name, email: email ?? guest.email ?? other?.email ?? null, password };
    for (const [member, value] of Object.entries(wanted)) {
      // A passkey or a provider is enough to sign in with; a password needs an address.
      const isNeeded =
        member === 'name' || (passkey === null && other === undefined) || (member === 'email' && password !== null);
      if (value === null && isNeeded)
        throw new SvcError('BAD_REQUEST', `A new account needs "${member}".`, { path: member });
    }
    // An address that an owner's invitation was made for is its person's; another one is only what they say.
    const isNamed = email !== null && (inviter === null || this.#isOwner(inviter));
    const isProven = other?.email != null && addressKey(other.email) === addressKey(wanted.email ?? '');
    const isVouched = isNamed || isProven;
    return this.#people.makes({ ...wanted, name: wanted.name ?? '', role, isVouched });
  }

  #isOwner(person: string): boolean {
    return this.#people.find(person)?.role === 'owner';
  }
}
