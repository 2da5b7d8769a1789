/**
 * Paces what turns store, all of them together: each store, and what it wakes in those who follow, takes about the same time for one
 * event as for ten. When many turns run, each of them stores less often and more at a time, and other calls keep their time.
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
      // What an agent says in one piece comes as several events: they are to be one group.
      if (at <= now) setImmediate(resolve);
      else setTimeout(resolve, at - now);
    });
  }
}
