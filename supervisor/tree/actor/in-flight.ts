/**
 * The calls that one thread works on, by the number they travel under. They are few and come and go all the time, so they
 * sit in slots, and the number tells the slot. Pure.
 */
import { LIMITS } from '../../../protocol/limits.ts';

const SLOTS = LIMITS.actorConcurrency;

export class InFlight<T> {
  readonly #slots: (T | null)[] = [];
  /** The number of the call in each slot, or of the one that was in it last. */
  readonly #ids: number[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#slots.length - this.#free.length;
  }

  /** The number of the call from now on: never used before. Takes `LIMITS.actorConcurrency` calls at a time. */
  add(item: T): number {
    const slot = this.#free.pop() ?? this.#slots.length;
    if (slot >= SLOTS) throw new RangeError(`No more than ${SLOTS} calls are in flight at a time.`);
    const id = (this.#ids[slot] ?? slot) + SLOTS;
    this.#ids[slot] = id;
    this.#slots[slot] = item;
    return id;
  }

  get(id: number): T | null {
    const slot = id % SLOTS;
    return this.#ids[slot] === id ? (this.#slots[slot] ?? null) : null;
  }

  /** Takes a call out; null when none has this number any more. */
  take(id: number): T | null {
    const item = this.get(id);
    if (item === null) return null;
    const slot = id % SLOTS;
    this.#slots[slot] = null;
    this.#free.push(slot);
    return item;
  }

  *values(): IterableIterator<T> {
    for (const item of this.#slots) if (item !== null) yield item;
  }

  clear(): void {
    for (const [slot, item] of this.#slots.entries()) {
      if (item === null) continue;
      this.#slots[slot] = null;
      this.#free.push(slot);
    }
  }
}
