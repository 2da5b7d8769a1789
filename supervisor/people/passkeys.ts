/** Keeps the passkeys of people (specification, "Signing in"). What their devices answer is checked in `passkey-answers.ts`. */
import { randomBytes } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Change, Held, Passkey, Records } from './records.ts';

/** What a passkey begins with. */
export type NewPasskey = Omit<Passkey, 'id' | 'person' | 'createdAt' | 'lastUsedAt'>;

type PasskeysOptions = {
  records: Records;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

export class Passkeys {
  readonly #records: Records;
  readonly #now: () => number;
  /** The ids of passkeys. */
  readonly #ofPerson = new Map<string, Set<string>>();
  readonly #byCredential = new Map<string, string>();

  constructor({ records, now = Date.now }: PasskeysOptions) {
    this.#records = records;
    this.#now = now;
    records.follow((held) => this.#follow(held));
  }

  /** The passkeys of a person, the oldest first. */
  of(person: string): Passkey[] {
    const all = [...(this.#ofPerson.get(person) ?? [])].flatMap((id) => this.#records.passkey.get(id) ?? []);
    return all.sort((one, other) => one.createdAt - other.createdAt);
  }

  /** The one that its device calls so. */
  byCredential(credentialId: string): Passkey | undefined {
    return this.#records.passkey.get(this.#byCredential.get(credentialId) ?? '');
  }

  /** Under which devices keep an account: the same for all passkeys of a person, so that a device replaces its own. */
  handleOf(person: string | null): string {
    const [first] = person === null ? [] : this.of(person);
    return first?.handle ?? randomBytes(32).toString('base64url');
  }

  /** The changes that give a person a passkey: part of a larger change. Throws `CONFLICT` where it is there, or they have too many. */
  adds(person: string, given: NewPasskey): { passkey: Passkey; changes: Change[] } {
    if (this.byCredential(given.credentialId) !== undefined)
      throw new SvcError('CONFLICT', 'This passkey is there already.', { path: 'passkey' });
    if (this.of(person).length >= LIMITS.passkeys)
      throw new SvcError('CONFLICT', `An account has at most ${LIMITS.passkeys} passkeys. Remove one first.`);
    const id = `k_${randomBytes(6).toString('hex')}`;
    const passkey: Passkey = { ...given, id, person, createdAt: this.#now(), lastUsedAt: null };
    return { passkey, changes: [['put', 'passkey', passkey]] };
  }

  /** Gives a person a passkey. Rejects as `adds` throws, and with `UNKNOWN_PERSON` where they are gone meanwhile. */
  add(person: string, given: NewPasskey): Promise<Passkey> {
    return this.#records.change(() => {
      if (!this.#records.person.has(person))
        throw new SvcError('UNKNOWN_PERSON', 'This account was removed meanwhile.');
      const { passkey, changes } = this.adds(person, given);
      return { changes, gives: passkey };
    });
  }

  /** The changes that note a use: part of a larger change. Throws `CONFLICT` where it was used or removed since `known` was read. */
  uses(known: Passkey, used: Pick<Passkey, 'counter' | 'synced'>): Change[] {
    const passkey = this.#records.passkey.get(known.id);
    if (passkey?.counter !== known.counter)
      throw new SvcError('CONFLICT', 'This passkey was used or removed meanwhile; try again.');
    return [['put', 'passkey', { ...passkey, ...used, lastUsedAt: this.#now() }]];
  }

  /** Rejects with `UNKNOWN_PASSKEY`. */
  rename(person: string, id: string, name: string): Promise<Passkey> {
    return this.#records.change(() => {
      const passkey = { ...this.#get(person, id), name };
      return { changes: [['put', 'passkey', passkey]], gives: passkey };
    });
  }

  /** Rejects with `UNKNOWN_PASSKEY`, and with `CONFLICT` where it is the last one, and `mayBeLast` is false then. */
  remove(person: string, id: string, mayBeLast: () => boolean): Promise<Passkey> {
    return this.#records.change(() => {
      const passkey = this.#get(person, id);
      if (this.of(person).length === 1 && !mayBeLast())
        throw new SvcError(
          'CONFLICT',
          'You could not sign in any more without this passkey. Add another one, or a password, first.',
        );
      return { changes: [['drop', 'passkey', id]], gives: passkey };
    });
  }

  /** Removes those of a person: part of a larger change. */
  forgets(person: string): Change[] {
    return this.of(person).map(({ id }) => ['drop', 'passkey', id]);
  }

  #get(person: string, id: string): Passkey {
    const passkey = this.#records.passkey.get(id);
    if (passkey?.person === person) return passkey;
    throw new SvcError('UNKNOWN_PASSKEY', `This person has no passkey "${id.slice(0, 80)}".`);
  }

  #follow({ kind, before, after }: Held): void {
    if (kind !== 'passkey') return;
    if (after !== undefined) {
      this.#ofPerson.set(after.person, (this.#ofPerson.get(after.person) ?? new Set()).add(after.id));
      this.#byCredential.set(after.credentialId, after.id);
    } else if (before !== undefined) {
      const all = this.#ofPerson.get(before.person);
      all?.delete(before.id);
      if (all?.size === 0) this.#ofPerson.delete(before.person);
      this.#byCredential.delete(before.credentialId);
    }
  }
}
