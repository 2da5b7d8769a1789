/**
 * Keeps the objects and names of the git store's repository in the database of a cluster (specification, "Code in the cluster"): objects
 * are only ever added, names change by compare-and-set, and each change has a number.
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { PIECES, type Pieces, valuesOf } from '../shared-files/tables.ts';
import type { Database, Session } from './database.ts';

/**
 * An object is in pieces of its compressed form. Piece 0 is stored last, so that an object that has one is whole. `number` is that of the
 * change with which nodes get it, null before that. `begins` is the node that has the first names, if only one can have them.
 */
export const REPOSITORY_TABLES = `
CREATE TABLE IF NOT EXISTS svc.repository (number bigint NOT NULL, one boolean PRIMARY KEY DEFAULT true CHECK (one));
INSERT INTO svc.repository (number) VALUES (0) ON CONFLICT DO NOTHING;
ALTER TABLE svc.repository ADD COLUMN IF NOT EXISTS begins text;
CREATE TABLE IF NOT EXISTS svc.refs (name text PRIMARY KEY, id bytea NOT NULL);
CREATE TABLE IF NOT EXISTS svc.objects (
  id bytea NOT NULL,
  piece integer NOT NULL,
  number bigint,
  bytes bytea NOT NULL,
  PRIMARY KEY (id, piece)
);
ALTER TABLE svc.objects ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS objects_by_number ON svc.objects (number);`;

/** Name → id. */
export type Names = ReadonlyMap<string, string>;
/** `bucket` must have this epoch, if one is named. */
export type Fence = { readonly bucket: number; readonly epoch: number };
/** What a name is to stand for, and what it has to stand for until then; null for nothing. */
export type NameChange = { readonly name: string; readonly from: string | null; readonly to: string | null };

export class SharedRepository {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** The number of the last change; 0 before the first one. */
  number(): Promise<number> {
    return numberIn(this.#database);
  }

  /** The node whose repository is that of the cluster, and which has not sent it yet; null for any. */
  async beginner(): Promise<string | null> {
    const [row] = await this.#database.rows<{ begins: string | null }>(
      'SELECT begins FROM svc.repository WHERE number = 0',
    );
    return row?.begins ?? null;
  }

