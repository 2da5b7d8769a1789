/** Says what tables the log of pages needs (specification, "Log of pages"). */
import { BUCKETS } from '../../protocol/buckets.ts';

/**
 * An entry of `svc.log` is a set of pages. The newest state of which the log has no entries any more is `svc.snapshots`: a database in
 * pieces of as many pages each, of which piece 0 says up to which entry all of them go.
 *
 * Each node has one writer, that of its row in `svc.writers`. `svc.append` stores its next group: the entries of each bucket that the node
 * owns in the epoch it says. It answers with the numbers, in the arrays, of those that it did not store; the same for a group that it
 * has already, and null for a writer that is not the node's any more, or lacks a group. A group and a change of the owner of a bucket
 * wait for each other, by the row of the writer: so nothing is stored after the change, and no row of a bucket is locked.
 */
export const LOG_TABLES: string = `
CREATE TABLE IF NOT EXISTS svc.buckets (
  bucket smallint PRIMARY KEY,
  owner text,
  epoch bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS svc.writers (
  node text PRIMARY KEY,
  writer uuid NOT NULL,
  groups bigint NOT NULL,
  -- Of the last group.
  fenced integer[] NOT NULL
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

CREATE OR REPLACE FUNCTION svc.fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM svc.writers WHERE node IN (SELECT owner FROM before) ORDER BY node FOR SHARE;
  RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER fence AFTER UPDATE ON svc.buckets REFERENCING OLD TABLE AS before
  FOR EACH STATEMENT EXECUTE FUNCTION svc.fence();

CREATE OR REPLACE FUNCTION svc.append(
  the_node text, the_writer uuid, the_group bigint, the_buckets smallint[], the_databases text[], the_epochs bigint[],
  the_seqs bigint[], the_starts integer[], the_sizes integer[], the_bytes bytea
) RETURNS integer[] LANGUAGE plpgsql VOLATILE
-- Its statements are planned once in each connection. Left to itself, PostgreSQL plans them anew for each group, which takes as long again.
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  stored bigint;
  the_fenced integer[] := '{}';
BEGIN
  UPDATE svc.writers SET groups = the_group, fenced = '{}'
    WHERE node = the_node AND writer = the_writer AND groups = the_group - 1;
  IF NOT FOUND THEN
    RETURN (SELECT CASE WHEN groups = the_group THEN fenced ELSE '{}' END FROM svc.writers
      WHERE node = the_node AND writer = the_writer AND groups >= the_group);
  END IF;
  -- Sees each change of an owner that this group waited for.
  INSERT INTO svc.log (bucket, database, epoch, seq, frames)
    SELECT g.bucket, g.database, g.epoch, g.seq, substring(the_bytes FROM g.start FOR g.size)
    FROM unnest(the_buckets, the_databases, the_epochs, the_seqs, the_starts, the_sizes) AS g (bucket, database, epoch, seq, start, size)
    -- By the index, whatever is known of the table: not a join.
    WHERE (SELECT b.epoch FROM svc.buckets b WHERE b.bucket = g.bucket AND b.owner = the_node) = g.epoch;
  GET DIAGNOSTICS stored = ROW_COUNT;
  IF stored < cardinality(the_buckets) THEN
    SELECT array_agg(g.number) INTO the_fenced
      FROM unnest(the_buckets, the_databases, the_epochs, the_seqs) WITH ORDINALITY AS g (bucket, database, epoch, seq, number)
      WHERE NOT EXISTS (SELECT FROM svc.log l
        WHERE l.bucket = g.bucket AND l.database = g.database AND l.epoch = g.epoch AND l.seq = g.seq);
    UPDATE svc.writers SET fenced = the_fenced WHERE node = the_node;
  END IF;
  RETURN the_fenced;
END
$$;`;
