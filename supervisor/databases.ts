/** The supervisor's connections to the SQLite writer: the gateway's own databases, and upkeep of the apps'. */

import { ERROR_CODES, errorFromBody } from '../protocol/errors.ts';
import { Kind, type MigrationFile } from '../protocol/frames.ts';
import { DbClient, DbError } from '../protocol/wire/db-client.ts';
import { connectLink } from '../protocol/wire/link.ts';
import type { Ticket } from '../protocol/wire/ticket.ts';

export type DatabasesOptions = {
  /** Where the writer of that database file is reached. */
  writerSocket(file: string): string;
  ticket(ticket: Ticket): string;
  /** The file of an app's database. */
  dataFile(app: string): string;
};

export class Databases {
  readonly #options: DatabasesOptions;

  constructor(options: DatabasesOptions) {
    this.#options = options;
  }

  /** A client for one database file; `maintain` allows migrations and closing. It connects when it is first used. */
  client(name: string, file: string, maintain: boolean): DbClient {
    const { writerSocket, ticket } = this.#options;
    return new DbClient((handlers, session) => {
      const link = connectLink(writerSocket(file), handlers);
      link.send([Kind.hello, ticket({ role: 'database', name, file, maintain }), session]);
      return link;
    });
  }

  /** Migrations that the app's database has had: SQLite's `user_version`. */
  userVersion(app: string): Promise<number> {
    return this.#maintain(app, (client) => client.userVersion());
  }

  /** Applies what is pending; resolves with the numbers applied. Rejects with `MIGRATION_FAILED`, the file in `path`. */
  migrate(app: string, files: MigrationFile[], backupTo: string | null): Promise<number[]> {
    return this.#maintain(app, (client) => client.migrate(files, backupTo));
  }

  /** What was found in the app's data after a crash or a failed disk is on the disk when it resolves. */
  async makeDurable(app: string): Promise<void> {
    await this.migrate(app, [], null);
  }

  /** Makes the writer let go of the app's file. */
  async close(app: string): Promise<void> {
    await this.#maintain(app, (client) => client.close());
  }

  async #maintain<T>(app: string, work: (client: DbClient) => Promise<T>): Promise<T> {
    const client = this.client(app, this.#options.dataFile(app), true);
    try {
      return await work(client);
    } catch (error) {
      // What the writer says in our own codes is for the caller, `MIGRATION_FAILED` above all.
      throw error instanceof DbError && Object.hasOwn(ERROR_CODES, error.code) ? errorFromBody(error) : error;
    } finally {
      client.end();
    }
  }
}