  /** All names, as the change of this number left them. */
  names(): Promise<{ number: number; names: Names }> {
    return this.#database.transaction(async (session) => {
      const number = await numberIn(session);
      const rows = await session.rows<{ name: string; id: string }>(
        `SELECT name, encode(id, 'hex') AS id FROM svc.refs ORDER BY name COLLATE "C"`,
      );
      return { number, names: new Map(rows.map(({ name, id }) => [name, id])) };
    }, 'ISOLATION LEVEL REPEATABLE READ READ ONLY');
  }

  /** Objects of the changes after `from` up to `to`, compressed. */
  async *objects(from: number, to: number): AsyncGenerator<{ id: string; packed: Buffer }> {
    const listed = await this.#database.rows<{ id: string; size: number }>(
      `SELECT encode(id, 'hex') AS id, sum(octet_length(bytes))::float8 AS size FROM svc.objects
       WHERE number > $1 AND number <= $2 GROUP BY id`,
      [from, to],
    );
    for (let group: string[] = [], size = 0, at = 0; at < listed.length; at++) {
      const object = listed[at] as (typeof listed)[number];
      group.push(object.id);
      size += object.size;
      if (size < LIMITS.sharedPieceBytes && at + 1 < listed.length) continue;
      yield* await this.#read(group);
      [group, size] = [[], 0];
    }
  }

  async #read(ids: string[]): Promise<{ id: string; packed: Buffer }[]> {
    const rows = await this.#database.rows<{ id: string; bytes: Buffer }>(
      `SELECT encode(id, 'hex') AS id, bytes FROM svc.objects WHERE id = ANY (${IDS(1)}) ORDER BY id, piece`,
      [ids],
    );
    const pieces = new Map<string, Buffer[]>();
    for (const { id, bytes } of rows) pieces.set(id, [...(pieces.get(id) ?? []), bytes]);
    return [...pieces].map(([id, list]) => ({ id, packed: Buffer.concat(list) }));
  }

  /** Those that the database lacks. */
  async missing(ids: readonly string[]): Promise<Set<string>> {
    const rows = await this.#database.rows<{ id: string }>(
      `SELECT encode(id, 'hex') AS id FROM svc.objects WHERE piece = 0 AND id = ANY (${IDS(1)})`,
      [ids],
    );
    const missing = new Set(ids);
    for (const { id } of rows) missing.delete(id);
    return missing;
  }

  /** No node gets them before `change` names them. Of an object with several pieces the first one comes last. */
  async put(pieces: Pieces): Promise<void> {
    await this.#database.rows(
      `INSERT INTO svc.objects (id, piece, bytes) ${PIECES(1)} ON CONFLICT DO NOTHING`,
      valuesOf(pieces),
    );
  }

  /**
   * Changes all names, or none where one of them stands for something else by now; nodes get the objects with it. Answers its number,
   * or null. Rejects with `STORAGE_UNAVAILABLE` where the bucket has another epoch, and when the outcome is not known.
   */
  change(changes: readonly NameChange[], objects: readonly string[], fence: Fence | null): Promise<number | null> {
    return this.#database.transaction(async (session) => {
      await checkFence(session, fence);
      const [{ number } = { number: 0 }] = await session.rows<{ number: number }>(
        'SELECT number::float8 AS number FROM svc.repository FOR UPDATE',
      );
      const names = changes.map(({ name }) => name);
      const now = await session.rows<{ name: string; id: string }>(
        `SELECT name, encode(id, 'hex') AS id FROM svc.refs WHERE name = ANY ($1)`,
        [names],
      );
      const there = new Map(now.map(({ name, id }) => [name, id]));
      if (changes.some(({ name, from }) => (there.get(name) ?? null) !== from)) return null;
      await session.rows(`UPDATE svc.objects SET number = $2 WHERE id = ANY (${IDS(1)}) AND number IS NULL`, [
        objects,
        number + 1,
      ]);
      await session.rows('DELETE FROM svc.refs WHERE name = ANY ($1)', [
        changes.flatMap(({ name, to }) => (to === null ? name : [])),
      ]);
      const set = changes.filter(({ to }) => to !== null);
      await session.rows(
        `INSERT INTO svc.refs (name, id) SELECT n, decode(i, 'hex') FROM unnest($1::text[], $2::text[]) AS c (n, i)
         ON CONFLICT (name) DO UPDATE SET id = excluded.id`,
        [set.map(({ name }) => name), set.map(({ to }) => to)],
      );
      await session.rows('UPDATE svc.repository SET number = $1', [number + 1]);
      return number + 1;
    });
  }
}

/** The first names of the repository are those that this node has. */
export async function beginRepository(session: Session, node: string): Promise<void> {
  await session.rows('UPDATE svc.repository SET begins = $1', [node]);
}

const IDS = (parameter: number): string => `SELECT decode(i, 'hex') FROM unnest($${parameter}::text[]) AS i`;

async function numberIn(session: Session): Promise<number> {
  const [row] = await session.rows<{ number: number }>('SELECT number::float8 AS number FROM svc.repository');
  return row?.number ?? 0;
}

async function checkFence(session: Session, fence: Fence | null): Promise<void> {
  if (fence === null) return;
  const rows = await session.rows('SELECT FROM svc.buckets WHERE bucket = $1 AND epoch = $2 FOR SHARE', [
    fence.bucket,
    fence.epoch,
  ]);
  if (rows.length > 0) return;
  throw new SvcError('STORAGE_UNAVAILABLE', 'Another node of the cluster has this app now. Try again.');
}
