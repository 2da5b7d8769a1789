/** Counts failed sign-ins by what was tried and from where, and has whoever guesses wait (specification, "Signing in"). */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

/** Failures of one name or address, the last of them at `last`. */
type Failed = { count: number; last: number; waitsUntil: number };

export class Attempts {
  readonly #now: () => number;
  /** By what was tried, in the order of the last failure. */
  readonly #failed = new Map<string, Failed>();

  /** `now` is a clock in milliseconds that never goes back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** How many names and addresses are remembered. */
  get size(): number {
    return this.#failed.size;
  }

  /**
   * Counts an attempt as failed, until `succeeded` says otherwise: those that are made at once count, too. Throws `RATE_LIMITED`
   * where the name or the address has failed too often. The answer is the same whether a person is known or not.
   */
  begin(name: string | null, address: string): void {
    const now = this.#now();
    const keys = keysOf(name, address);
    const until = Math.max(...keys.map(({ key }) => this.#failed.get(key)?.waitsUntil ?? 0));
    if (until > now) {
      const seconds = Math.ceil((until - now) / 1000);
      throw new SvcError('RATE_LIMITED', `Too many failed sign-ins; try again in ${seconds} s.`, {
        headers: { 'retry-after': String(seconds) },
      });
    }
    for (const { key, most } of keys) {
      const before = this.#failed.get(key);
      const isKnown = before !== undefined && now - before.last < LIMITS.attemptsWindowMs;
      const count = isKnown ? before.count + 1 : 1;
      // It doubles with each failure past the limit.
      const wait = count < most ? 0 : Math.min(LIMITS.attemptWaitMs * 2 ** (count - most), LIMITS.attemptsWindowMs);
      this.#failed.delete(key);
      this.#failed.set(key, { count, last: now, waitsUntil: now + wait });
    }
    for (const [key, { last }] of this.#failed) {
      if (now - last < LIMITS.attemptsWindowMs && this.#failed.size <= LIMITS.attemptsKept) break;
      this.#failed.delete(key);
    }
  }

  /** Forgets the failures of a name, and this attempt of its address: others may share that. */
  succeeded(name: string | null, address: string): void {
    for (const { key, isShared } of keysOf(name, address)) {
      const counted = this.#failed.get(key);
      if (counted === undefined) continue;
      if (isShared && counted.count > 1) this.#failed.set(key, { ...counted, count: counted.count - 1, waitsUntil: 0 });
      else this.#failed.delete(key);
    }
  }
}

function keysOf(name: string | null, address: string): { key: string; most: number; isShared: boolean }[] {
  const where = { key: `address ${address}`, most: LIMITS.attemptsOfAddress, isShared: true };
  return name === null ? [where] : [{ key: `name ${name}`, most: LIMITS.attemptsOfPerson, isShared: false }, where];
}
