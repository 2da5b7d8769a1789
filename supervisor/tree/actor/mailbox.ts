/** A bounded first-in-first-out queue of calls. Calls that were settled while they waited are skipped. Pure. */

export type Waiting = { readonly settled: boolean };

export class Mailbox<T extends Waiting> {
  readonly #limit: number;
  /** Those that left, before `head`, are not held: each has a request's body. */
  #items: (T | undefined)[] = [];
  #head = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Calls that wait; settled ones count until they are reached. */
  get size(): number {
    return this.#items.length - this.#head;
  }

  /** Whether no call waits that is still wanted. */
  get empty(): boolean {
    this.#skipSettled();
    return this.#head === this.#items.length;
  }

  /** False when the mailbox is full. */
  push(item: T): boolean {
    if (this.size >= this.#limit) {
      this.#compact();
      if (this.size >= this.#limit) return false;
    }
    this.#items.push(item);
    return true;
  }

  /** Puts calls that had left already back in front, whatever the limit: they were admitted before. */
  putBack(items: T[]): void {
    this.#items = [...items, ...this.#waiting()];
    this.#head = 0;
  }

  /** The next call that is still wanted. */
  shift(): T | undefined {
    this.#skipSettled();
    const item = this.#items[this.#head];
    if (item) this.#items[this.#head++] = undefined;
    return item;
  }

  /** Takes out every call that is still wanted. */
  drain(): T[] {
    const items = this.#wanted();
    this.#items = [];
    this.#head = 0;
    return items;
  }

  #waiting(): T[] {
    return this.#items.slice(this.#head) as T[];
  }

  #wanted(): T[] {
    return this.#waiting().filter((item) => !item.settled);
  }

  #skipSettled(): void {
    while (this.#items[this.#head]?.settled) this.#items[this.#head++] = undefined;
    if (this.#head > 64 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }

  #compact(): void {
    this.#items = this.#wanted();
    this.#head = 0;
  }
}
