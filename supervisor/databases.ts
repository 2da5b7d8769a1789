/** Connects the supervisor to the SQLite writer, for the gateway's own databases and maintenance of the apps'. */

import { rename } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { isOfNode, trashedDatabase } from '../protocol/buckets.ts';
import { damageCode, ERROR_CODES, type ErrorBody, errorFromBody, isDamage, SvcError } from '../protocol/errors.ts';
import { DbClient } from '../protocol/wire/db-client.ts';
import { DbError } from '../protocol/wire/db-error.ts';
import type { MigrationFile, SqlOrder, SqlWriter } from '../protocol/wire/frames.ts';
import { openLink } from '../protocol/wire/link.ts';
import { type Damage, damageIn } from '../storage/apps/app-data.ts';
import { exists, isMissing, syncDir } from '../storage/files/atomic-file.ts';
import type { Layout } from '../storage/layout.ts';
import type { LogNames } from '../storage/replication/names.ts';
import type { Confirmation } from './cluster/read-gate.ts';
import { retryIfWriterLost } from './retry-if-writer-lost.ts';
import type { Tree } from './tree/tree.ts';

export class Databases {
  readonly #tree: Tree;
  readonly #layout: Layout;
  readonly #onDamaged: (key: string, damage: Damage) => Promise<SvcError>;
  readonly #log: LogNames | null;

  /**
   * `onDamaged` hears of the data of apps and drafts that was found damaged, and resolves with the error for the caller. `log` has the
   * databases of a cluster; null for a gateway of its own.
   */
  constructor(
    tree: Tree,
    layout: Layout,
    onDamaged: (key: string, damage: Damage) => Promise<SvcError>,
    log: LogNames | null,
  ) {
    this.#tree = tree;
    this.#layout = layout;
    this.#onDamaged = onDamaged;
    this.#log = log;
  }

