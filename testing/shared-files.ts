/** The database of a cluster for tests and benches of shared files: the tables, and a client that counts what is sent. */
import pg from 'pg';
import { Database, type Session } from '../storage/cluster/database.ts';
import { prepareTables } from '../storage/cluster/tables.ts';

export class FileTables extends Database {
  /** For what a test itself asks and changes. */
  readonly pool: pg.Pool;
  /** Statements since the start. */
  statements = 0;
  /** Bytes of their contents. */
  bytes = 0;

  private constructor(url: string) {
    super([url], { connections: 8, answerMs: 60_000 });
    this.pool = new pg.Pool({ connectionString: url });
    this.pool.on('error', () => {});
  }

  /** With all buckets in epoch 1. */
  static async make(url: string): Promise<FileTables> {
    const tables = new FileTables(url);
    await prepareTables(tables);
    await tables.pool.query('UPDATE svc.buckets SET epoch = 1');
    return tables;
  }

  override rows<T>(...asked: Parameters<Session['rows']>): Promise<T[]> {
    this.#count(asked);
    return super.rows<T>(...asked);
  }

  override transaction<T>(work: (session: Session) => Promise<T>, mode?: string): Promise<T> {
    return super.transaction((session) => {
      const rows = <R>(...asked: Parameters<Session['rows']>): Promise<R[]> => {
        this.#count(asked);
        return session.rows<R>(...asked);
      };
      return work({ rows });
    }, mode);
  }

  async count(what: string): Promise<number> {
    const { rows } = await this.pool.query(`SELECT count(*)::integer AS count FROM ${what}`);
    return rows[0].count;
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.pool.end()]);
  }

  #count([, values = []]: Parameters<Session['rows']>): void {
    this.statements += 1;
    for (const value of values) if (Buffer.isBuffer(value)) this.bytes += value.length;
  }
}
