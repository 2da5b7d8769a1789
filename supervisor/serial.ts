/** Orders work by a key, and knows what of it is under way. */

/** Runs work one after the other for each key; different keys do not wait for each other. */
export class SerialByKey {
  readonly #last = new Map<string, Promise<unknown>>();

  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const result = before.then(work);
    const done = result
      .catch(() => {})
      .then(() => {
        if (this.#last.get(key) === done) this.#last.delete(key);
      });
    this.#last.set(key, done);
    return result;
  }
}

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
