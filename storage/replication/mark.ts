/**
 * Keeps, in a file beside a database, which entry of the log of pages the local copy is at: the database file with the write-ahead log
 * up to a place. What that log has after the place was committed here and may not be in the log of pages.
 */
import { closeSync, constants, ftruncateSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { LIMITS } from '../../protocol/limits.ts';
import type { Head } from './snapshot.ts';
import type { WalPlace } from './wal-pages.ts';

export type Mark = Head & { place: WalPlace };

/** Magic number and CRC-32 of the rest, then seq, epoch, checksum, salt, frames. */
const MAGIC = 0x53564d31;
const CHECKED = 8;
const SALT = 32;
const FRAMES = 40;
const BYTES = 44;

export function markFile(file: string): string {
  return `${file}-mark`;
}

/** Null where there is none, or it is damaged. */
export function readMark(file: string): Mark | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync(markFile(file));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  const isSound = bytes.length === BYTES && bytes.readUInt32BE(0) === MAGIC;
  if (!isSound || bytes.readUInt32BE(4) !== crc32(bytes.subarray(CHECKED))) return null;
  return {
    seq: Number(bytes.readBigUInt64BE(8)),
    epoch: Number(bytes.readBigUInt64BE(16)),
    checksum: Number(bytes.readBigUInt64BE(24)),
    place: { salt: Buffer.from(bytes.subarray(SALT, FRAMES)), frames: bytes.readUInt32BE(FRAMES) },
  };
}

export function removeMark(file: string): void {
  rmSync(markFile(file), { force: true });
}

/** Writes the mark in place. It is not flushed, because an older one is right too (`openCopy`). */
export class MarkWriter {
  readonly #handle: number;
  readonly #bytes = Buffer.alloc(BYTES);
  #latest: Mark | null = null;
  #timer: NodeJS.Timeout | null = null;

  /** `file` is that of the database. */
  constructor(file: string) {
    this.#handle = openSync(markFile(file), constants.O_WRONLY | constants.O_CREAT, 0o600);
  }

  /** The same within `LIMITS.logMarkMs`, or when it is closed: in one write what many groups say. */
  writeSoon(mark: Mark): void {
    this.#latest = mark;
    this.#timer ??= setTimeout(() => this.write(this.#latest as Mark), LIMITS.logMarkMs).unref();
  }

  write({ seq, epoch, checksum, place }: Mark): void {
    this.#forget();
    const bytes = this.#bytes;
    bytes.writeUInt32BE(MAGIC, 0);
    bytes.writeBigUInt64BE(BigInt(seq), 8);
    bytes.writeBigUInt64BE(BigInt(epoch), 16);
    bytes.writeBigUInt64BE(BigInt(checksum), 24);
    bytes.set(place.salt, SALT);
    bytes.writeUInt32BE(place.frames, FRAMES);
    bytes.writeUInt32BE(crc32(bytes.subarray(CHECKED)), 4);
    writeSync(this.#handle, bytes, 0, BYTES, 0);
  }

  /** From here on there is none, until the next one is written. */
  clear(): void {
    this.#forget();
    ftruncateSync(this.#handle, 0);
  }

  close(): void {
    if (this.#latest !== null) this.write(this.#latest);
    closeSync(this.#handle);
  }

  #forget(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#latest = null;
  }
}
