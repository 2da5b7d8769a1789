/** Finds the databases with the gateway's own rows of apps: idempotency keys, chats, runs, notices. A cluster has one for each bucket. */
import type { DbClient } from '../../protocol/wire/db-client.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';

/**
 * `key` is a live app's or draft's, or null for rows of no app. Where another node has the rows of an app, `of` and `existing` throw
 * `STORAGE_UNAVAILABLE`.
 */
export interface RuntimeDatabases {
  /** To write. The first write makes the database. */
  of(key: string | null): DbClient;
  /** To read; null where nothing was ever written. */
  existing(key: string | null): DbClient | null;
  /** Those that exist and that this gateway serves. */
  all(): readonly DbClient[];
}

/** `runtime.sqlite`, of a gateway that is in no cluster. */
export class OneRuntimeDatabase implements RuntimeDatabases {
  readonly #db: DbClient;
  readonly #all: readonly [DbClient];

  constructor(db: DbClient) {
    this.#db = db;
    this.#all = [db];
  }

  of(): DbClient {
    return this.#db;
  }

  existing(): DbClient {
    return this.#db;
  }

  all(): readonly DbClient[] {
    return this.#all;
  }
}

/** Does something once in each database, before what needs it. After a failure the next one who needs it tries again. */
export class OncePerDatabase {
  readonly #work: (db: DbClient) => Promise<unknown>;
  readonly #done = new WeakMap<DbClient, Promise<DbClient>>();

  constructor(work: (db: DbClient) => Promise<unknown>) {
    this.#work = work;
  }

  /** Resolves with the database. Every write waits for this, so that it makes no promise where it is done. */
  in(db: DbClient): Promise<DbClient> {
    const known = this.#done.get(db);
    if (known !== undefined) return known;
    const done = this.#work(db).then(() => db);
    this.#done.set(db, done);
    done.catch(() => this.#done.delete(db));
    return done;
  }
}

/** The databases as one store uses them: with its tables, which are made in each before its first use. */
export class RuntimeTables {
  readonly databases: RuntimeDatabases;
  readonly #made: OncePerDatabase;

  /** `make` may run twice: see `retryIfWriterLost`. */
  constructor(databases: RuntimeDatabases, make: (db: DbClient) => Promise<unknown>) {
    this.databases = databases;
    this.#made = new OncePerDatabase((db) => retryIfWriterLost(() => make(db)));
  }

  in(db: DbClient): Promise<DbClient> {
    return this.#made.in(db);
  }

  /** Like the next one, throws as `RuntimeDatabases` do. */
  of(key: string | null): Promise<DbClient> {
    return this.in(this.databases.of(key));
  }

  existing(key: string | null): Promise<DbClient> | null {
    const db = this.databases.existing(key);
    return db && this.in(db);
  }

  all(): Promise<DbClient[]> {
    return Promise.all(this.databases.all().map((db) => this.in(db)));
  }
}

/** Asks one of all databases; null where the gateway loses that one meanwhile, whose rows are then as absent as if it had never been here. */
export async function unlessLost<T>(db: DbClient, ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask();
  } catch (error) {
    if (db.isRetired) return null;
    throw error;
  }
}
