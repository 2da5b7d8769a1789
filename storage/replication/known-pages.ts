/** Remembers pages of databases as the log of pages has them, so that of the next version only the changes are sent. */
import { LIMITS } from '../../protocol/limits.ts';
import { givePage, isOwn } from './page-memory.ts';
import type { PageSet } from './page-set.ts';

/** The page that changed last is at the end. */
type Known = { size: number; pages: Map<number, Uint8Array> };

const NONE: ReadonlyMap<number, Uint8Array> = new Map();

/** Of all databases of a writer, in `LIMITS.logKnownBytes`: the one that changed longest ago loses its pages first. */
export class KnownPages<Database extends object> {
  /** The one that changed last is at the end. */
  readonly #databases = new Map<Database, Known>();
  #bytes = 0;

  of(database: Database): ReadonlyMap<number, Uint8Array> {
    return this.#databases.get(database)?.pages ?? NONE;
  }

  /** The log has this set too. Its pages belong to this one from here on. */
  add(database: Database, { size, pages }: PageSet): void {
    const known: Known = this.#databases.get(database) ?? { size, pages: new Map() };
    this.#databases.delete(database);
    this.#databases.set(database, known);
    if (size < known.size) for (const number of known.pages.keys()) if (number > size) this.#drop(known, number);
    known.size = size;
    for (const [number, page] of pages) {
      this.#drop(known, number);
      // What came with the whole database is not likely to change soon.
      if (!isOwn(page)) continue;
      known.pages.set(number, page);
      this.#bytes += page.length;
    }
    this.#shrink();
  }

  forget(database: Database): void {
    const known = this.#databases.get(database);
    if (known === undefined) return;
    for (const number of known.pages.keys()) this.#drop(known, number);
    this.#databases.delete(database);
  }

  #shrink(): void {
    for (const [database, known] of this.#databases) {
      for (const number of known.pages.keys()) {
        if (this.#bytes <= LIMITS.logKnownBytes) return;
        this.#drop(known, number);
      }
      this.#databases.delete(database);
    }
  }

  #drop({ pages }: Known, number: number): void {
    const page = pages.get(number);
    if (page === undefined) return;
    pages.delete(number);
    this.#bytes -= page.length;
    givePage(page);
  }
}
