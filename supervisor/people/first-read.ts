/** Reads what the identity database stores, once: where that fails, the log says so, and it is read again until it works. */
import { existsSync } from 'node:fs';
import type { Logger } from 'pino';
import { LIMITS } from '../../protocol/limits.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import type { Row } from '../../protocol/wire/frames.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';

const PAGE = 10_000;

/** The gateway's identity database, and its file. Without the file nothing is stored. */
export type IdentityDb = { db: DbClient; file: string; log: Logger };

type FirstReadOptions = IdentityDb & {
  table: string;
  /** What is said where the table cannot be read. */
  warning: string;
  /** Takes the rows, in the order in which they were stored. */
  take(rows: Row[]): void;
};

export class FirstRead {
  readonly #options: FirstReadOptions;
  #reading: Promise<void> | null = null;
  #retryTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: FirstReadOptions) {
    this.#options = options;
  }

  /** Resolves when the rows are there. Rejects where they cannot be read now; they are read again later. */
  done(): Promise<void> {
    this.#reading ??= this.#read().catch((error: unknown) => {
      this.#reading = null;
      if (this.#retryTimer === undefined) this.#options.log.warn({ err: error }, this.#options.warning);
      clearTimeout(this.#retryTimer);
      if (!this.#closed)
        this.#retryTimer = setTimeout(() => void this.done().catch(() => {}), LIMITS.identityRetryMs).unref();
      throw error;
    });
    return this.#reading;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retryTimer);
  }

  /** Writes nothing: a gateway also starts on a full disk. */
  async #read(): Promise<void> {
    const { db, file, table, take } = this.#options;
    if (!existsSync(file)) return;
    const exists = `SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '${table}'`;
    if ((await retryIfWriterLost(() => db.get(exists))) === null) return;
    // The writer answers a limited number of rows at once.
    const page = `SELECT rowid AS position, * FROM ${table} WHERE rowid > ? ORDER BY rowid LIMIT ${PAGE}`;
    const all: Row[] = [];
    for (let last = 0; ; ) {
      const rows = await retryIfWriterLost(() => db.all(page, [last]));
      for (const row of rows) all.push(row);
      if (rows.length < PAGE) break;
      last = Number(rows.at(-1)?.position);
    }
    take(all);
  }
}
