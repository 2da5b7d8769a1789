/** Asks the identity database of a node as long as the node owns it. */
import { movedError, SvcError } from '../../../protocol/errors.ts';
import { DbError } from '../../../protocol/wire/db-error.ts';
import type { Row, RunResult, SqlParams, SqlStatement } from '../../../protocol/wire/frames.ts';
import type { IdentityClient } from '../../people/identity-db.ts';

type OwnedDbOptions = {
  db: IdentityClient;
  mayRead(): boolean;
  mayWrite(): boolean;
  /** A write failed: whether it was stored is not known. */
  onDoubt(): void;
};

export class OwnedDb implements IdentityClient {
  readonly #options: OwnedDbOptions;
  /** How many writes began. */
  writes = 0;
  /** How many of them go on. */
  pending = 0;

  constructor(options: OwnedDbOptions) {
    this.#options = options;
  }

  run(sql: string, params?: SqlParams): Promise<RunResult> {
    return this.#write((db) => db.run(sql, params));
  }

  batch(statements: SqlStatement[]): Promise<RunResult[]> {
    return this.#write((db) => db.batch(statements));
  }

  exec(sql: string): Promise<null> {
    return this.#write((db) => db.exec(sql));
  }

  async get(sql: string, params?: SqlParams): Promise<Row | null> {
    if (!this.#options.mayRead()) throw movedError();
    return await this.#options.db.get(sql, params);
  }

  async all(sql: string, params?: SqlParams): Promise<Row[]> {
    if (!this.#options.mayRead()) throw movedError();
    return await this.#options.db.all(sql, params);
  }

  async #write<T>(ask: (db: IdentityClient) => Promise<T>): Promise<T> {
    const { db, mayWrite, onDoubt } = this.#options;
    if (!mayWrite()) throw movedError();
    this.writes++;
    this.pending++;
    try {
      return await ask(db);
    } catch (error) {
      if (isUnknown(error)) onDoubt();
      throw error;
    } finally {
      this.pending--;
    }
  }
}

function isUnknown(error: unknown): boolean {
  const code = error instanceof SvcError || error instanceof DbError ? error.code : '';
  return code === 'STORAGE_UNAVAILABLE' || code.startsWith('WRITER_');
}
