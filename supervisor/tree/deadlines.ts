/**
 * Every call's deadline under one timer. A call costs an insertion and a removal in a set; a coarse sweep finds those that
 * are due, so that the hot path sets no timer of its own.
 */

export type Due = { readonly deadline: number; expire(): void };

const SWEEP_MS = 20;

export class Deadlines {
  readonly #now: () => number;
  readonly #open = new Set<Due>();
  #timer: NodeJS.Timeout | null = null;

  /** `now` is the clock that `deadline` refers to, in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  add(item: Due): void {
    this.#open.add(item);
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS);
  }

  delete(item: Due): void {
    this.#open.delete(item);
  }

  #sweep(): void {
    const now = this.#now();
    for (const item of this.#open) {
      if (item.deadline > now) continue;
      this.#open.delete(item);
      item.expire();
    }
    if (this.#open.size === 0 && this.#timer) {
      clearInterval(this.#timer);
      this.#timer = null;
    }
  }
}
