/** Connects to the PostgreSQL database of a cluster. Its driver is loaded with the first connection. */
import type pg from 'pg';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

/** One connection, which is made when it is needed and made anew after it failed. Its users take turns. */
export class Connection {
  readonly #url: string;
  #client: Promise<pg.Client> | null = null;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(url: string) {
    this.#url = url;
  }

  /** Does the work at its turn. After any error the connection is closed: nothing is left of an open transaction. */
  use<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    const result = this.#turn.then(() => this.#do(work));
    this.#turn = result.catch(() => {});
    return result;
  }

  async #do<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    this.#client ??= connect(this.#url);
    const client = this.#client;
    try {
      return await work(await client);
    } catch (error) {
      this.#client = null;
      // With a query under way this closes the socket at once.
      client.then((open) => open.end()).catch(() => {});
      throw error;
    }
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    await (await client?.catch(() => null))?.end();
  }
}

/** A connection that waits for no answer longer than `LIMITS.logAnswerMs`, and whose commits wait until they are safe. */
export async function connect(url: string): Promise<pg.Client> {
  const { default: driver } = await import('pg');
  const client = new driver.Client({
    connectionString: url,
    application_name: 'svc',
    connectionTimeoutMillis: LIMITS.logAnswerMs,
    query_timeout: LIMITS.logAnswerMs,
    keepAlive: true,
  });
  // Without a listener a connection that ends while nobody asks would end the process.
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** The error for what could not be asked or stored. */
export function unavailable(error: unknown): SvcError {
  if (error instanceof SvcError) return error;
  const why = (error as Error).message || (error as { code?: string }).code;
  const message = `The database of the cluster does not answer: ${why}. Try again; if it goes on, see whether its PostgreSQL runs.`;
  return new SvcError('STORAGE_UNAVAILABLE', message, { cause: error });
}
