/** Makes and asks the tables of files in the database of a cluster: which entries a subject has, and the contents of files. */
import { type Session, stateOf } from '../cluster/database.ts';
import { bucketOfSubject, nameOf, type Subject, subjectOf } from './subjects.ts';
import type { Entries, Entry } from './tree.ts';

/**
 * A content is in pieces, of which each but the last has `LIMITS.sharedPieceBytes`. The reference keeps a content as long as an entry
 * names it, whoever deletes. The version of a subject grows by one with each change of its entries.
 */
export const FILE_TABLES: string = `
CREATE TABLE IF NOT EXISTS svc.contents (
  hash bytea NOT NULL,
  piece integer NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (hash, piece)
);
-- Most files are compressed already, or small.
ALTER TABLE svc.contents ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS svc.entries (
  bucket integer NOT NULL,
  subject text NOT NULL,
  path text NOT NULL,
  kind text NOT NULL,
  mode integer NOT NULL,
  size bigint NOT NULL,
  modified bigint NOT NULL,
  hash bytea,
  piece integer NOT NULL DEFAULT 0 CHECK (piece = 0),
  target text,
  PRIMARY KEY (bucket, subject, path),
  FOREIGN KEY (hash, piece) REFERENCES svc.contents (hash, piece)
);
CREATE TABLE IF NOT EXISTS svc.subjects (
  bucket integer NOT NULL,
  subject text NOT NULL,
  version bigint NOT NULL,
  PRIMARY KEY (bucket, subject)
);
CREATE INDEX IF NOT EXISTS entries_of_content ON svc.entries (hash);`;

/** Errors of transactions that met another one: the row that was named is gone, or both waited for each other. */
const MET = new Set(['23503', '40P01']);

/** Pieces of contents: `bytes` has one after the other. */
export type Pieces = { hashes: string[]; numbers: number[]; sizes: number[]; bytes: Buffer[] };
/** The entries of a subject, and the version of that state; 0 for one that was never stored. */
export type Stored = { version: number; entries: Entries };
/** What leads from the entries that the database has to the new ones. */
export type Difference = { gone: string[]; put: Entry[] };
/** `late`: the entries are of another version. */
export type Outcome = 'stored' | 'fenced' | 'late';

/** Whether the same may succeed when it is done again. */
export function hasMet(error: unknown): boolean {
  return MET.has(stateOf(error) ?? '');
}

export async function readEntries(session: Session, subject: Subject): Promise<Stored> {
  type Row = { [key in keyof Entry]: Entry[key] | null } & { version: string };
  const rows = await session.rows<Row>(
    `SELECT version, path, kind, mode, size, modified, encode(hash, 'hex') AS hash, target
     FROM svc.subjects LEFT JOIN svc.entries USING (bucket, subject)
     WHERE bucket = $1 AND subject = $2 ORDER BY path COLLATE "C"`,
    [bucketOfSubject(subject), nameOf(subject)],
  );
  const entries = new Map<string, Entry>();
  for (const { version: _, ...row } of rows) {
    // A subject without entries has one row.
    if (row.path === null) continue;
    entries.set(row.path, { ...(row as Entry), size: Number(row.size), modified: Number(row.modified) });
  }
  return { version: Number(rows[0]?.version ?? 0), entries };
}

/** The subjects of these buckets that were stored. */
export async function readSubjects(session: Session, buckets: readonly number[]): Promise<Subject[]> {
  const rows = await session.rows<{ subject: string }>(
    'SELECT subject FROM svc.subjects WHERE bucket = ANY ($1) ORDER BY bucket, subject',
    [buckets],
  );
  return rows.map(({ subject }) => subjectOf(subject));
}

/**
 * Changes the entries, which must be of this version, and stores the pieces first, all in one statement. Nothing is changed when the
 * bucket of the subject has another epoch; a change of the epoch waits for the end of the transaction.
 */
