/**
 * Keeps large contents of files as objects of an S3-compatible store, and deletes those that no content names (specification, "Files in
 * the cluster"). Each object has a key of its own: what is deleted late is never what was stored meanwhile.
 */
import { createHash, randomUUID } from 'node:crypto';
import { LIMITS } from '../../protocol/limits.ts';
import type { Session } from '../cluster/database.ts';
import { inParallel } from '../files/atomic-file.ts';
import type { ObjectBody, S3 } from './s3.ts';

/**
 * `unnamed_objects` are those that may be in the store while no content names them: on their way there, or not needed any more. What
 * `is_going` is deleted and is never named again. `object_store` tells the cluster's store from others.
 */
export const OBJECT_TABLES: string = `
ALTER TABLE svc.contents ADD COLUMN IF NOT EXISTS object text;
CREATE TABLE IF NOT EXISTS svc.unnamed_objects (
  key text PRIMARY KEY,
  since timestamptz NOT NULL DEFAULT now(),
  is_going boolean NOT NULL DEFAULT false
);
CREATE TABLE IF NOT EXISTS svc.object_store (
  id uuid NOT NULL,
  one boolean PRIMARY KEY DEFAULT true CHECK (one)
);`;

const DELETED_AT_ONCE = 8;
const OTHER_STORE =
  'the files of this cluster are in another store, bucket or "prefix". Set "blobs.s3" as at the other nodes, or copy all objects there';

const markOf = (id: string): string => `cluster/${id}`;

export class LargeContents {
  readonly #s3: S3;
  readonly #database: Session;

  /** Statements are done by themselves: what begins is known also where a transaction ends without it. */
  constructor(s3: S3, database: Session) {
    this.#s3 = s3;
    this.#database = database;
  }

  /**
   * Puts, gets and deletes an object, and sees whether the store is the one that the cluster has used so far. Rejects as
   * `S3.put` and statements do.
   */
  async check(): Promise<void> {
    const known = 'SELECT id::text FROM svc.object_store';
    const [before] = await this.#database.rows<{ id: string }>(known);
    if (before === undefined) {
      const id = randomUUID();
      await this.#s3.put(markOf(id), bodyOf(id));
      await this.#database.rows('INSERT INTO svc.object_store (id) VALUES ($1) ON CONFLICT DO NOTHING', [id]);
    }
    const [{ id } = { id: '' }] = await this.#database.rows<{ id: string }>(known);
    if ((await this.#textOf(markOf(id))) !== id) throw this.#s3.error(`lacks the object ${markOf(id)}: ${OTHER_STORE}`);
    const probe = `probe/${randomUUID()}`;
    await this.#s3.put(probe, bodyOf(probe));
    if ((await this.#textOf(probe)) !== probe) throw this.#s3.error('does not give back what it was sent');
    await this.#s3.delete(probe);
  }

  /** Sends a content, and answers its key. It is deleted unless `nameObjects` follows. Rejects as `S3.put` and statements do. */
  async put(body: ObjectBody): Promise<string> {
    const key = `${body.hash}/${randomUUID()}`;
    await this.#database.rows('INSERT INTO svc.unnamed_objects (key) VALUES ($1)', [key]);
    await this.#s3.put(key, body);
    return key;
  }

  /** As `S3.get`. */
  get(key: string): Promise<AsyncIterable<Buffer> | null> {
    return this.#s3.get(key);
  }

  async #textOf(key: string): Promise<string | null> {
    const object = await this.#s3.get(key);
    if (object === null) return null;
    const pieces: Buffer[] = [];
    for await (const piece of object) pieces.push(piece);
    return Buffer.concat(pieces).toString();
  }

  /**
   * Deletes what no content has named for `LIMITS.objectGraceMs`, and answers how many. Any number of nodes may do this at once. Rejects
   * as `S3.delete` and statements do; the next call does the rest.
   */
  async sweep(): Promise<number> {
    const old = await this.#database.rows<{ key: string }>(
      `UPDATE svc.unnamed_objects SET is_going = true WHERE since < now() - $1 * interval '1 millisecond' RETURNING key`,
      [LIMITS.objectGraceMs],
    );
    await inParallel(old, DELETED_AT_ONCE, async ({ key }) => {
      await this.#s3.delete(key);
      await this.#database.rows('DELETE FROM svc.unnamed_objects WHERE key = $1', [key]);
    });
    return old.length;
  }
}

/** Whether the cluster has contents in an S3-compatible store. */
export async function hasObjects(session: Session): Promise<boolean> {
  const [{ found } = { found: false }] = await session.rows<{ found: boolean }>(
    'SELECT EXISTS (SELECT FROM svc.contents WHERE object IS NOT NULL) AS found',
  );
  return found;
}

/**
 * Makes the objects the contents of these hashes; a content that is there meanwhile stays as it is. False, and the transaction has to
 * end without them, when one of them is being deleted.
 */
export async function nameObjects(session: Session, keys: ReadonlyMap<string, string>): Promise<boolean> {
  const [{ put, named } = { put: 0, named: 0 }] = await session.rows<{ put: number; named: number }>(
    `WITH put AS (
       INSERT INTO svc.contents (hash, piece, bytes, object)
       SELECT decode(o.hash, 'hex'), 0, '', o.key FROM unnest($1::text[], $2::text[]) AS o (hash, key)
       ON CONFLICT DO NOTHING RETURNING object
     ), named AS (
       DELETE FROM svc.unnamed_objects u USING put WHERE u.key = put.object AND NOT u.is_going RETURNING 1
     )
     SELECT (SELECT count(*) FROM put)::integer AS put, (SELECT count(*) FROM named)::integer AS named`,
    [[...keys.keys()], [...keys.values()]],
  );
  return put === named;
}

function bodyOf(text: string): ObjectBody {
  const bytes = Buffer.from(text);
  const hash = createHash('sha256').update(bytes).digest('hex');
  return {
    size: bytes.length,
    hash,
    async *read() {
      yield bytes;
    },
  };
}
