/**
 * Tells whether the write-ahead log of a database lost commits since its processes died: SQLite takes the frames up to the first damaged
 * one for the whole log, without a word. The index of the log, which a killed process leaves behind, says how many there were
 * (sqlite.org/walformat.html). To be asked before anyone opens the database: the first one makes the index anew.
 */
import { type FileHandle, open, stat } from 'node:fs/promises';
import { uptime } from 'node:os';
import { isMissing } from './files/atomic-file.ts';
import {
  Checksum,
  FRAME_CHECKED_BYTES,
  FRAME_CHECKSUM,
  FRAME_HEADER_BYTES,
  FRAME_SALT,
  LITTLE_ENDIAN,
  LOG_CHECKSUM,
  LOG_HEADER_BYTES,
  LOG_SALT,
  pageBytesOf,
} from './wal-format.ts';

/** The index begins with two copies of its header; after them is how many frames are in the database file. */
const HEADER_BYTES = 48;
const BACKFILLED = 96;
const INDEX_BYTES = 100;
/** The only version of the format. */
const VERSION = 3_007_000;
/** Places in the header. */
const IS_INIT = 12;
const IS_BIG_ENDIAN = 13;
const PAGE_SIZE = 14;
const LAST_FRAME = 16;
const SALT = 32;
const CHECKED_BYTES = 40;

type Index = { frames: number; pageBytes: number; salt: Buffer; isBigEndian: boolean };

/**
 * How many frames of commits the log does not have any more; 0 where it has all, or where that cannot be told: after a power cut the
 * index may be older than the log.
 */
export async function lostFrames(file: string): Promise<number> {
  const index = await readIndex(`${file}-shm`);
  if (index === null) return 0;
  const log = await openIfThere(`${file}-wal`);
  if (log === null) return index.frames;
  try {
    return await countLost(log, index);
  } finally {
    await log.close();
  }
}

/** Null for an index of an earlier boot, of an empty log, or of one whose frames are all in the database file. */
async function readIndex(path: string): Promise<Index | null> {
  const found = await stat(path).catch(() => null);
  if (found === null || found.ctimeMs < Date.now() - uptime() * 1000) return null;
  const file = await openIfThere(path);
  if (file === null) return null;
  const bytes = Buffer.alloc(INDEX_BYTES);
  try {
    if ((await file.read(bytes, 0, INDEX_BYTES, 0)).bytesRead < INDEX_BYTES) return null;
  } finally {
    await file.close();
  }
  const header = bytes.subarray(0, HEADER_BYTES);
  if (!header.equals(bytes.subarray(HEADER_BYTES, 2 * HEADER_BYTES))) return null;
  const sum = new Checksum(!LITTLE_ENDIAN);
  sum.add(header.subarray(0, CHECKED_BYTES));
  const isSound = sum.is(numberAt(header, CHECKED_BYTES), numberAt(header, CHECKED_BYTES + 4));
  if (!isSound || numberAt(header, 0) !== VERSION || header[IS_INIT] !== 1) return null;
  const frames = numberAt(header, LAST_FRAME);
  if (frames <= numberAt(bytes, BACKFILLED)) return null;
  const size = LITTLE_ENDIAN ? header.readUInt16LE(PAGE_SIZE) : header.readUInt16BE(PAGE_SIZE);
  const salt = header.subarray(SALT, SALT + 8);
  return { frames, pageBytes: pageBytesOf(size), salt, isBigEndian: header[IS_BIG_ENDIAN] === 1 };
}

async function countLost(log: FileHandle, { frames, pageBytes, salt, isBigEndian }: Index): Promise<number> {
  const head = Buffer.alloc(LOG_HEADER_BYTES);
  const { bytesRead } = await log.read(head, 0, LOG_HEADER_BYTES, 0);
  if (bytesRead < LOG_HEADER_BYTES) return frames;
  // Each start of the log counts up the first half of its salt: a later one has what came after this index.
  const age = head.readUInt32BE(LOG_SALT) - salt.readUInt32BE(0);
  if (age !== 0) return age > 0 ? 0 : frames;
  const sum = new Checksum(isBigEndian);
  sum.add(head.subarray(0, LOG_CHECKSUM));
  if (!sum.isAt(head, LOG_CHECKSUM)) return frames;
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + pageBytes);
  for (let whole = 0; whole < frames; whole++) {
    const at = LOG_HEADER_BYTES + whole * frame.length;
    if ((await log.read(frame, 0, frame.length, at)).bytesRead < frame.length) return frames - whole;
    sum.add(frame.subarray(0, FRAME_CHECKED_BYTES));
    sum.add(frame.subarray(FRAME_HEADER_BYTES));
    const isOfLog = frame.subarray(FRAME_SALT, FRAME_CHECKSUM).equals(salt);
    if (!isOfLog || !sum.isAt(frame, FRAME_CHECKSUM)) return frames - whole;
  }
  return 0;
}

function numberAt(bytes: Buffer, at: number): number {
  return LITTLE_ENDIAN ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
}

async function openIfThere(path: string): Promise<FileHandle | null> {
  try {
    return await open(path);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
