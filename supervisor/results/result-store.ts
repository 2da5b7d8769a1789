/** Stores kept results by app and key: drops the least recently used first, and limits each app to its share. */
import { LIMITS } from '../../protocol/limits.ts';

/** `key` is its own within the app. */
type Stored = { readonly key: string; readonly bytes: number };

type AppResults<T> = { entries: Map<string, T & { usedAt: number }>; bytes: number };

export class ResultStore<T extends Stored> {
  readonly #limit: number;
  readonly #share: number;
  readonly #byApp = new Map<string, AppResults<T>>();
  #bytes = 0;
  #clock = 0;

  constructor(limitBytes: number = LIMITS.resultsBytes, shareBytes: number = LIMITS.resultsOfAppBytes) {
    this.#limit = limitBytes;
    this.#share = shareBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** It counts as used now. */
  get(app: string, key: string): T | undefined {
    const entries = this.#byApp.get(app)?.entries;
    const found = entries?.get(key);
    if (entries === undefined || found === undefined) return undefined;
    // The newest need not move, and a busy one is the newest most of the time.
    if (found.usedAt !== this.#clock) {
      found.usedAt = ++this.#clock;
      entries.delete(key);
      entries.set(key, found);
    }
    return found;
  }

  set(app: string, entry: T): void {
    if (entry.bytes > this.#share) return;
    this.delete(app, entry.key);
    let shelf = this.#byApp.get(app);
    if (shelf === undefined) {
      shelf = { entries: new Map(), bytes: 0 };
      this.#byApp.set(app, shelf);
    }
    shelf.entries.set(entry.key, Object.assign(entry, { usedAt: ++this.#clock }));
    shelf.bytes += entry.bytes;
    this.#bytes += entry.bytes;
    while (shelf.bytes > this.#share) this.#dropOldest(app, shelf);
    while (this.#bytes > this.#limit) this.#dropOldest(...this.#leastUsed());
  }

  delete(app: string, key: string): void {
    const shelf = this.#byApp.get(app);
    const found = shelf?.entries.get(key);
    if (shelf === undefined || found === undefined) return;
    shelf.entries.delete(key);
    shelf.bytes -= found.bytes;
    this.#bytes -= found.bytes;
    if (shelf.entries.size === 0) this.#byApp.delete(app);
  }

  /** Everything of an app. */
  clear(app: string): void {
    this.#bytes -= this.#byApp.get(app)?.bytes ?? 0;
    this.#byApp.delete(app);
  }

  #dropOldest(app: string, { entries }: AppResults<T>): void {
    const [key] = entries.keys();
    if (key !== undefined) this.delete(app, key);
  }

  /** The app whose oldest entry was used longest ago. */
  #leastUsed(): [app: string, shelf: AppResults<T>] {
    let least: [string, AppResults<T>] | null = null;
    let leastAt = Number.POSITIVE_INFINITY;
    for (const one of this.#byApp) {
      const [oldest] = one[1].entries.values();
      if (oldest !== undefined && oldest.usedAt < leastAt) {
        least = one;
        leastAt = oldest.usedAt;
      }
    }
    return least as [string, AppResults<T>];
  }
}
