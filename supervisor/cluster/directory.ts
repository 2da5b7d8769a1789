/**
 * Reads and changes which nodes are in a cluster and who owns which bucket, each with one question to the database
 * (specification, "Cluster: nodes and buckets"). All times are the database's. Rejects as it does.
 */
import { LIMITS } from '../../protocol/limits.ts';
import type { Database } from '../../storage/cluster/database.ts';

/** A run of a node: `instance` is a UUID that it made when it started. */
export type Instance = { name: string; instance: string };

/** As the node says of itself; `version` is its release. */
export type NodeFacts = Instance & { address: string; version: string };

/** `leaseUntil` and `started` are ISO 8601; `isLive` says whether the lease had not ended. */
export type NodeRow = NodeFacts & { leaseUntil: string; started: string; draining: boolean; isLive: boolean };

/** Of a bucket. The epoch grows by one with each change of the owner, so that all epochs together tell any change. */
export type Owned = { owner: string | null; epoch: number };

/** `buckets` by number; null when the epochs of all together are still what the asker knows. */
export type Look = { isRenewed: boolean; nodes: NodeRow[]; buckets: Owned[] | null };

export type Epoch = { bucket: number; epoch: number };

/** The node that a bucket goes to, null for none; `epoch` is the one that ends. */
export type Gift = Epoch & { to: string | null };

const LEASE = `clock_timestamp() + interval '${LIMITS.nodeLeaseMs} milliseconds'`;
const NODES = `
  SELECT coalesce(json_agg(json_build_object('name', name, 'instance', instance, 'address', address, 'version', version,
    'leaseUntil', lease_until, 'started', started, 'draining', draining, 'isLive', lease_until > clock_timestamp())
    ORDER BY name), '[]') FROM svc.nodes`;

// The row of another run of the node is taken when its lease has ended, or when this run knows that it is over. Rows that
// nobody will need go at this occasion.
const JOIN = `
  WITH old AS (DELETE FROM svc.nodes WHERE name <> $1 AND lease_until < clock_timestamp() - interval '${LIMITS.nodeKeptMs} milliseconds' RETURNING name),
  writers AS (DELETE FROM svc.writers WHERE node IN (SELECT name FROM old)),
  joined AS (
    INSERT INTO svc.nodes AS n (name, instance, address, version, lease_until, started)
    VALUES ($1, $2, $3, $4, ${LEASE}, clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET instance = excluded.instance, address = excluded.address, version = excluded.version,
      lease_until = ${LEASE}, draining = false,
      started = CASE WHEN n.instance = excluded.instance THEN n.started ELSE excluded.started END
    WHERE n.lease_until <= clock_timestamp() OR n.instance IN ($2, $5)
    RETURNING 1)
  SELECT EXISTS (SELECT FROM joined) AS "isJoined", (SELECT address FROM svc.nodes WHERE name = $1) AS address`;

const LOOK = `
  WITH renewed AS (
    UPDATE svc.nodes SET lease_until = ${LEASE}, draining = $3 WHERE name = $1 AND instance = $2 RETURNING 1)
  SELECT EXISTS (SELECT FROM renewed) AS "isRenewed", (${NODES}) AS nodes,
    CASE WHEN (SELECT sum(epoch) FROM svc.buckets) <> $4::bigint THEN
      (SELECT json_agg(json_build_object('owner', owner, 'epoch', epoch) ORDER BY bucket) FROM svc.buckets)
    END AS buckets`;