export async function putEntries(
  session: Session,
  subject: Subject,
  epoch: number,
  version: number,
  { gone, put }: Difference,
  pieces: Pieces,
): Promise<Outcome> {
  const rows = await session.rows<{ fence: number; turn: number }>(
    `WITH fence AS MATERIALIZED (
       SELECT 1 FROM svc.buckets WHERE bucket = $1 AND epoch = $2 FOR SHARE
     ), turn AS (
       INSERT INTO svc.subjects AS s (bucket, subject, version) SELECT $1, $3, $4::bigint + 1 FROM fence
       ON CONFLICT (bucket, subject) DO UPDATE SET version = excluded.version WHERE s.version = $4 RETURNING 1
     ), sent AS (
       INSERT INTO svc.contents (hash, piece, bytes) ${PIECES(5)} CROSS JOIN turn ON CONFLICT DO NOTHING
     ), gone AS (
       DELETE FROM svc.entries e USING turn WHERE e.bucket = $1 AND e.subject = $3 AND e.path = ANY ($10::text[])
     ), put AS (
       INSERT INTO svc.entries (bucket, subject, path, kind, mode, size, modified, hash, target)
       SELECT $1, $3, p.path, p.kind, p.mode, p.size, p.modified, decode(p.hash, 'hex'), p.target
       FROM unnest($11::text[], $12::text[], $13::integer[], $14::bigint[], $15::bigint[], $16::text[], $17::text[])
         AS p (path, kind, mode, size, modified, hash, target) CROSS JOIN turn
       ON CONFLICT (bucket, subject, path) DO UPDATE SET kind = excluded.kind, mode = excluded.mode, size = excluded.size,
         modified = excluded.modified, hash = excluded.hash, target = excluded.target
     )
     SELECT (SELECT count(*) FROM fence)::integer AS fence, (SELECT count(*) FROM turn)::integer AS turn`,
    [
      bucketOfSubject(subject),
      epoch,
      nameOf(subject),
      version,
      ...valuesOf(pieces),
      gone,
      put.map(({ path }) => path),
      put.map(({ kind }) => kind),
      put.map(({ mode }) => mode),
      put.map(({ size }) => size),
      put.map(({ modified }) => modified),
      put.map(({ hash }) => hash),
      put.map(({ target }) => target),
    ],
  );
  const [{ fence, turn } = { fence: 0, turn: 0 }] = rows;
  return fence === 0 ? 'fenced' : turn === 0 ? 'late' : 'stored';
}

export async function putPieces(session: Session, pieces: Pieces): Promise<void> {
  await session.rows(
    `INSERT INTO svc.contents (hash, piece, bytes) ${PIECES(1)} ON CONFLICT DO NOTHING`,
    valuesOf(pieces),
  );
}

/** Which of the contents the database has now. */
export async function presentContents(session: Session, hashes: string[]): Promise<Set<string>> {
  const rows = await session.rows<{ hash: string }>(
    `SELECT encode(hash, 'hex') AS hash FROM svc.contents
     WHERE hash = ANY (SELECT decode(h, 'hex') FROM unnest($1::text[]) AS h) AND piece = 0`,
    [hashes],
  );
  return new Set(rows.map(({ hash }) => hash));
}

/** The same; none of those goes before the transaction ends. */
export async function keepContents(session: Session, hashes: string[]): Promise<Set<string>> {
  const rows = await session.rows<{ hash: string }>(
    `SELECT encode(c.hash, 'hex') AS hash FROM svc.contents c JOIN unnest($1::text[]) AS h (hash) ON c.hash = decode(h.hash, 'hex')
     WHERE c.piece = 0 ORDER BY c.hash FOR KEY SHARE OF c`,
    [hashes],
  );
  return new Set(rows.map(({ hash }) => hash));
}

