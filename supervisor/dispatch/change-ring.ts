/** The last change events of one app, for replay. Pure. */

/** An event; `bytes` is what it takes in memory, about. */
export type RingEntry = { readonly table: string; readonly bytes: number };

/**
 * Keeps the newest `capacity` events. Numbers are consecutive, so an event's place follows from its number. The array
 * grows with the events, so that an app with few of them costs little.
 */
export class ChangeRing<T extends RingEntry> {
  readonly #capacity: number;
  #entries: T[] = [];
  /** Index of the oldest entry, once the ring is full. */
  #head = 0;
  #last: number;
  #bytes = 0;

  /** `start` is the number before the first event. */
  constructor(start: number, capacity: number) {
    this.#last = start;
    this.#capacity = capacity;
  }

  /** Number of the newest event, kept or not. */
  get last(): number {
    return this.#last;
  }

  /** Bytes of all events kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds event number `last + 1`. */
  append(entry: T): void {
    this.#last += 1;
    this.#bytes += entry.bytes;
    if (this.#entries.length < this.#capacity) {
      this.#entries.push(entry);
      return;
    }
    this.#bytes -= (this.#entries[this.#head] as T).bytes;
    this.#entries[this.#head] = entry;
    this.#head = (this.#head + 1) % this.#capacity;
  }

  /** Forgets the events, not the number: whoever has not seen them all finds a gap. */
  clear(): void {
    this.#entries = [];
    this.#head = 0;
    this.#bytes = 0;
  }

  /** Takes a number for something that is not kept, and forgets what came before it. */
  skip(): void {
    this.clear();
    this.#last += 1;
  }

  /** The events after number `seq`, oldest first; undefined when some of them are gone or `seq` is none of ours. */
  since(seq: number): T[] | undefined {
    const missed = this.#last - seq;
    const kept = this.#entries.length;
    if (!(missed >= 0 && missed <= kept)) return undefined;
    const events: T[] = [];
    for (let i = kept - missed; i < kept; i++) events.push(this.#entries[(this.#head + i) % kept] as T);
    return events;
  }
}
