/** What was read from disk, in memory: the least recently used goes first, and readers of the same thing share one read. */

export class ReadCache<T> {
  readonly #capacity: number;
  readonly #sizeOf: (value: T) => number;
  readonly #values = new Map<string, T>();
  readonly #reading = new Map<string, Promise<T>>();
  #size = 0;

  /** `capacity` bounds the sum of `sizeOf` over what is kept. */
  constructor(capacity: number, sizeOf: (value: T) => number) {
    this.#capacity = capacity;
    this.#sizeOf = sizeOf;
  }

  get size(): number {
    return this.#size;
  }

  /** The value at once when it is here, else what `read` gives. A failed read is not remembered. */
  get(key: string, read: () => Promise<T>): T | Promise<T> {
    const value = this.#values.get(key);
    if (value !== undefined) {
      this.#values.delete(key);
      this.#values.set(key, value);
      return value;
    }
    const shared = this.#reading.get(key);
    if (shared) return shared;
    const reading = this.#read(key, read);
    this.#reading.set(key, reading);
    return reading;
  }

  /** Drops everything whose key starts with `prefix`. */
  forget(prefix: string): void {
    for (const key of this.#reading.keys()) {
      if (key.startsWith(prefix)) this.#reading.delete(key);
    }
    for (const [key, value] of this.#values) {
      if (!key.startsWith(prefix)) continue;
      this.#values.delete(key);
      this.#size -= this.#sizeOf(value);
    }
  }

  #read(key: string, read: () => Promise<T>): Promise<T> {
    const reading: Promise<T> = read().then(
      (value) => {
        // A key that was forgotten meanwhile, or read again since, is not ours to fill.
        if (this.#reading.get(key) === reading) {
          this.#reading.delete(key);
          this.#keep(key, value);
        }
        return value;
      },
      (error: unknown) => {
        if (this.#reading.get(key) === reading) this.#reading.delete(key);
        throw error;
      },
    );
    return reading;
  }

  #keep(key: string, value: T): void {
    const size = this.#sizeOf(value);
    if (size > this.#capacity) return;
    this.#values.set(key, value);
    this.#size += size;
    for (const [oldest, dropped] of this.#values) {
      if (this.#size <= this.#capacity) return;
      this.#values.delete(oldest);
      this.#size -= this.#sizeOf(dropped);
    }
  }
}
