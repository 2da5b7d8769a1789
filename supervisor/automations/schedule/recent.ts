/** A bounded map of what is costly to make: what was not used for long goes first, half of all at once. Pure. */
export class Recent<T> {
  readonly #half: number;
  readonly #make: (key: string) => T;
  /**
   * Used since the last change of halves, and before it. Not one map from which single items are deleted: V8 keeps its outgrown
   * tables in a chain, and once the first of them is old, everything that ever went through stays until a full collection.
   */
  #used = new Map<string, T>();
  #before = new Map<string, T>();

  constructor(limit: number, make: (key: string) => T) {
    this.#half = limit / 2;
    this.#make = make;
  }

  /** Throws what making it threw; then nothing is kept. */
  get(key: string): T {
    const used = this.#used.get(key);
    if (used !== undefined) return used;
    const item = this.#before.get(key) ?? this.#make(key);
    if (this.#used.size >= this.#half) {
      this.#before = this.#used;
      this.#used = new Map();
    }
    this.#used.set(key, item);
    return item;
  }
}
