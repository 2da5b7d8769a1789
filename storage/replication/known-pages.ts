/** Remembers pages of a database as the log of pages has them, so that of the next version only the changes are sent. */
import { LIMITS } from '../../protocol/limits.ts';
import type { PageSet } from './page-set.ts';

export class KnownPages {
  /** The one that changed last is at the end. */
  readonly #pages = new Map<number, Uint8Array>();

  get pages(): ReadonlyMap<number, Uint8Array> {
    return this.#pages;
  }

  /** The log has this set too. Of one with many pages, none is likely to change soon. */
  add({ size, pages }: PageSet): void {
    const known = this.#pages;
    if (pages.size > LIMITS.logKnownPages) {
      known.clear();
      return;
    }
    for (const [number, page] of pages) {
      // A copy: what was read from the write-ahead log is memory of many pages.
      const kept =
        known.get(number)?.length === page.length ? (known.get(number) as Uint8Array) : new Uint8Array(page.length);
      kept.set(page);
      known.delete(number);
      known.set(number, kept);
    }
    for (const number of known.keys()) {
      if (number > size || known.size > LIMITS.logKnownPages) known.delete(number);
    }
  }
}
