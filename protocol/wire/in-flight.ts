/**
 * Keeps what is in flight by its number, in a hash table with open addressing. A `Map` of what comes and goes makes a new table every
 * few dozen calls, and each old table points to the next one: once one of them is in V8's old space, all later ones survive with
 * what they held until a full collection.
 */
export class InFlight<T> {
  /** 0 where a slot is free. */
  #numbers: number[] = [0, 0, 0, 0, 0, 0, 0, 0];
  #items: (T | undefined)[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(number: number): T | undefined {
    return this.#items[this.#slotOf(number)];
  }

  /** `number` is a whole number from 1 on. */
  set(number: number, item: T): void {
    const slot = this.#slotOf(number);
    if (this.#numbers[slot] === 0) this.#size++;
    this.#numbers[slot] = number;
    this.#items[slot] = item;
    if (this.#size * 2 > this.#numbers.length) this.#grow();
  }

  /** False when it was not there. */
  delete(number: number): boolean {
    const numbers = this.#numbers;
    const items = this.#items;
    const mask = numbers.length - 1;
    let free = this.#slotOf(number);
    if (numbers[free] === 0) return false;
    this.#size--;
    // Those behind it that would not be found across a free slot move up.
    for (let slot = (free + 1) & mask; numbers[slot] !== 0; slot = (slot + 1) & mask) {
      const way = (slot - (numbers[slot] as number)) & mask;
      if (way < ((slot - free) & mask)) continue;
      numbers[free] = numbers[slot] as number;
      items[free] = items[slot];
      free = slot;
    }
    numbers[free] = 0;
    items[free] = undefined;
    return true;
  }

  clear(): void {
    for (const [number] of this.entries()) this.delete(number);
  }

  /** By increasing numbers, as of now. */
  entries(): [number, T][] {
    const found: [number, T][] = [];
    for (let slot = 0; slot < this.#numbers.length; slot++) {
      const number = this.#numbers[slot] as number;
      if (number !== 0) found.push([number, this.#items[slot] as T]);
    }
    return found.sort(([a], [b]) => a - b);
  }

  /** By increasing numbers, as of now. */
  values(): T[] {
    return this.entries().map(([, item]) => item);
  }

  /** Where the number is, or could be put. */
  #slotOf(number: number): number {
    const numbers = this.#numbers;
    const mask = numbers.length - 1;
    let slot = number & mask;
    while (numbers[slot] !== number && numbers[slot] !== 0) slot = (slot + 1) & mask;
    return slot;
  }

  #grow(): void {
    const entries = this.entries();
    const numbers = [...this.#numbers, ...this.#numbers];
    for (let slot = 0; slot < numbers.length; slot++) numbers[slot] = 0;
    this.#numbers = numbers;
    this.#items = [];
    this.#size = 0;
    for (const [number, item] of entries) this.set(number, item);
  }
}
