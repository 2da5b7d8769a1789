/** Keeps which accounts at providers are whose, and decides who comes in by one (specification, "Signing in"). */
import { randomBytes } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import type { SignIn } from '../http/access/cookie.ts';
import { addressKey, type Browser, type People } from './people.ts';
import type { Account, Change, Held, Identity, Records } from './records.ts';
import type { ProviderSettings } from './ways.ts';

/** What a provider says of who signed in there. `email` is an address that it has verified; null where there is none. */
export type Said = Pick<Identity, 'provider' | 'issuer' | 'subject' | 'email'> & { name: string };

/** Whom a provider may make accounts for, and in which role. Without `allow` it is everybody. */
export type Admission = { allow?: ProviderSettings['allow']; role: Account['role'] };

/** Who came in. `isNew`: by an account that was made for it. */
export type Entered = { account: Account; signIn: SignIn; isNew: boolean };

type IdentitiesOptions = {
  records: Records;
  people: People;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

export class Identities {
  readonly #records: Records;
  readonly #people: People;
  readonly #now: () => number;
  /** The ids of identities by issuer and subject, and by person. */
  readonly #bySubject = new Map<string, string>();
  readonly #byPerson = new Map<string, Set<string>>();

  constructor({ records, people, now = Date.now }: IdentitiesOptions) {
    this.#records = records;
    this.#people = people;
    this.#now = now;
    records.follow((held) => this.#follow(held));
  }

  /** The identities of a person, in the order in which they were linked. */
  of(person: string): Identity[] {
    return [...(this.#byPerson.get(person) ?? [])].flatMap((id) => this.#records.identity.get(id) ?? []);
  }

  /**
   * Whose account it is: that of who was linked, else that of who has the verified address and nobody else of this issuer. An
   * address that its person only claimed is not theirs by that.
   */
  who({ issuer, subject, email }: Pick<Said, 'issuer' | 'subject' | 'email'>): Account | undefined {
    const linked = this.#linked(issuer, subject);
    if (linked !== undefined) return this.#people.find(linked.person);
    const account = email === null ? undefined : this.#people.byEmail(email);
    return account?.isVouched && !this.#hasOne(account.id, issuer) ? account : undefined;
  }

  /**
   * The changes that link an identity to an account, or note its use: part of a larger change. Throws `CONFLICT` where it is another
   * person's, and where the account has another one of the issuer.
   */
  links(person: string, { provider, issuer, subject, email }: Said): Change[] {
    const now = this.#now();
    const linked = this.#linked(issuer, subject);
    if (linked !== undefined && linked.person !== person)
      throw new SvcError('CONFLICT', 'This account of the provider is linked to another person here.');
    if (linked === undefined && this.#hasOne(person, issuer))
      throw new SvcError('CONFLICT', 'Another account of this provider is linked here; unlink that one first.');
    const identity = linked ?? { id: `o_${randomBytes(6).toString('hex')}`, person, issuer, subject, createdAt: now };
    return [['put', 'identity', { ...identity, provider, email, lastUsedAt: now }]];
  }

  /** Links an identity to the account of who is signed in. Rejects as `links` throws. */
  link(person: string, said: Said): Promise<Account> {
    return this.#records.change(() => {
      const gives = this.#people.get(person);
      return { changes: this.links(person, said), gives };
    });
  }

  /** Takes an identity away. Rejects with `NOT_FOUND`, and with what `check` throws. */
  unlink(person: string, id: string, check: () => void): Promise<Identity> {
    return this.#records.change(() => {
      const identity = this.of(person).find((one) => one.id === id);
      if (identity === undefined) throw new SvcError('NOT_FOUND', `This person has no identity "${id.slice(0, 80)}".`);
      check();
      return { changes: [['drop', 'identity', id]], gives: identity };
    });
  }

  /** Signs in who a provider names, and makes an account where `admission` allows it. Rejects with `FORBIDDEN`. */
  async enter(said: Said, admission: Admission, browser: Browser): Promise<Entered> {
    const entered = await this.#records.change(() => {
      const known = this.who(said);
      const { account, changes } = known === undefined ? this.#makes(said, admission) : { account: known, changes: [] };
      if (account.disabled)
        throw new SvcError('FORBIDDEN', 'This account may not sign in; ask an owner of the gateway.');
      const { signIn, changes: begun } = this.#people.begins(account.id, browser);
      const gives = { account, signIn, isNew: known === undefined };
      return { changes: [...changes, ...this.links(account.id, said), ...begun], gives };
    });
    this.#people.used(entered.signIn.id);
    return entered;
  }

  /** Takes the identities of a person away: part of a larger change. */
  forgets(person: string): Change[] {
    return this.of(person).map(({ id }) => ['drop', 'identity', id]);
  }

  /** The answer is the same for everybody without an account, whoever else has one. */
  #makes({ name, email }: Said, { allow, role }: Admission): { account: Account; changes: Change[] } {
    const isTaken = email !== null && this.#people.byEmail(email)?.isVouched === true;
    if (isTaken || (allow !== undefined && !isAllowed(allow, email)))
      throw new SvcError(
        'FORBIDDEN',
        'Nobody here signs in with this account of the provider. Sign in another way and link it under your account, ' +
          'or ask an owner of this gateway for an invitation.',
      );
    return this.#people.makes({ name, email, isVouched: email !== null, role, password: null });
  }

  #linked(issuer: string, subject: string): Identity | undefined {
    return this.#records.identity.get(this.#bySubject.get(keyOf(issuer, subject)) ?? '');
  }

  #hasOne(person: string, issuer: string): boolean {
    return this.of(person).some((one) => one.issuer === issuer);
  }

  #follow({ kind, before, after }: Held): void {
    if (kind !== 'identity') return;
    if (after !== undefined) {
      this.#bySubject.set(keyOf(after.issuer, after.subject), after.id);
      const all = this.#byPerson.get(after.person) ?? new Set();
      this.#byPerson.set(after.person, all.add(after.id));
    } else if (before !== undefined) {
      this.#bySubject.delete(keyOf(before.issuer, before.subject));
      this.#byPerson.get(before.person)?.delete(before.id);
    }
  }
}

function keyOf(issuer: string, subject: string): string {
  return `${issuer}\n${subject}`;
}

function isAllowed({ emails = [], domains = [] }: ProviderSettings['allow'], email: string | null): boolean {
  if (email === null) return false;
  const key = addressKey(email);
  const isNamed = emails.some((one) => addressKey(one) === key);
  return isNamed || domains.some((domain) => key.endsWith(`@${domain.toLowerCase()}`));
}
