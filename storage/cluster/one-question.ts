/**
 * Asks the database of a cluster about one key at a time for callers that anybody may be: all that are asked while an answer is under way
 * are one question, so that strangers never hold more than one connection.
 */
export class OneQuestion {
  readonly #ask: (keys: string[]) => Promise<ReadonlyMap<string, string>>;
  /** What is asked once the question before it is answered. */
  #next: { readonly keys: Set<string>; readonly answer: Promise<ReadonlyMap<string, string>> } | null = null;
  #last: Promise<unknown> = Promise.resolve();

  /** `ask` answers what the keys have. */
  constructor(ask: (keys: string[]) => Promise<ReadonlyMap<string, string>>) {
    this.#ask = ask;
  }

  /** Null for a key that has nothing. Rejects as `ask` does. */
  async about(key: string): Promise<string | null> {
    this.#next ??= this.#begin();
    const { keys, answer } = this.#next;
    keys.add(key);
    return (await answer).get(key) ?? null;
  }

  #begin() {
    const keys = new Set<string>();
    const answer = this.#last.then(() => {
      this.#next = null;
      return this.#ask([...keys]);
    });
    this.#last = answer.catch(() => {});
    return { keys, answer };
  }
}
