/**
 * Keeps which apps a cluster has, for the node that takes over a bucket and for questions about all (specification, "Files in the
 * cluster"). Each change says in which epoch its node owns the bucket.
 */
import { bucketOf } from '../../protocol/buckets.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Database } from './database.ts';

/**
 * `registeredAt` in milliseconds since the epoch; null for an app that was removed, whose id another one may have now. `maker` is the id
 * of the person who made it, null for none.
 */
export type ListedApp = { readonly id: string; readonly registeredAt: number | null; readonly maker: string | null };

export const APP_TABLES = `
CREATE TABLE IF NOT EXISTS svc.apps (
  bucket integer NOT NULL,
  id text PRIMARY KEY,
  registered_at bigint,
  maker text
);
CREATE INDEX IF NOT EXISTS apps_of_bucket ON svc.apps (bucket);`;

/** The transaction of the latest change of each, in the order in which no reader misses one. */
export const APP_CHANGES = `
ALTER TABLE svc.apps ADD COLUMN IF NOT EXISTS changed xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX IF NOT EXISTS apps_changed ON svc.apps (changed);`;

// A change of the owner waits for the end of the statement, or comes first and the statement then finds another epoch.
const PUT = `
  WITH owned AS (SELECT FROM svc.buckets WHERE bucket = $1 AND epoch = $2 FOR SHARE)
  INSERT INTO svc.apps (bucket, id, registered_at, maker) SELECT $1, $3, $4, $5 FROM owned
  ON CONFLICT (id) DO UPDATE SET registered_at = excluded.registered_at, maker = excluded.maker, changed = excluded.changed
  RETURNING 1`;

// What a transaction that goes on will have changed is not before the horizon.
const CHANGES = `
  SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon, (
    SELECT coalesce(json_agg(json_build_object('id', id, 'registeredAt', registered_at, 'maker', maker)), '[]')
    FROM svc.apps WHERE changed >= $1::text::xid8) AS apps`;

export class AppDirectory {
  readonly #database: Database;
  readonly #epochOf: (bucket: number) => number | undefined;
  /** By bucket. */
  readonly #put = new Map<number, Set<string>>();

  /** `epochOf` is the epoch in which this node owns a bucket. */
  constructor(database: Database, epochOf: (bucket: number) => number | undefined) {
    this.#database = database;
    this.#epochOf = epochOf;
  }

  /** Those of these buckets. */
  async in(buckets: readonly number[]): Promise<ListedApp[]> {
    return this.#database.rows<ListedApp>(
      `SELECT id, registered_at::float8 AS "registeredAt", maker FROM svc.apps WHERE bucket = ANY ($1) ORDER BY id COLLATE "C"`,
      [buckets],
    );
  }

  /** All that changed since `horizon`, and perhaps some before it; all apps without one. `horizon` is for the next question. */
  async since(horizon: string | null): Promise<{ apps: ListedApp[]; horizon: string }> {
    const rows = await this.#database.rows<{ apps: ListedApp[]; horizon: string }>(CHANGES, [horizon ?? '0']);
    return rows[0] as (typeof rows)[0];
  }

  /** Durable once it resolves. Rejects with `STORAGE_UNAVAILABLE` where another node has the bucket of the app, and as `Database.rows` does. */
  async put({ id, registeredAt, maker }: ListedApp): Promise<void> {
    const bucket = bucketOf(id);
    const epoch = this.#epochOf(bucket);
    const rows = epoch === undefined ? [] : await this.#database.rows(PUT, [bucket, epoch, id, registeredAt, maker]);
    if (rows.length === 0)
      throw new SvcError('STORAGE_UNAVAILABLE', `Another node of the cluster has ${id}. Try again.`);
    const known = this.#put.get(bucket);
    if (known === undefined) this.#put.set(bucket, new Set([id]));
    else known.add(id);
  }

  /** Those of the bucket that this node put since it was last asked, removed ones too. */
  takePut(bucket: number): string[] {
    const put = [...(this.#put.get(bucket) ?? [])];
    this.#put.delete(bucket);
    return put;
  }
}
