/**
 * Holds back what is to be stored while many runs are under way, until some of it leaves together: the writer then commits it
 * at once, and a commit costs about the same for one run as for ten. Each write stays what it is, with an outcome of its own.
 */
import { LIMITS } from '../../../protocol/limits.ts';

/** Runs under way up to which nothing waits: there would be nobody to share a commit with. */
const FEW_RUNS = 4;

export class GatheredWrites {
  #held: (() => void)[] = [];
  #timer: NodeJS.Timeout | null = null;

  /**
   * Does `write` and resolves as it does. With more than a few runs under way it waits until half of them have something to
   * store, or for `LIMITS.runGatherMs`.
   */
  add<T>(runsUnderWay: number, write: () => Promise<T>): Promise<T> {
    if (runsUnderWay <= FEW_RUNS && this.#held.length === 0) return write();
    return new Promise((resolve, reject) => {
      this.#held.push(() => write().then(resolve, reject));
      if (this.#held.length >= runsUnderWay / 2) this.flush();
      else this.#timer ??= setTimeout(() => this.flush(), LIMITS.runGatherMs);
    });
  }

  /** Nothing waits any longer. */
  flush(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    const held = this.#held;
    this.#held = [];
    for (const write of held) write();
  }
}
