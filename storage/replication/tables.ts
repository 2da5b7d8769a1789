/** Makes the tables of a cluster in its PostgreSQL database, and brings those of an earlier release forward. */
import type pg from 'pg';
import { SvcError } from '../../protocol/errors.ts';

/** SQL that leads from the version before to this one; versions count from 1 on without a gap. */
export type Step = { version: number; sql: string };

/** One number for all nodes, which nothing else in the database should lock. */
const LOCK = 0x737663;

/**
 * What the log of pages needs. An entry of `svc.log` is a set of pages. The newest state of which the log has no entries any more is
 * `svc.snapshots`: a database in pieces of as many pages each, of which piece 0 says up to which entry all of them go.
 *
 * `svc.append` stores the entries of each bucket that the node owns in the epoch it says, and of each database whose latest entry is the
 * one it says; it answers with the numbers, in the arrays, of those it stored. Its lock makes a change of owner wait for the commit.
 */
export const LOG_STEPS: Step[] = [
  {
    version: 1,
    sql: `
CREATE TABLE svc.buckets (
  bucket smallint PRIMARY KEY,
  owner text,
  epoch bigint NOT NULL DEFAULT 0
);
CREATE TABLE svc.log (
  bucket smallint NOT NULL,
  database text NOT NULL,
  epoch bigint NOT NULL,
  seq bigint NOT NULL,
  frames bytea NOT NULL,
  PRIMARY KEY (bucket, database, seq)
);
CREATE TABLE svc.snapshots (
  bucket smallint NOT NULL,
  database text NOT NULL,
  piece integer NOT NULL,
  seq bigint NOT NULL,
  epoch bigint NOT NULL,
  checksum bigint NOT NULL,
  pages bytea NOT NULL,
  PRIMARY KEY (bucket, database, piece)
);
-- Pages are compressed where that is worth it.
-- The usual entry of a page or two stays in its row.
ALTER TABLE svc.log SET (toast_tuple_target = 8160);
ALTER TABLE svc.log ALTER COLUMN frames SET STORAGE EXTERNAL;
ALTER TABLE svc.snapshots ALTER COLUMN pages SET STORAGE EXTERNAL;
INSERT INTO svc.buckets (bucket) SELECT generate_series(0, 4095);

CREATE FUNCTION svc.head(the_bucket smallint, the_database text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce(
    (SELECT seq FROM svc.log WHERE bucket = the_bucket AND database = the_database ORDER BY seq DESC LIMIT 1),
    (SELECT seq FROM svc.snapshots WHERE bucket = the_bucket AND database = the_database AND piece = 0),
    0)
$$;

CREATE FUNCTION svc.append(
  the_node text, the_buckets smallint[], the_databases text[], the_epochs bigint[], the_befores bigint[], the_seqs bigint[],
  the_starts integer[], the_sizes integer[], the_bytes bytea
) RETURNS SETOF integer LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM FROM svc.buckets b WHERE b.bucket = ANY (the_buckets) ORDER BY b.bucket FOR SHARE;
  RETURN QUERY
    WITH given AS (
      SELECT g.* FROM unnest(the_buckets, the_databases, the_epochs, the_befores, the_seqs, the_starts, the_sizes)
        WITH ORDINALITY AS g (bucket, database, epoch, before, seq, start, size, number)
    ), fitting AS MATERIALIZED (
      SELECT g.* FROM given g JOIN svc.buckets b ON b.bucket = g.bucket AND b.owner = the_node AND b.epoch = g.epoch
      WHERE svc.head(g.bucket, g.database) = g.before
    ), stored AS (
      INSERT INTO svc.log (bucket, database, epoch, seq, frames)
      SELECT f.bucket, f.database, f.epoch, f.seq, substring(the_bytes FROM f.start FOR f.size) FROM fitting f
    )
    SELECT f.number::integer FROM fitting f;
END
$$;`,
  },
];

/**
 * Brings the tables to the last of the steps, in one transaction that other nodes wait for. Throws `BAD_REQUEST` when a later release
 * made the tables.
 */
export async function migrate(client: pg.ClientBase, steps: Step[]): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
    await client.query('CREATE SCHEMA IF NOT EXISTS svc');
    await client.query('CREATE TABLE IF NOT EXISTS svc.meta (version integer NOT NULL)');
    const { rows } = await client.query<{ version: number }>('SELECT version FROM svc.meta');
    const version = rows[0]?.version ?? 0;
    const last = steps.at(-1)?.version ?? 0;
    if (version > last) {
      const message = `The tables of the cluster have version ${version}, and this release knows ${last}. Install the release that the other nodes run.`;
      throw new SvcError('BAD_REQUEST', message);
    }
    for (const step of steps) if (step.version > version) await client.query(step.sql);
    if (rows.length === 0) await client.query('INSERT INTO svc.meta (version) VALUES ($1)', [last]);
    else await client.query('UPDATE svc.meta SET version = $1', [last]);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}
