/**
 * Folds the log of a database into its snapshot, and reads both. A snapshot is the database in pieces of `LIMITS.snapshotPages` pages:
 * what the log has not touched since stays as it is.
 */
import { bucketOf } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Database, Session } from '../cluster/database.ts';
import { addPages, checksumOf, decodePages, encodeDeflated, type Page, type PageSet, wholeSet } from './page-set.ts';

/** An entry's seq, with what tells it from another one of that seq: after the database was removed and made again, say. */
export type Head = { seq: number; epoch: number; checksum: number };

/** Pages that one fold holds in memory. */
const FOLD_BYTES = 64 * 1024 * 1024;
/** What one answer has: so many pieces; entries of so many bytes and one more, and not more than so many. */
const PIECES = 4;
const LOG_BYTES = 4 * 1024 * 1024;
const LOG_ROWS = 512;

type LogRow = { seq: string; epoch: string; frames: Buffer };
type SnapshotRow = { piece: number; seq: string; epoch: string; checksum: string; pages: Buffer };

/** The entry up to which the snapshot goes; null where there is none. */
export async function snapshotHead(session: Session, database: string): Promise<Head | null> {
  const rows = await session.rows<SnapshotRow>(
    'SELECT seq, epoch, checksum FROM svc.snapshots WHERE bucket = $1 AND database = $2 AND piece = 0',
    [bucketOf(database), database],
  );
  const [row] = rows;
  return row === undefined ? null : { seq: Number(row.seq), epoch: Number(row.epoch), checksum: Number(row.checksum) };
}

/** The entry of this seq that is in the log; null where there is none. */
export async function entryAt(session: Session, database: string, seq: number): Promise<Head | null> {
  const rows = await session.rows<LogRow>(
    'SELECT seq, epoch, frames FROM svc.log WHERE bucket = $1 AND database = $2 AND seq = $3',
    [bucketOf(database), database, seq],
  );
  return rows[0] === undefined ? null : headOf(rows[0]);
}

/** All pages of the snapshot. */
export async function* snapshotPages(session: Session, database: string): AsyncGenerator<PageSet<Page>> {
  for (let piece = -1; ; ) {
    const rows = await session.rows<SnapshotRow>(
      `SELECT piece, pages FROM svc.snapshots WHERE bucket = $1 AND database = $2 AND piece > $3 ORDER BY piece LIMIT ${PIECES}`,
      [bucketOf(database), database, piece],
    );
    for (const { pages } of rows) yield decodePages(pages);
    if (rows.length < PIECES) return;
    piece = (rows.at(-1) as SnapshotRow).piece;
  }
}

/** The entries of the log after a seq, in order. */
export async function* logAfter(
  session: Session,
  database: string,
  after: number,
): AsyncGenerator<{ head: Head; bytes: number; set: PageSet<Page> }> {
  for (let seq = after; ; ) {
    const rows = await session.rows<LogRow>(
      `SELECT seq, epoch, frames FROM (
         SELECT seq, epoch, frames, sum(length(frames)) OVER (ORDER BY seq) - length(frames) AS before
         FROM svc.log WHERE bucket = $1 AND database = $2 AND seq > $3 ORDER BY seq LIMIT ${LOG_ROWS}
       ) AS next WHERE before < ${LOG_BYTES} ORDER BY seq`,
      [bucketOf(database), database, seq],
    );
    if (rows.length === 0) return;
    for (const row of rows) yield { head: headOf(row), bytes: row.frames.length, set: decodePages(row.frames) };
    seq = Number((rows.at(-1) as LogRow).seq);
  }
}

function headOf({ seq, epoch, frames }: LogRow): Head {
  return { seq: Number(seq), epoch: Number(epoch), checksum: checksumOf(frames) };
}

/**
 * Moves entries of the log into the snapshot, in one transaction, which fails when the bucket gets another owner or epoch than this
 * meanwhile. It takes the oldest ones, as many as it can hold in memory. Answers what is gone from the log.
 */
export function fold(
  database: Database,
  name: string,
  { node, epoch }: { node: string; epoch: number },
): Promise<{ bytes: number; entries: number }> {
  return database.transaction(async (session) => {
    const taken = await foldIn(session, name);
    // In this isolation it fails when the row was changed since the first statement.
    const owned = await session.rows(
      'SELECT 1 FROM svc.buckets WHERE bucket = $1 AND owner = $2 AND epoch = $3 FOR SHARE',
      [bucketOf(name), node, epoch],
    );
    if (owned.length === 0) throw new Error(`The bucket of ${name} has another owner or epoch.`);
    return taken;
  }, 'ISOLATION LEVEL REPEATABLE READ');
}

async function foldIn(session: Session, database: string): Promise<{ bytes: number; entries: number }> {
  const bucket = bucketOf(database);
  const before = await snapshotHead(session, database);
  const taken = { bytes: 0, entries: 0 };
  const merged: PageSet<Page> = { pageBytes: 0, size: 0, pages: new Map() };
  let head: Head | null = null;
  for await (const entry of logAfter(session, database, before?.seq ?? 0)) {
    addPages(merged, entry.set);
    head = entry.head;
    taken.bytes += entry.bytes;
    taken.entries++;
    if (merged.pages.size * merged.pageBytes >= FOLD_BYTES) break;
  }
  if (head === null) return taken;
  for (const [piece, pages] of inPieces(merged)) await storePiece(session, database, piece, pages, head);
  await session.rows('DELETE FROM svc.snapshots WHERE bucket = $1 AND database = $2 AND piece > $3', [
    bucket,
    database,
    pieceOf(merged.size),
  ]);
  await session.rows('DELETE FROM svc.log WHERE bucket = $1 AND database = $2 AND seq <= $3', [
    bucket,
    database,
    head.seq,
  ]);
  return taken;
}

function pieceOf(page: number): number {
  return Math.floor((page - 1) / LIMITS.snapshotPages);
}

/** The pages of each piece; piece 0 is always there. */
function inPieces({ pageBytes, size, pages }: PageSet<Page>): Map<number, PageSet<Page>> {
  const pieces = new Map<number, PageSet<Page>>([[0, { pageBytes, size, pages: new Map() }]]);
  for (const [number, page] of pages) {
    const piece = pieceOf(number);
    let set = pieces.get(piece);
    if (set === undefined) {
      set = { pageBytes, size, pages: new Map() };
      pieces.set(piece, set);
    }
    set.pages.set(number, page);
  }
  return pieces;
}

async function storePiece(
  session: Session,
  database: string,
  piece: number,
  changed: PageSet<Page>,
  { seq, epoch, checksum }: Head,
): Promise<void> {
  const bucket = bucketOf(database);
  const rows = await session.rows<SnapshotRow>(
    'SELECT pages FROM svc.snapshots WHERE bucket = $1 AND database = $2 AND piece = $3',
    [bucket, database, piece],
  );
  const piecePages: PageSet<Page> =
    rows[0] === undefined ? { ...changed, pages: new Map() } : decodePages(rows[0].pages);
  addPages(piecePages, changed);
  await session.rows(
    `INSERT INTO svc.snapshots (bucket, database, piece, seq, epoch, checksum, pages) VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (bucket, database, piece) DO UPDATE SET seq = $4, epoch = $5, checksum = $6, pages = $7`,
    [bucket, database, piece, seq, epoch, checksum, await encodeDeflated(wholeSet(piecePages))],
  );
}
