/**
 * Every call's deadline under one timer. A call costs a few assignments to be put on a list and taken off it; a coarse sweep
 * finds those that are due, so that the hot path sets no timer of its own.
 */

/** `previous` and `next` belong to the list; an item is on one list at most. */
export type Due = {
  readonly deadline: number;
  expire(): void;
  previous: Due | null;
  next: Due | null;
};

const SWEEP_MS = 20;
/** A sweep that comes this late means that this process did not run. */
const PAUSE_MS = 10 * SWEEP_MS;

export class Deadlines {
  readonly #now: () => number;
  #first: Due | null = null;
  #timer: NodeJS.Timeout | null = null;
  #lastSweep = 0;
  #waited = false;

  /** `now` is the clock that `deadline` refers to, in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  add(item: Due): void {
    item.next = this.#first;
    if (this.#first) this.#first.previous = item;
    this.#first = item;
    if (this.#timer) return;
    this.#lastSweep = this.#now();
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS);
  }

  /** Does nothing for an item that is not on the list any more. */
  delete(item: Due): void {
    const { previous, next } = item;
    if (previous) previous.next = next;
    else if (this.#first === item) this.#first = next;
    else return;
    if (next) next.previous = previous;
    item.previous = null;
    item.next = null;
  }

  #sweep(): void {
    const now = this.#now();
    // After a pause answers may wait to be read; whoever has one is not told that the time was up.
    this.#waited = !this.#waited && now - this.#lastSweep > PAUSE_MS;
    this.#lastSweep = now;
    if (this.#waited) return;
    const due: Due[] = [];
    for (let item = this.#first; item; item = item.next) if (item.deadline <= now) due.push(item);
    for (const item of due) {
      // The end of one may have settled another.
      if (item.previous === null && this.#first !== item) continue;
      this.delete(item);
      item.expire();
    }
    if (this.#first === null && this.#timer) {
      clearInterval(this.#timer);
      this.#timer = null;
    }
  }
}
