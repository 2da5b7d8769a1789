/** The database of a cluster for tests and benches of shared files: the tables, and a pool that counts what is sent. */
import pg from 'pg';
import { BUCKETS } from '../protocol/buckets.ts';
import { FILE_STEPS } from '../storage/shared-files/tables.ts';

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
    await tables.pool.query(`
      CREATE SCHEMA svc;
      CREATE TABLE svc.buckets (bucket integer PRIMARY KEY, owner text, epoch bigint NOT NULL DEFAULT 0);
      INSERT INTO svc.buckets (bucket, epoch) SELECT generate_series(0, ${BUCKETS - 1}), 1;`);
    for (const { sql } of FILE_STEPS) await tables.pool.query(sql);
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
