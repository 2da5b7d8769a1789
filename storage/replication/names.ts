/** Lists the databases that the log of pages has, gives one another name, and removes one (specification, "Log of pages"). */
import { bucketOf } from '../../protocol/buckets.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Database, Session } from '../cluster/database.ts';

const TABLES = ['svc.log', 'svc.snapshots'];

/** While the writer has none of them open. A change is refused with `STORAGE_UNAVAILABLE` where another node has the bucket. */
export class LogNames {
  readonly #cluster: Database;
  readonly #epochOf: (bucket: number) => number | undefined;

  /** `epochOf` is the epoch in which this node owns a bucket. */
  constructor(cluster: Database, epochOf: (bucket: number) => number | undefined) {
    this.#cluster = cluster;
    this.#epochOf = epochOf;
  }

  /** The databases of these buckets that were ever written. */
  async in(buckets: readonly number[]): Promise<string[]> {
    const sql = TABLES.map((table) => `SELECT database FROM ${table} WHERE bucket = ANY ($1)`).join(' UNION ');
    return (await this.#cluster.rows<{ database: string }>(sql, [buckets])).map(({ database }) => database);
  }

  /** The number of the latest entry that the log has of a database; 0 for none. */
  async latest(database: string): Promise<number> {
    const [row] = await this.#cluster.rows<{ seq: number }>(
      `SELECT greatest((SELECT max(seq) FROM svc.log WHERE bucket = $1 AND database = $2),
         (SELECT seq FROM svc.snapshots WHERE bucket = $1 AND database = $2 AND piece = 0), 0)::float8 AS seq`,
      [bucketOf(database), database],
    );
    return row?.seq ?? 0;
  }

  /** Of the same bucket. What had the new name is removed. Where there is nothing of the old one, nothing is done. */
  async rename(from: string, to: string): Promise<void> {
    await this.#change(from, async (session, bucket) => {
      const found = await session.rows(
        `${TABLES.map((table) => `SELECT FROM ${table} WHERE bucket = $1 AND database = $2`).join(' UNION ALL ')} LIMIT 1`,
        [bucket, from],
      );
      if (found.length === 0) return;
      await remove(session, bucket, to);
      for (const table of TABLES)
        await session.rows(`UPDATE ${table} SET database = $3 WHERE bucket = $1 AND database = $2`, [bucket, from, to]);
    });
  }

  async remove(database: string): Promise<void> {
    await this.#change(database, (session, bucket) => remove(session, bucket, database));
  }

  async #change(database: string, work: (session: Session, bucket: number) => Promise<void>): Promise<void> {
    const bucket = bucketOf(database);
    await this.#cluster.transaction(async (session) => {
      // A change of the owner waits for the end of the transaction.
      const owned = await session.rows('SELECT FROM svc.buckets WHERE bucket = $1 AND epoch = $2 FOR SHARE', [
        bucket,
        this.#epochOf(bucket) ?? -1,
      ]);
      if (owned.length === 0)
        throw new SvcError('STORAGE_UNAVAILABLE', `Another node of the cluster has ${database}. Try again.`);
      await work(session, bucket);
    });
  }
}

async function remove(session: Session, bucket: number, database: string): Promise<void> {
  for (const table of TABLES)
    await session.rows(`DELETE FROM ${table} WHERE bucket = $1 AND database = $2`, [bucket, database]);
}
