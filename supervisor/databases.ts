/** Connects the supervisor to the SQLite writer, for the gateway's own databases and maintenance of the apps'. */

import { ERROR_CODES, errorFromBody } from '../protocol/errors.ts';
import { DbClient, DbError } from '../protocol/wire/db-client.ts';
import type { MigrationFile } from '../protocol/wire/frames.ts';
import { openLink } from '../protocol/wire/link.ts';
import type { Layout } from '../storage/layout.ts';
import { survive } from './outlive-writer.ts';
import type { Tree } from './tree/tree.ts';

export class Databases {
  readonly #tree: Pick<Tree, 'writerSocket' | 'ticket'>;
  readonly #layout: Layout;

  constructor(tree: Pick<Tree, 'writerSocket' | 'ticket'>, layout: Layout) {
    this.#tree = tree;
    this.#layout = layout;
  }

  /** A client for one database file; `maintain` allows migrations and closing. It connects when it is first used. */
  client(name: string, file: string, maintain: boolean): DbClient {
    const ticket = this.#tree.ticket({ role: 'database', name, file, maintain });
    return new DbClient((handlers, session) => openLink(this.#tree.writerSocket(file), ticket, handlers, session));
  }

  /** Migrations that the app's database has had: SQLite's `user_version`. */
  userVersion(app: string): Promise<number> {
    return survive(() => this.#maintain(app, (client) => client.userVersion()));
  }

  /** Applies what is pending; resolves with the numbers applied. Rejects with `MIGRATION_FAILED`, the file in `path`. */
  migrate(app: string, files: MigrationFile[], backupTo: string | null): Promise<number[]> {
    return this.#maintain(app, (client) => client.migrate(files, backupTo));
  }

  /** Resolves when the app's data, as found after a crash or disk failure, is on the disk. */
  async makeDurable(app: string): Promise<void> {
    await survive(() => this.migrate(app, [], null));
  }

  /** Makes the writer let go of the app's file. */
  async close(app: string): Promise<void> {
    await survive(() => this.#maintain(app, (client) => client.close()));
  }

  async #maintain<T>(app: string, work: (client: DbClient) => Promise<T>): Promise<T> {
    const client = this.client(app, this.#layout.app(app).data, true);
    try {
      return await work(client);
    } catch (error) {
      // Errors of the writer with our codes are for the caller, above all `MIGRATION_FAILED`.
      throw error instanceof DbError && Object.hasOwn(ERROR_CODES, error.code) ? errorFromBody(error) : error;
    } finally {
      client.end();
    }
  }
}
