/** Says what tables the log of pages needs (specification, "Log of pages"). */
import { BUCKETS } from '../../protocol/buckets.ts';

/**
 * An entry of `svc.log` is a set of pages. The newest state of which the log has no entries any more is `svc.snapshots`: a database in
 * pieces of as many pages each, of which piece 0 says up to which entry all of them go.
 *
 * `svc.append` stores the entries of each bucket that the node owns in the epoch it says, and of each database whose latest entry is the
 * one it says; it answers with the numbers, in the arrays, of those it stored. Its lock makes a change of owner wait for the commit.
 */
export const LOG_TABLES: string = `
CREATE TABLE IF NOT EXISTS svc.buckets (
  bucket smallint PRIMARY KEY,
  owner text,
  epoch bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS svc.log (
  bucket smallint NOT NULL,
  database text NOT NULL,
  epoch bigint NOT NULL,
  seq bigint NOT NULL,
  frames bytea NOT NULL,
  PRIMARY KEY (bucket, database, seq)
);
CREATE TABLE IF NOT EXISTS svc.snapshots (
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
INSERT INTO svc.buckets (bucket) SELECT generate_series(0, ${BUCKETS - 1}) ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION svc.head(the_bucket smallint, the_database text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce(
    (SELECT seq FROM svc.log WHERE bucket = the_bucket AND database = the_database ORDER BY seq DESC LIMIT 1),
    (SELECT seq FROM svc.snapshots WHERE bucket = the_bucket AND database = the_database AND piece = 0),
    0)
$$;

CREATE OR REPLACE FUNCTION svc.append(
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
$$;`;
