/** Describes the files of a write-ahead log of SQLite: where fields lie, and its checksum (sqlite.org/walformat.html). */
import { endianness } from 'node:os';

export const LITTLE_ENDIAN = endianness() === 'LE';

export const SALT_BYTES = 8;
/** The log begins with a header; its numbers are big-endian. */
export const LOG_HEADER_BYTES = 32;
export const LOG_PAGE_SIZE = 8;
export const LOG_SALT = 16;
export const LOG_CHECKSUM = 24;
/** Each frame is a header and a page: its number, the size of the database in pages in the last frame of a commit, salt, checksum. */
export const FRAME_HEADER_BYTES = 24;
export const FRAME_SIZE = 4;
/** Of a frame's header, before its salt and its checksum. */
export const FRAME_CHECKED_BYTES = 8;
export const FRAME_SALT = 8;
export const FRAME_CHECKSUM = 16;

/** The bytes of a page, of a field with two bytes. */
export function pageBytesOf(field: number): number {
  return field === 1 ? 65_536 : field;
}

/** SQLite's checksum of what was added so far, read as numbers of four bytes in one byte order. */
export class Checksum {
  readonly #isBigEndian: boolean;
  #one = 0;
  #two = 0;

  constructor(isBigEndian: boolean) {
    this.#isBigEndian = isBigEndian;
  }

  add(bytes: Buffer): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    let one = this.#one;
    let two = this.#two;
    for (let at = 0; at < bytes.length; at += 8) {
      one = (one + view.getUint32(at, !this.#isBigEndian) + two) >>> 0;
      two = (two + view.getUint32(at + 4, !this.#isBigEndian) + one) >>> 0;
    }
    this.#one = one;
    this.#two = two;
  }

  is(one: number, two: number): boolean {
    return this.#one === one && this.#two === two;
  }

  /** Whether a file's eight bytes are this sum. */
  isAt(bytes: Buffer, at: number): boolean {
    return this.is(bytes.readUInt32BE(at), bytes.readUInt32BE(at + 4));
  }
}
