/**
 * Paces the stores of all turns together: a store, with the work that it causes for followers, takes about as long for one
 * event as for ten. When many turns run, each stores less often and more at a time, so that other calls are not slowed down.
 */
import { LIMITS } from '../../../protocol/limits.ts';

export class StorePace {
  /** When the next group may be stored, on the clock of `performance.now`. */
  #next = 0;

  /** Resolves when a turn may store what it has, in the order of the calls: at once, or behind what else happens now. */
  turn(): Promise<void> {
    const now = performance.now();
    const at = Math.max(this.#next, now - LIMITS.chatStoreBurst * LIMITS.chatStoreEveryMs);
    this.#next = at + LIMITS.chatStoreEveryMs;
    return new Promise((resolve) => {
      // One piece of an agent's text arrives as several events, which should form one group.
      if (at <= now) setImmediate(resolve);
      else setTimeout(resolve, at - now);
    });
  }
}
