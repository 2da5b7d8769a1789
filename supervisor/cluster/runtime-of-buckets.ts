/** Opens and ends the databases with the gateway's own rows of apps, one for each bucket, as its node gets and loses buckets. */
import { mkdirSync } from 'node:fs';
import { bucketOf, GATEWAY_BUCKET, runtimeOfBucket } from '../../protocol/buckets.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import type { Layout } from '../../storage/layout.ts';
import type { Databases } from '../databases.ts';
import type { RuntimeDatabases } from '../runtime/runtime-databases.ts';

export class RuntimeOfBuckets implements RuntimeDatabases {
  readonly #open: (bucket: number) => DbClient;
  /** Null where nothing was ever written. */
  readonly #served = new Map<number, DbClient | null>();

  /** `open` makes a client for the database of a bucket. */
  constructor(open: (bucket: number) => DbClient) {
    this.#open = open;
  }

  /** Those in a data directory. */
  static in(layout: Layout, databases: Databases): RuntimeOfBuckets {
    mkdirSync(layout.runtimeDir, { recursive: true, mode: 0o700 });
    return new RuntimeOfBuckets((bucket) => databases.own(runtimeOfBucket(bucket), layout.runtimeOfBucket(bucket)));
  }

  /**
   * The node has the bucket from now on. `exists` says whether its database was ever written; then answers its client, for the stores
   * to end what an earlier owner left under way.
   */
  serve(bucket: number, exists: boolean): DbClient | null {
    const client = this.#served.get(bucket) ?? (exists ? this.#open(bucket) : null);
    this.#served.set(bucket, client);
    return client;
  }

  /** Another node gets the bucket. What is asked of its database from now on fails. */
  release(bucket: number): void {
    const client = this.#served.get(bucket);
    this.#served.delete(bucket);
    client?.retire(elsewhere().toBody());
  }

  of(key: string | null): DbClient {
    const bucket = bucketOfKey(key);
    const client = this.#find(bucket) ?? this.#open(bucket);
    this.#served.set(bucket, client);
    return client;
  }

  existing(key: string | null): DbClient | null {
    return this.#find(bucketOfKey(key));
  }

  all(): readonly DbClient[] {
    return [...this.#served.values()].filter((client) => client !== null);
  }

  #find(bucket: number): DbClient | null {
    const client = this.#served.get(bucket);
    if (client === undefined) throw elsewhere();
    return client;
  }
}

function bucketOfKey(key: string | null): number {
  return key === null ? GATEWAY_BUCKET : bucketOf(key);
}

function elsewhere(): SvcError {
  const message = 'Another node of the cluster has this app now. Try again.';
  return new SvcError('STORAGE_UNAVAILABLE', message, { headers: { 'retry-after': '1' } });
}
