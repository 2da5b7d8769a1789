/** What one query read, and whether its result is the same as long as those tables are (decisions, section 13). */
import { LIMITS } from '../../protocol/limits.ts';
import type { Program } from '../writer/programs.ts';
import { effects } from './effects.ts';

export class Reads {
  readonly #tables = new Set<string>();
  #chars = 0;
  #known = true;
  #steady = true;
  readonly #effects = effects();

  /** A statement is about to run in this thread. */
  add({ reads, steady }: Program): void {
    if (reads === null) this.#known = false;
    else for (const table of reads) this.#addTable(table);
    if (!steady) this.#steady = false;
  }

  #addTable(table: string): void {
    if (this.#tables.has(table)) return;
    this.#chars += table.length + 1;
    if (this.#chars > LIMITS.tablesReadChars) this.#known = false;
    else this.#tables.add(table);
  }

  /** The result depends on something that is no table. */
  unsteady(): void {
    this.#steady = false;
  }

  /** The writer is asked: for a write, or for what this thread cannot read. */
  asked(): void {
    this.#known = false;
    this.#steady = false;
  }

  /** Null for any table. */
  get tables(): string[] | null {
    return this.#known ? [...this.#tables] : null;
  }

  get keep(): boolean {
    return this.#steady && this.#known && this.#effects === effects();
  }
}
