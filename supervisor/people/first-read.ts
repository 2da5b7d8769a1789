/** Reads what the identity database stores, once: where that fails, the log says so, and it is read again until it works. */
import { existsSync } from 'node:fs';
import { LIMITS } from '../../protocol/limits.ts';
import type { Row } from '../../protocol/wire/frames.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';
import { ALONE, type IdentityDb } from './identity-db.ts';

/** Rows that are read at once: so many hold the event loop for a few milliseconds. */
const PAGE = 2000;

type FirstReadOptions = IdentityDb & {
  table: string;
  /** What is said where the table cannot be read. */
  warning: string;
  /** Begins to take the rows. */
  taking(): Taking;
};

/** Takes rows. */
export type Taking = {
  /** Gets some, in the order in which they were stored. */
  add(rows: Row[]): void;
  /** Runs after the last ones, and says whether something that somebody was given may have ended. */
  done(): boolean;
};

export class FirstRead {
  readonly #options: FirstReadOptions;
  readonly #isAlone: boolean;
  readonly #page: (after: number) => Promise<Row[]>;
  #reading: Promise<unknown> | null = null;
  #retryTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: FirstReadOptions) {
    const { nodes = ALONE, table } = options;
    this.#options = options;
    this.#isAlone = nodes === ALONE;
    this.#page = nodes.atOwner(`rows of ${table}`, (after: number) => this.#pageHere(after));
  }

  /** The first read of a start. Never rejects. In a cluster the nodes read when they know who has the database. */
  async begin(): Promise<void> {
    if (this.#isAlone) await this.done().catch(() => {});
  }

  /** Resolves when the rows are there. Rejects where they cannot be read now; they are read again later. */
  async done(): Promise<void> {
    this.#reading ??= this.#read().catch((error: unknown) => {
      this.#reading = null;
      if (this.#retryTimer === undefined) this.#options.log.warn({ err: error }, this.#options.warning);
      clearTimeout(this.#retryTimer);
      if (!this.#closed)
        this.#retryTimer = setTimeout(() => void this.done().catch(() => {}), LIMITS.identityRetryMs).unref();
      throw error;
    });
    await this.#reading;
  }

  /** Reads the rows once more. Resolves to what `Taking` says of them. Where it rejects, `done` does too from then on. */
  again(): Promise<boolean> {
    const reading = this.#read();
    this.#reading = reading;
    return reading;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retryTimer);
  }

  async #read(): Promise<boolean> {
    const taking = this.#options.taking();
    for (let last = 0; ; ) {
      const rows = await this.#page(last);
      taking.add(rows);
      if (rows.length < PAGE) return taking.done();
      last = Number(rows.at(-1)?.position);
    }
  }

  /** Writes nothing: a gateway also starts on a full disk. */
  async #pageHere(after: number): Promise<Row[]> {
    const { db, file, table } = this.#options;
    // In a cluster the writer fetches the database.
    if (this.#isAlone && !existsSync(file)) return [];
    const exists = `SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '${table}'`;
    if (after === 0 && (await retryIfWriterLost(() => db.get(exists))) === null) return [];
    const page = `SELECT rowid AS position, * FROM ${table} WHERE rowid > ? ORDER BY rowid LIMIT ${PAGE}`;
    return retryIfWriterLost(() => db.all(page, [after]));
  }
}
