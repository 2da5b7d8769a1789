/**
 * Keeps the known history of one database: the states before and after each commit, and the tables that it wrote. Decides
 * whether tables are unchanged. Anything uncertain counts as a change of everything.
 *
 * Why that is safe: if the state read now equals `head`, only the commits noted here lead to it from any earlier point, because
 * no two states have the same bytes. A lost, late or misordered note leaves a head that no database has; then nothing counts as
 * unchanged until `adopt` starts over. See docs/architecture.md.
 */
import { isNextState, isSameState } from '../../storage/wal-index.ts';

/** The tables that a commit wrote; all of them where that is not known, or may have been more. */
export type Written = ReadonlySet<string> | 'all';

let schemas = 0;

export class CommitHistory {
  /** Counts the changes of `head`. */
  now = 0;
  /** Changes after every possible change of the schema; unique among histories. */
  schema = ++schemas;
  #head: Uint8Array | null = null;
  /** When everything may have changed. */
  #all = 0;
  /** When each table was last written. */
  readonly #tables = new Map<string, number>();

  /** Knows nothing yet, so any state can begin it. */
  get isNew(): boolean {
    return this.#head === null;
  }

  /** Whether this is the state that the history leads to. */
  leadsTo(state: Uint8Array): boolean {
    return isSameState(this.#head, state);
  }

  /** A commit, as its writer tells it; answers what it changed for those who know the history up to now. */
  committed(before: Uint8Array | null, after: Uint8Array | null, tables: readonly string[] | null): Written {
    // Whoever read the state came before the note.
    if (isSameState(this.#head, after)) return tables === null ? 'all' : new Set(tables);
    const isNext = before !== null && after !== null && isSameState(this.#head, before) && isNextState(before, after);
    if (!isNext || tables === null || this.#tables.size + tables.length > MOST_TABLES) {
      this.adopt(after);
      return 'all';
    }
    this.#head = Uint8Array.from(after);
    this.now++;
    for (const table of tables) this.#tables.set(table, this.now);
    return new Set(tables);
  }

  /** How this state came about is unknown: everything may have changed. */
  adopt(state: Uint8Array | null): void {
    this.#head = state === null ? null : Uint8Array.from(state);
    this.now++;
    this.schema = ++schemas;
    this.#all = this.now;
    this.#tables.clear();
  }

  /** Whether nothing wrote these tables since the history was at `then`. */
  unchanged(tables: Written, then: number): boolean {
    if (then < this.#all) return false;
    if (tables === 'all') return then === this.now;
    for (const table of tables) if ((this.#tables.get(table) ?? 0) > then) return false;
    return true;
  }
}

/** Names come from an app's schema, which may change without end. */
const MOST_TABLES = 10_000;
