/** Random choices that a seed replays (mulberry32). */

export class Random {
  #state: number;

  /** `seed`: an unsigned 32-bit number. */
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  pick<T>(from: readonly T[]): T {
    return from[this.between(0, from.length - 1)] as T;
  }

  shuffled<T>(from: readonly T[]): T[] {
    const items = [...from];
    for (let n = items.length - 1; n > 0; n--) {
      const other = this.between(0, n);
      [items[n], items[other]] = [items[other] as T, items[n] as T];
    }
    return items;
  }

  /** Separate random choices, so that one part's use of chance does not shift another's. */
  fork(): Random {
    return new Random(this.between(0, 0xffff_ffff));
  }
}
