/**
 * Prepared statements by their text. Two generations instead of a list ordered by use: a hit costs one look-up, and
 * what was not used while the younger generation filled up is forgotten with the older one.
 */
export class StatementCache<T> {
  readonly #half: number;
  #young = new Map<string, T>();
  #old = new Map<string, T>();

  constructor(limit: number) {
    this.#half = limit / 2;
  }

  get(sql: string): T | undefined {
    const young = this.#young.get(sql);
    if (young !== undefined) return young;
    const old = this.#old.get(sql);
    if (old !== undefined) this.set(sql, old);
    return old;
  }

  set(sql: string, statement: T): void {
    if (this.#young.size >= this.#half) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(sql, statement);
  }
}
