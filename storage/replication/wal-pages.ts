/** Reads the pages that commits of a database changed, from its write-ahead log. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import {
  Checksum,
  FRAME_CHECKED_BYTES,
  FRAME_CHECKSUM,
  FRAME_HEADER_BYTES,
  FRAME_SALT,
  FRAME_SIZE,
  LOG_CHECKSUM,
  LOG_HEADER_BYTES,
  LOG_PAGE_SIZE,
  LOG_SALT,
  SALT_BYTES,
} from '../wal-format.ts';
import { logState } from '../wal-index.ts';
import { takePage } from './page-memory.ts';
import { dropBeyond, type PageSet } from './page-set.ts';

/** A place in the log of a database: after so many frames of the log that has this salt. */
export type WalPlace = { salt: Buffer; frames: number };

export const NO_LOG: WalPlace = { salt: Buffer.alloc(SALT_BYTES), frames: 0 };

/** Reads what each commit added, in the process that commits. */
export class WalPages {
  readonly #file: string;
  #handle = -1;
  #place = NO_LOG;

  /** `file` is that of the database. */
  constructor(file: string) {
    this.#file = `${file}-wal`;
  }

  /** The end of what was read. */
  get place(): WalPlace {
    return this.#place;
  }

  /** Says that what is committed now, in this state of the log's index, is known already. The log may be another file than before. */
  skip(state: Uint8Array): void {
    this.close();
    const { salt, frames } = logState(state);
    this.#place = { salt, frames };
  }

  /**
   * The pages of the commits since, up to this state of the log's index. A log that began again is read from its start: all that it had
   * before was in the database file then, and was read here. Throws when the log is not as its index says.
   */
  read(state: Uint8Array): PageSet {
    const { salt, frames, pages: size, pageBytes } = logState(state);
    const from = salt.equals(this.#place.salt) ? this.#place.frames : 0;
    const pages = new Map<number, Uint8Array>();
    const frameBytes = FRAME_HEADER_BYTES + pageBytes;
    const most = Math.floor(scratch.length / frameBytes);
    for (let at = from; at < frames; at += most) {
      const bytes = this.#bytesOf(at, Math.min(frames, at + most), frameBytes);
      for (let n = 0; n < bytes.length; n += frameBytes) {
        if (!isEqual(bytes, n + FRAME_SALT, salt))
          throw new Error(`The write-ahead log of ${this.#file} is not as its index says.`);
        const number = bytes.readUInt32BE(n);
        const page = pages.get(number) ?? takePage(pageBytes);
        page.set(bytes.subarray(n + FRAME_HEADER_BYTES, n + frameBytes));
        pages.set(number, page);
      }
    }
    this.#place = { salt, frames };
    const set = { pageBytes, size, pages };
    dropBeyond(set);
    return set;
  }

  /**
   * The file keeps its handle: SQLite cuts it and begins it again, and makes another one, with another salt, only after all had closed
   * it. So one that goes on is the same file.
   */
  #bytesOf(from: number, to: number, frameBytes: number): Buffer {
    const bytes = scratch.subarray(0, (to - from) * frameBytes);
    if (from === 0 && this.#handle >= 0 && fstatSync(this.#handle).nlink === 0) this.close();
    if (this.#handle < 0) this.#handle = openSync(this.#file, 'r');
    const at = LOG_HEADER_BYTES + from * frameBytes;
    if (readSync(this.#handle, bytes, 0, bytes.length, at) < bytes.length)
      throw new Error(`The write-ahead log of ${this.#file} is shorter than its index says.`);
    return bytes;
  }

  close(): void {
    if (this.#handle >= 0) closeSync(this.#handle);
    this.#handle = -1;
  }
}

/** For frames, until their pages are copied. */
const scratch = Buffer.allocUnsafeSlow(256 * 1024);

function isEqual(bytes: Buffer, at: number, other: Buffer): boolean {
  return bytes.compare(other, 0, other.length, at, at + other.length) === 0;
}

/**
 * Reads the log that a process left behind, checking each frame as SQLite would. `found` gets the pages of whole commits, in order, and
 * the place after each frame that ends one. Answers the place after the last commit; null where there is no log, or an empty one.
 */
export function readLog(
  file: string,
  found: (page: { number: number; bytes: Buffer }) => void = () => {},
  most = Number.POSITIVE_INFINITY,
): (WalPlace & { pageBytes: number; size: number }) | null {
  const handle = openIfThere(`${file}-wal`);
  if (handle === null) return null;
  try {
    const head = Buffer.alloc(LOG_HEADER_BYTES);
    if (readSync(handle, head, 0, LOG_HEADER_BYTES, 0) < LOG_HEADER_BYTES) return null;
    // The magic number says in which byte order the checksums are.
    const sum = new Checksum((head.readUInt32BE(0) & 1) === 1);
    sum.add(head.subarray(0, LOG_CHECKSUM));
    if (!sum.isAt(head, LOG_CHECKSUM)) return null;
    const salt = Buffer.from(head.subarray(LOG_SALT, LOG_SALT + SALT_BYTES));
    const pageBytes = head.readUInt32BE(LOG_PAGE_SIZE);
    let ended = { frames: 0, size: 0 };
    let pending: { number: number; bytes: Buffer }[] = [];
    for (let frames = 1; frames <= most; frames++) {
      const frame = Buffer.allocUnsafeSlow(FRAME_HEADER_BYTES + pageBytes);
      const at = LOG_HEADER_BYTES + (frames - 1) * frame.length;
      if (readSync(handle, frame, 0, frame.length, at) < frame.length) break;
      sum.add(frame.subarray(0, FRAME_CHECKED_BYTES));
      const bytes = frame.subarray(FRAME_HEADER_BYTES);
      sum.add(bytes);
      if (!frame.subarray(FRAME_SALT, FRAME_CHECKSUM).equals(salt) || !sum.isAt(frame, FRAME_CHECKSUM)) break;
      pending.push({ number: frame.readUInt32BE(0), bytes });
      const size = frame.readUInt32BE(FRAME_SIZE);
      if (size === 0) continue;
      for (const page of pending) found(page);
      pending = [];
      ended = { frames, size };
    }
    return { salt, pageBytes, ...ended };
  } finally {
    closeSync(handle);
  }
}

function openIfThere(path: string): number | null {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
