/** Asks the database of a cluster, and goes to the next of its addresses when one is away or takes no writes. */
import pg from 'pg';
import { LIMITS } from '../../protocol/limits.ts';

/** Of connections and servers that end or let nobody in, and of a standby (25006). */
const AWAY = /^(?:08...|28...|3D000|53...|57P0[1-5]|25006)$/;
/** One for renewals, one for changes of owners, which may wait for a lock, and one for what is asked by people. */
const CONNECTIONS = 3;

export class Database {
  /** Questions since the start. */
  questions = 0;
  readonly urls: readonly string[];
  readonly #pools: readonly pg.Pool[];
  #current = 0;

  /** `urls` are those of one database, at least one: a primary and the standbys that may become it. Connects when it is asked. */
  constructor(urls: readonly string[]) {
    this.urls = urls;
    this.#pools = urls.map((connectionString) => {
      const pool = new pg.Pool({
        connectionString,
        max: CONNECTIONS,
        connectionTimeoutMillis: LIMITS.nodeQueryMs,
        query_timeout: LIMITS.nodeQueryMs,
        keepAlive: true,
      });
      // Of a connection that nobody uses; whoever asks next gets another one.
      pool.on('error', () => {});
      return pool;
    });
  }

  /** The rows of one statement. Rejects as `pg` does; the next question goes to the next address if this one is away. */
  async rows<T>(text: string, values: unknown[] = []): Promise<T[]> {
    return this.#at(async (pool) => (await pool.query(text, values)).rows as T[]);
  }

  /** One transaction on one connection. Rejects, with nothing done, if `work` does. */
  async transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return this.#at(async (pool) => {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        const result = await work(client);
        await client.query('COMMIT');
        client.release();
        return result;
      } catch (error) {
        // The end of its connection ends the transaction.
        client.release(true);
        throw error;
      }
    });
  }

  /** Asks the next address from now on: the one of now turned out to be a standby. */
  next(): void {
    this.#current = (this.#current + 1) % this.#pools.length;
  }

  /** Ends all connections, when what is asked was answered. */
  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.end()));
  }

  async #at<T>(ask: (pool: pg.Pool) => Promise<T>): Promise<T> {
    const at = this.#current;
    this.questions++;
    try {
      return await ask(this.#pools[at] as pg.Pool);
    } catch (error) {
      const isAway = !(error instanceof pg.DatabaseError) || AWAY.test(error.code ?? '');
      if (isAway && at === this.#current) this.next();
      throw error;
    }
  }
}
