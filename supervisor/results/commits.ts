/** Commits: what each of them wrote, told to those who watch the app's data before the write is acknowledged (decisions, section 13). */

/** The tables that a commit wrote; all of them where that is not known, or may have been more. */
export type Written = ReadonlySet<string> | 'all';

export class Commits {
  readonly #watchers = new Map<string, Set<(written: Written) => void>>();

  /** `app` is an app's id or a draft's key. The listener must not throw. Answers a function that ends the watch. */
  watch(app: string, listener: (written: Written) => void): () => void {
    const watchers = this.#watchers.get(app) ?? new Set();
    this.#watchers.set(app, watchers);
    watchers.add(listener);
    return () => {
      watchers.delete(listener);
      if (watchers.size === 0 && this.#watchers.get(app) === watchers) this.#watchers.delete(app);
    };
  }

  tell(app: string, written: Written): void {
    for (const listener of [...(this.#watchers.get(app) ?? [])]) listener(written);
  }
}
