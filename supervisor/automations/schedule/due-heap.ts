/** A binary heap of what is due when: the earliest on top, those of the same time in the order of their registration. Pure. */

/** `place` belongs to the heap: where the item is in it, or `OUTSIDE`. */
export type DueItem = { due: number; readonly order: number; place: number };

export const OUTSIDE = -1;

export class DueHeap<T extends DueItem> {
  #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** The item that is due first. */
  peek(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    this.#items.push(item);
    this.#rise(item, this.#items.length - 1);
  }

  /** Does nothing for an item that is not in the heap. */
  delete(item: T): void {
    const place = item.place;
    if (place === OUTSIDE) return;
    item.place = OUTSIDE;
    const last = this.#items.pop() as T;
    if (last === item) return;
    this.#rise(last, place);
    this.#sink(last, last.place);
  }

  clear(): void {
    for (const item of this.#items) item.place = OUTSIDE;
    this.#items = [];
  }

  #rise(item: T, from: number): void {
    let place = from;
    while (place > 0) {
      const above = (place - 1) >> 1;
      const parent = this.#items[above] as T;
      if (!isBefore(item, parent)) break;
      this.#put(parent, place);
      place = above;
    }
    this.#put(item, place);
  }

  #sink(item: T, from: number): void {
    let place = from;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= this.#items.length) break;
      const right = this.#items[below + 1];
      if (right && isBefore(right, this.#items[below] as T)) below++;
      const child = this.#items[below] as T;
      if (!isBefore(child, item)) break;
      this.#put(child, place);
      place = below;
    }
    this.#put(item, place);
  }

  #put(item: T, place: number): void {
    this.#items[place] = item;
    item.place = place;
  }
}

function isBefore(one: DueItem, other: DueItem): boolean {
  return one.due === other.due ? one.order < other.order : one.due < other.due;
}
