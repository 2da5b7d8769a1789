/** The database of a cluster for tests and benches of shared files: the tables, and a pool that counts what is sent. */
import pg from 'pg';
import { Database } from '../storage/cluster/database.ts';
import { prepareTables } from '../storage/cluster/tables.ts';

export class FileTables {
  readonly pool: pg.Pool;
  /** Statements since the start. */
  statements = 0;
  /** Bytes of their contents. */
  bytes = 0;

  private constructor(url: string) {
    this.pool = new pg.Pool({ connectionString: url, max: 8 });
    this.pool.on('error', () => {});
    // Each statement of a pool passes a client.
    this.pool.on('connect', (client) => {
      client.on('error', () => {});
      const { query } = client;
      client.query = ((...given: Parameters<typeof query>) => {
        this.statements += 1;
        for (const value of [given[1] ?? []].flat() as unknown[])
          if (Buffer.isBuffer(value)) this.bytes += value.length;
        return Reflect.apply(query, client, given);
      }) as typeof query;
    });
  }

  /** With all buckets in epoch 1. */
  static async make(url: string): Promise<FileTables> {
    const tables = new FileTables(url);
    const database = new Database([url]);
    await prepareTables(database).finally(() => database.close());
    await tables.pool.query('UPDATE svc.buckets SET epoch = 1');
    return tables;
  }

  async count(what: string): Promise<number> {
    const { rows } = await this.pool.query(`SELECT count(*)::integer AS count FROM ${what}`);
    return rows[0].count;
  }

  async close(): Promise<void> {
    await this.pool.end();
  }
}