/** Whole contents by hash, of those that are there. */
export async function readContents(session: Session, hashes: string[]): Promise<Map<string, Buffer>> {
  const rows = await session.rows<{ hash: string; bytes: Buffer }>(
    `SELECT encode(hash, 'hex') AS hash, bytes FROM svc.contents
     WHERE hash = ANY (SELECT decode(h, 'hex') FROM unnest($1::text[]) AS h) ORDER BY hash, piece`,
    [hashes],
  );
  const pieces = new Map<string, Buffer[]>();
  for (const { hash, bytes } of rows) pieces.set(hash, [...(pieces.get(hash) ?? []), bytes]);
  return new Map([...pieces].map(([hash, list]) => [hash, Buffer.concat(list)]));
}

/** Null when it is not there. `object` is the key of what is all of the content, which has no bytes here then. */
export async function readPiece(
  session: Session,
  hash: string,
  piece: number,
): Promise<{ bytes: Buffer; object: string | null } | null> {
  const rows = await session.rows<{ bytes: Buffer; object: string | null }>(
    `SELECT bytes, object FROM svc.contents WHERE hash = decode($1, 'hex') AND piece = $2`,
    [hash, piece],
  );
  return rows[0] ?? null;
}

/**
 * Looks at the next `limit` contents after the hash, in hex, and deletes those that no entry names; `next` is for the following step,
 * null at the end. Leaves out what a transaction under way has or needs. Null, and nothing is deleted, when a content was named just
 * then: the same step is to be done again.
 */
export async function sweepContents(
  session: Session,
  after: string | null,
  limit: number,
): Promise<{ removed: number; next: string | null } | null> {
  const answer = session.rows<{ removed: number; looked: number; last: string | null }>(
    `WITH looked AS MATERIALIZED (
       SELECT hash FROM svc.contents WHERE piece = 0 AND hash > decode($1, 'hex') ORDER BY hash LIMIT $2
     ), unused AS MATERIALIZED (
       SELECT c.hash FROM svc.contents c JOIN looked USING (hash)
       WHERE c.piece = 0 AND NOT EXISTS (SELECT FROM svc.entries e WHERE e.hash = c.hash) FOR UPDATE OF c SKIP LOCKED
     ), removed AS (
       DELETE FROM svc.contents WHERE hash IN (SELECT hash FROM unused) RETURNING piece, object
     ), unnamed AS (
       INSERT INTO svc.unnamed_objects (key) SELECT object FROM removed WHERE object IS NOT NULL
     )
     SELECT (SELECT count(*) FROM removed WHERE piece = 0)::integer AS removed,
       (SELECT count(*) FROM looked)::integer AS looked,
       (SELECT encode(hash, 'hex') FROM looked ORDER BY hash DESC LIMIT 1) AS last`,
    [after ?? '', limit],
  );
  const found = await answer.catch((error: unknown) => {
    if (hasMet(error)) return null;
    throw error;
  });
  if (found === null) return null;
  const { removed = 0, looked = 0, last = null } = found[0] ?? {};
  return { removed, next: looked < limit ? null : last };
}

/** How the database's entries become the new ones. */
export function differenceOf(
  before: Entries,
  now: Entries,
  isEqual: (one: Entry, other: Entry) => boolean,
): Difference {
  const gone = [...before.keys()].filter((path) => !now.has(path));
  const put = [...now.values()].filter((entry) => {
    const old = before.get(entry.path);
    return old === undefined || !isEqual(old, entry);
  });
  return { gone, put };
}

/** Rows of pieces, from five parameters: bytes, then by piece its hash, number, first byte (from 1) and size. */
export const PIECES = (first: number): string => {
  const at = (n: number, type: string): string => `$${first + n}::${type}`;
  return `SELECT decode(c.hash, 'hex'), c.piece, substring(${at(0, 'bytea')} FROM c.start FOR c.size)
    FROM unnest(${at(1, 'text[]')}, ${at(2, 'integer[]')}, ${at(3, 'integer[]')}, ${at(4, 'integer[]')}) AS c (hash, piece, start, size)`;
};

/** Those parameters. */
export function valuesOf({ hashes, numbers, sizes, bytes }: Pieces): unknown[] {
  let start = 1;
  const starts = sizes.map((size) => {
    start += size;
    return start - size;
  });
  return [Buffer.concat(bytes), hashes, numbers, starts, sizes];
}
