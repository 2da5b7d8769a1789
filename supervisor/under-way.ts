/** Knows the work that is under way, by key, for those who wait for its end. */
export class UnderWay {
  readonly #work = new Map<string, Set<Promise<unknown>>>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const all = this.#work.get(key) ?? new Set();
    this.#work.set(key, all);
    const run = work();
    all.add(run);
    try {
      return await run;
    } finally {
      all.delete(run);
      if (all.size === 0 && this.#work.get(key) === all) this.#work.delete(key);
    }
  }

  /** Resolves when what is under way now has ended, well or not. */
  async settled(key: string): Promise<void> {
    await Promise.allSettled(this.#work.get(key) ?? []);
  }
}
