/** A bounded map of what is costly to make: the one used longest ago goes first. Pure. */
export class Recent<T> {
  readonly #limit: number;
  readonly #make: (key: string) => T;
  readonly #items = new Map<string, T>();

  constructor(limit: number, make: (key: string) => T) {
    this.#limit = limit;
    this.#make = make;
  }

  /** Throws what making it threw; then nothing is kept. */
  get(key: string): T {
    const found = this.#items.get(key);
    const item = found ?? this.#make(key);
    // A map is in order of insertion, so the first is the one used longest ago.
    if (found !== undefined) this.#items.delete(key);
    else if (this.#items.size >= this.#limit) this.#items.delete(this.#items.keys().next().value as string);
    this.#items.set(key, item);
    return item;
  }
}
