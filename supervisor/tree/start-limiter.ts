/**
 * Limits how many threads one host starts at a time. Starting is work for the CPU: when many apps are called at once, all of them
 * starting together would be late together, and taken for threads that do not start. One by one they are in time.
 */
import { LIMITS } from '../../protocol/limits.ts';

type Starter = {
  /** There may be a place now. */
  hostReady(): void;
};

export class StartLimiter {
  readonly #starting = new Set<Starter>();
  readonly #waiting = new Set<Starter>();

  /** Whether it may start now. If not, its `hostReady` is called when there is a place. */
  enter(starter: Starter): boolean {
    if (this.#starting.size >= LIMITS.startsAtOnce) {
      this.#waiting.add(starter);
      return false;
    }
    this.#starting.add(starter);
    return true;
  }

  /** It has started, or never will. */
  leave(starter: Starter): void {
    this.#waiting.delete(starter);
    if (!this.#starting.delete(starter)) return;
    for (const next of this.#waiting) {
      if (this.#starting.size >= LIMITS.startsAtOnce) return;
      this.#waiting.delete(next);
      next.hostReady();
    }
  }
}
