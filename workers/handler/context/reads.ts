/**
 * Records what a query reads, and whether its result depends on those tables only (specification, "Kept results"). A statement
 * counts for each query that runs in the thread at that time: it may come through the `db` of another call that a module keeps.
 */
import { LIMITS } from '../../../protocol/limits.ts';
import type { Program } from '../../writer/programs.ts';
import { effects } from '../effects.ts';

const running = new Set<Reads>();

/** A statement is about to run in this thread. */
export function statementRuns(statement: { program(): Program }): void {
  if (running.size === 0) return;
  const program = statement.program();
  for (const reads of running) reads.add(program);
}

/** An operation goes to the writer: a write, or a read that this thread cannot do. */
export function writerAsked(): void {
  for (const reads of running) reads.asked();
}

export class Reads {
  readonly #tables = new Set<string>();
  #chars = 0;
  #known = true;
  #isDeterministic = true;
  readonly #effects = effects();

  /** From now on until `end`. */
  constructor() {
    running.add(this);
  }

  end(): void {
    running.delete(this);
  }

  add({ reads, isDeterministic }: Program): void {
    if (reads === null) this.#known = false;
    else for (const table of reads) this.#addTable(table);
    if (!isDeterministic) this.#isDeterministic = false;
  }

  asked(): void {
    this.#known = false;
  }

  /** Null for any table. */
  get tables(): string[] | null {
    return this.#known ? [...this.#tables] : null;
  }

  get keep(): boolean {
    return this.#isDeterministic && this.#known && this.#effects === effects();
  }

  #addTable(table: string): void {
    if (this.#tables.has(table)) return;
    this.#chars += table.length + 1;
    if (this.#chars > LIMITS.tablesReadChars) this.#known = false;
    else this.#tables.add(table);
  }
}
