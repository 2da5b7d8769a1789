/** Caches reads from disk: drops the least recently used first, and shares one read among concurrent readers. */
import { LRUCache } from 'lru-cache';

export class ReadCache<T extends object | string> {
  readonly #values: LRUCache<string, T>;
  readonly #reading = new Map<string, Promise<T>>();

  /** `capacity` bounds the sum of `sizeOf` over what is kept. */
  constructor(capacity: number, sizeOf: (value: T) => number) {
    // The library takes no sizes of 0, which empty files have.
    this.#values = new LRUCache({ maxSize: capacity, sizeCalculation: (value) => Math.max(1, sizeOf(value)) });
  }

  get size(): number {
    return this.#values.calculatedSize;
  }

  /** The value that is here, else what `read` gives. A failed read is not remembered. */
  async get(key: string, read: () => Promise<T>): Promise<T> {
    const value = this.#values.get(key) ?? this.#reading.get(key);
    if (value !== undefined) return value;
    const reading = this.#read(key, read);
    this.#reading.set(key, reading);
    return reading;
  }

  /** Drops everything whose key starts with `prefix`. */
  forget(prefix: string): void {
    for (const cache of [this.#reading, this.#values]) {
      for (const key of [...cache.keys()]) {
        if (key.startsWith(prefix)) cache.delete(key);
      }
    }
  }

  #read(key: string, read: () => Promise<T>): Promise<T> {
    /** Whether the read was still wanted: a key that was forgotten meanwhile, or read again since, is not ours to fill. */
    const end = () => this.#reading.get(key) === reading && this.#reading.delete(key);
    const reading: Promise<T> = read().then(
      (value) => {
        if (end()) this.#values.set(key, value);
        return value;
      },
      (error: unknown) => {
        end();
        throw error;
      },
    );
    return reading;
  }
}
