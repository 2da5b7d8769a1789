/** Stores a database that the log of pages has nothing of as its first snapshot (specification, "Begin of a cluster"). */
import { type FileHandle, open } from 'node:fs/promises';
import { bucketOf } from '../../protocol/buckets.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Session } from '../cluster/database.ts';
import { pageBytesOf } from '../wal-format.ts';
import { type Mark, MarkWriter } from './mark.ts';
import { checksumOf, encodeDeflated, type PageSet } from './page-set.ts';
import type { Head } from './snapshot.ts';
import { NO_LOG, readLog } from './wal-pages.ts';

/** Where a database says how long its pages are. */
const PAGE_BYTES_AT = 16;
const HEADER_BYTES = 100;
/** No bucket has had an owner. */
const EPOCH = 0;

/** A database with its pages by number, from 1 on; `size` counts them. */
type Pages = { pageBytes: number; size: number; read(number: number): Promise<Uint8Array> | Uint8Array };

/**
 * Stores what a file and its write-ahead log have, which nobody may change meanwhile. Resolves with the mark of that copy, null for a
 * database without a page. Rejects as the session does.
 */
export async function storeFile(session: Session, database: string, file: string): Promise<Mark | null> {
  const handle = await open(file);
  try {
    const changed = new Map<number, Uint8Array>();
    const log = readLog(file, ({ number, bytes }) => changed.set(number, bytes));
    const place = log === null ? NO_LOG : { salt: log.salt, frames: log.frames };
    const head = await readAt(handle, 0, HEADER_BYTES);
    const fileBytes = (await handle.stat()).size;
    const pageBytes = log?.pageBytes ?? pageBytesOf(head.readUInt16BE(PAGE_BYTES_AT));
    const size = place.frames > 0 ? (log?.size ?? 0) : fileBytes / pageBytes;
    if (size === 0) return null;
    const read = (number: number) => changed.get(number) ?? readAt(handle, (number - 1) * pageBytes, pageBytes);
    return { ...(await store(session, database, { pageBytes, size, read })), place };
  } finally {
    await handle.close();
  }
}

/** Stores a database of which these are all bytes. */
export async function storeBytes(session: Session, database: string, bytes: Buffer): Promise<void> {
  const pageBytes = pageBytesOf(bytes.readUInt16BE(PAGE_BYTES_AT));
  const read = (number: number) => bytes.subarray((number - 1) * pageBytes, number * pageBytes);
  await store(session, database, { pageBytes, size: bytes.length / pageBytes, read });
}

/** The copy is what the log has, so that nobody fetches it. Call it after the commit. */
export function markCopy(file: string, mark: Mark): void {
  const writer = new MarkWriter(file);
  writer.write(mark);
  writer.close();
}

async function store(session: Session, database: string, { pageBytes, size, read }: Pages): Promise<Head> {
  let head: Head | null = null;
  for (let first = 1; first <= size; first += LIMITS.snapshotPages) {
    const set: PageSet = { pageBytes, size, pages: new Map() };
    for (let number = first; number < first + LIMITS.snapshotPages && number <= size; number++)
      set.pages.set(number, await read(number));
    const encoded = await encodeDeflated(set);
    head ??= { seq: 1, epoch: EPOCH, checksum: checksumOf(encoded) };
    await session.rows(
      'INSERT INTO svc.snapshots (bucket, database, piece, seq, epoch, checksum, pages) VALUES ($1, $2, $3, $4, $5, $6, $7)',
      [bucketOf(database), database, (first - 1) / LIMITS.snapshotPages, head.seq, head.epoch, head.checksum, encoded],
    );
  }
  return head as Head;
}

/** Zeros where the file is shorter. */
async function readAt(handle: FileHandle, at: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  await handle.read(bytes, 0, length, at);
  return bytes;
}