// A renewal that is under way is waited for, and then the lease is looked at again. Rows of buckets are locked in one order, so
// that two nodes never wait for each other.
const CLAIM = `
  WITH wanted AS (SELECT * FROM unnest($3::integer[], $4::bigint[]) AS w (bucket, epoch)),
  ended AS (
    SELECT name FROM svc.nodes
    WHERE name IN (SELECT b.owner FROM svc.buckets b JOIN wanted USING (bucket)) AND lease_until <= clock_timestamp()
    ORDER BY name FOR SHARE),
  free AS (
    SELECT b.bucket, b.epoch FROM svc.buckets b JOIN wanted w ON w.bucket = b.bucket AND w.epoch = b.epoch
    WHERE b.owner IS NULL OR b.owner = $1 OR b.owner IN (SELECT name FROM ended)
      OR NOT EXISTS (SELECT FROM svc.nodes n WHERE n.name = b.owner)
    ORDER BY b.bucket FOR UPDATE OF b)
  UPDATE svc.buckets b SET owner = $1, epoch = b.epoch + 1 FROM free
  WHERE b.bucket = free.bucket AND b.epoch = free.epoch
    AND EXISTS (SELECT FROM svc.nodes WHERE name = $1 AND instance = $2)
  RETURNING b.bucket, b.epoch::float8 AS epoch`;

const GIVE = `
  WITH given AS (
    SELECT b.bucket, b.epoch, g.receiver FROM svc.buckets b
    JOIN unnest($2::integer[], $3::bigint[], $4::text[]) AS g (bucket, epoch, receiver) ON g.bucket = b.bucket AND g.epoch = b.epoch
    WHERE b.owner = $1 ORDER BY b.bucket FOR UPDATE OF b)
  UPDATE svc.buckets b SET owner = given.receiver, epoch = b.epoch + 1 FROM given
  WHERE b.bucket = given.bucket AND b.epoch = given.epoch
  RETURNING b.bucket, b.epoch::float8 AS epoch`;

const LEAVE = `
  WITH gone AS (DELETE FROM svc.nodes WHERE name = $1 AND instance = $2 RETURNING name),
  freed AS (SELECT bucket FROM svc.buckets WHERE owner IN (SELECT name FROM gone) ORDER BY bucket FOR UPDATE)
  UPDATE svc.buckets SET owner = NULL, epoch = epoch + 1 WHERE bucket IN (SELECT bucket FROM freed)`;

export class Directory {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Takes the node's name for this run of it, with a new lease. Answers the address of the other run that has the name and a
   * lease, else null. `previous` is the run of the same data directory before this one, which is over.
   */
  async join({ name, instance, address, version }: NodeFacts, previous: string | null): Promise<string | null> {
    const values = [name, instance, address, version, previous];
    const [row] = await this.#database.rows<{ isJoined: boolean; address: string }>(JOIN, values);
    return row?.isJoined === true ? null : (row?.address ?? '');
  }

  /**
   * Renews the lease, says whether the node drains, and reads what changed; `known` is the sum of the epochs that the node
   * knows.
   */
  async look({ name, instance }: Instance, draining: boolean, known: number): Promise<Look> {
    const [look] = await this.#database.rows<Look>(LOOK, [name, instance, draining, known]);
    return look as Look;
  }

  /** Every node that has not left, in the order of names. */
  async nodes(): Promise<NodeRow[]> {
    const [row] = await this.#database.rows<{ nodes: NodeRow[] }>(`SELECT (${NODES}) AS nodes`);
    return row?.nodes ?? [];
  }

  /**
   * Takes buckets whose epochs are these, and whose owner is nobody, this node, or a node without a lease. Answers those that
   * it got, with their new epochs.
   */
  async claim({ name, instance }: Instance, buckets: readonly Epoch[]): Promise<Epoch[]> {
    const values = [name, instance, buckets.map(({ bucket }) => bucket), buckets.map(({ epoch }) => epoch)];
    return this.#database.rows<Epoch>(CLAIM, values);
  }

  /** Hands over buckets of the node whose epochs are these. Answers those that it handed over, with their new epochs. */
  async give({ name }: Instance, gifts: readonly Gift[]): Promise<Epoch[]> {
    const columns = [gifts.map(({ bucket }) => bucket), gifts.map(({ epoch }) => epoch), gifts.map(({ to }) => to)];
    return this.#database.rows<Epoch>(GIVE, [name, ...columns]);
  }

  /** Takes the node out, and what it still has belongs to nobody. */
  async leave({ name, instance }: Instance): Promise<void> {
    await this.#database.rows(LEAVE, [name, instance]);
  }
}