  /** A client for a database of the gateway's own. It connects when it is first used. Rejects with `STORE_DAMAGED`, `STORAGE_UNAVAILABLE`. */
  own(name: string, file: string): DbClient {
    return this.#client(name, file, false, (body) =>
      isDamage(body) ? damaged(file, body) : ofOurs(new DbError(body)),
    );
  }

  /**
   * The database of an app or draft, and the way to its writer, for a process that runs a caller's statement. `migrated` as in a
   * `Ticket`.
   */
  ofCaller(app: string, migrated: boolean): Pick<SqlOrder, 'dataFile' | 'migrated'> & { writer: SqlWriter } {
    const file = this.#layout.app(app).data;
    const ticket = this.#tree.ticket({ role: 'database', name: app, file, maintain: false, migrated, brief: true });
    return { dataFile: file, migrated, writer: { socket: this.#tree.writerSocket(file), ticket } };
  }

  /** Asks the writer whether the log of pages has what the app's database has, see `ReadGate`. */
  confirmation(app: string): Confirmation {
    const client = this.#client(app, this.#layout.app(app).data, true, (body) => errorFromBody(body));
    // The answer follows all commits before it.
    return { confirm: () => retryIfWriterLost(() => client.userVersion()), end: () => client.end() };
  }

  /** Renames a damaged database of the gateway's own or of an app, with what lies beside it, once the writer let go of it. Answers its new name. */
  async putAside(name: string, file: string, now: number): Promise<string> {
    const client = this.#client(name, file, true);
    try {
      // One that could not be opened is not open.
      await client.close().catch((error: unknown) => {
        if (!isDamage(error)) throw error;
      });
    } finally {
      client.end();
    }
    if (!isOfNode(name)) await this.#log?.remove(name);
    const aside = `${file}.damaged-${now}`;
    for (const beside of ['-wal', '-shm', '-mark', '']) {
      await rename(file + beside, aside + beside).catch((error: unknown) => {
        if (!isMissing(error)) throw error;
      });
    }
    await syncDir(dirname(file));
    return basename(aside);
  }

  /** `maintain` allows migrations and closing. */
  #client(name: string, file: string, maintain: boolean, errorOf?: (body: ErrorBody) => Error): DbClient {
    const ticket = this.#tree.ticket({ role: 'database', name, file, maintain });
    const open: ConstructorParameters<typeof DbClient>[0] = (handlers, connectionId, socket) =>
      openLink(socket ?? this.#tree.writerSocket(file), ticket, handlers, connectionId);
    return new DbClient(open, errorOf);
  }

  /** Migrations that the app's database has had: SQLite's `user_version`. */
  userVersion(app: string): Promise<number> {
    return retryIfWriterLost(() => this.#maintain(app, (client) => client.userVersion()));
  }

  /** Applies what is pending; resolves with the numbers applied. Rejects with `MIGRATION_FAILED`, the file in `path`. */
  migrate(app: string, files: MigrationFile[], backupTo: string | null): Promise<number[]> {
    return this.#maintain(app, (client) => client.migrate(files, backupTo));
  }

  /** Applies migrations to a file that is to become the data of an app; its log is in it when this resolves. Rejects as `migrate` does. */
  async migrateStaged(file: string, files: MigrationFile[]): Promise<number[]> {
    const client = this.#client('_staged', file, true);
    try {
      return await client.migrate(files, null);
    } catch (error) {
      throw ofOurs(error);
    } finally {
      client.end();
    }
  }

  /** Resolves when the app's data, as found after a crash or disk failure, is on the disk. */
  async makeDurable(app: string): Promise<void> {
    await retryIfWriterLost(() => this.migrate(app, [], null));
  }

  /** The file is what the log of a cluster has, and the other way round; nothing else. */
  async settle(app: string): Promise<void> {
    await retryIfWriterLost(() => this.#maintain(app, (client) => client.settle()));
  }

  /**
   * Makes the writer let go of the app's file, which is about to be moved to the trash under the name `entry`, or removed for good. In a
   * cluster the log has nothing under the app's name then.
   */
  async detach(app: string, entry: string | null): Promise<void> {
    await this.close(app);
    if (entry === null) await this.#log?.remove(app);
    else await this.#log?.rename(app, trashedDatabase(entry));
  }

  /** The app is back from the trash. */
  async attach(app: string, entry: string): Promise<void> {
    await this.#log?.rename(trashedDatabase(entry), app);
    if (this.#log !== null) await this.settle(app);
  }

  /** What was in the trash is gone for good. */
  async purge(entry: string): Promise<void> {
    await this.#log?.remove(trashedDatabase(entry));
  }

  /** Makes the writer let go of the app's file. */
  async close(app: string): Promise<void> {
    await retryIfWriterLost(() => this.#maintain(app, (client) => client.close()));
  }

  /** The same, for an app or draft that another node gets. A file that is missing or damaged is not open. */
  async release(key: string): Promise<void> {
    if (!(await exists(this.#layout.app(key).data))) return;
    await this.close(key).catch((error: unknown) => {
      if (!(error instanceof SvcError && error.code === 'STORE_DAMAGED')) throw error;
    });
  }

  async #maintain<T>(app: string, work: (client: DbClient) => Promise<T>): Promise<T> {
    const client = this.#client(app, this.#layout.app(app).data, true);
    try {
      return await work(client);
    } catch (error) {
      const code = damageCode(error);
      const damage = code && damageIn({ code, message: (error as Error).message });
      throw damage ? await this.#onDamaged(app, damage) : ofOurs(error);
    } finally {
      client.end();
    }
  }
}

/** Errors of the writer with our codes are for the caller, above all `MIGRATION_FAILED`. */
function ofOurs<T>(error: T): T | SvcError {
  return error instanceof DbError && Object.hasOwn(ERROR_CODES, error.code) ? errorFromBody(error) : error;
}

function damaged(file: string, { message }: ErrorBody): SvcError {
  const name = basename(file);
  const advice = `Stop the gateway and move ${name} with its -wal and -shm away to begin without it, or restore a backup.`;
  return new SvcError('STORE_DAMAGED', `The file ${name} in the data directory is damaged (${message}). ${advice}`);
}
