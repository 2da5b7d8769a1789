/**
 * Encodes pages of a database, as the log of pages stores them: a header of 24 bytes (magic, CRC-32 of the rest, coding, bytes of a
 * page, size of the database in pages, number of pages), then each page with its number, what it is compared with, and the ranges in
 * which it differs from that: from a page of zeros, or from the version that the log has already.
 */
import { promisify } from 'node:util';
import { crc32, deflateRaw, inflateRawSync } from 'node:zlib';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

/** Bytes of a page from an offset on. */
export type Range = { at: number; bytes: Uint8Array };

/** All of its bytes, or in the order of time what changed of the version before. Where that is done twice it does no harm. */
export type Page = Uint8Array | Range[];

/** Pages of a database by number, from 1 on: the last version of each; `size` is that of the database then, in pages. */
export type PageSet<P extends Page = Uint8Array> = { pageBytes: number; size: number; pages: Map<number, P> };

const MAGIC = 0x53565031;
const CHECKSUM = 4;
const CODING = 8;
const PAGE_BYTES = 12;
const SIZE = 16;
const COUNT = 20;
const HEADER_BYTES = 24;
/** Before a page: its number, and how many ranges it has, with a bit of its own for those that change an earlier version. */
const PAGE_HEADER_BYTES = 8;
const CHANGES = 0x8000_0000;
/** Before a range: where it begins, and how long it is less one. */
const RANGE_HEADER_BYTES = 4;
/** So many equal bytes between two ranges are less than the header of another one. */
const GAP_WORDS = 2;

const PLAIN = 0;
const DEFLATED = 1;

/** Pages of one entry's set, in bytes; `split` makes sets of at most this. */
export const SET_BYTES = 4 * 1024 * 1024;
const SMALLEST_PAGE = 512;
const LARGEST_PAGE = 65_536;
/** SQLite's own limit. */
const LARGEST_SIZE = 0xffff_fffe;

/** `known` has versions of pages that the log has: of those only the changes are encoded. Takes about 2 µs a page. */
export function encodePages(set: PageSet, known: ReadonlyMap<number, Uint8Array> = new Map()): Buffer {
  const body = encodeBody(set, known);
  return sealed(set, PLAIN, body);
}

/** The same, deflated: takes 25 times as long, in another thread, and a third of the bytes. For what is kept. */
export async function encodeDeflated(set: PageSet): Promise<Buffer> {
  const body = await promisify(deflateRaw)(Buffer.from(encodeBody(set, new Map())), { level: 1 });
  return sealed(set, DEFLATED, body);
}

/** The checksum of an encoded set: with its seq and its epoch it names an entry of the log. */
export function checksumOf(encoded: Buffer): number {
  return encoded.readUInt32BE(CHECKSUM);
}

/** Throws `STORE_DAMAGED` for bytes that are not what `encodePages` or `encodeDeflated` made. */
export function decodePages(bytes: Buffer): PageSet<Page> {
  if (bytes.length < HEADER_BYTES || bytes.readUInt32BE(0) !== MAGIC) throw damaged('it has another format');
  if (crc32(bytes.subarray(CODING)) !== checksumOf(bytes)) throw damaged('its checksum does not match');
  const coding = bytes.readUInt32BE(CODING);
  const pageBytes = bytes.readUInt32BE(PAGE_BYTES);
  const size = bytes.readUInt32BE(SIZE);
  const count = bytes.readUInt32BE(COUNT);
  const isPageSize = pageBytes >= SMALLEST_PAGE && pageBytes <= LARGEST_PAGE && (pageBytes & (pageBytes - 1)) === 0;
  // A piece of a snapshot has so many pages, however long they are.
  const mostPages = Math.max(SET_BYTES / pageBytes, LIMITS.snapshotPages);
  if (!isPageSize || size > LARGEST_SIZE || count > size || count > mostPages)
    throw damaged('its sizes are over the limits');
  const most = count * (PAGE_HEADER_BYTES + RANGE_HEADER_BYTES + pageBytes);
  const body = bytesOf(coding, bytes.subarray(HEADER_BYTES), most);
  const pages = new Map<number, Page>();
  let at = 0;
  let last = 0;
  const has = (length: number): void => {
    if (body.length - at < length) throw damaged('it ends early');
  };
  for (let n = 0; n < count; n++) {
    has(PAGE_HEADER_BYTES);
    const number = body.readUInt32BE(at);
    const head = body.readUInt32BE(at + 4);
    at += PAGE_HEADER_BYTES;
    if (number <= last || number > size) throw damaged('a page has a wrong place');
    last = number;
    const ranges: Range[] = [];
    for (let left = head & ~CHANGES, end = 0; left > 0; left--) {
      has(RANGE_HEADER_BYTES);
      const from = body.readUInt16BE(at);
      const length = body.readUInt16BE(at + 2) + 1;
      at += RANGE_HEADER_BYTES;
      if (from < end || from + length > pageBytes) throw damaged('a range has a wrong place');
      has(length);
      ranges.push({ at: from, bytes: body.subarray(at, at + length) });
      at += length;
      end = from + length;
    }
    pages.set(number, (head & CHANGES) === 0 ? changed(new Uint8Array(pageBytes), ranges) : ranges);
  }
  if (at !== body.length) throw damaged('it is too long');
  return { pageBytes, size, pages };
}

/** Adds later pages: `into` is then what both say together. What is in it may be written to. */
export function addPages<P extends Page>(into: PageSet<P>, later: PageSet<P>): void {
  into.pageBytes = later.pageBytes;
  into.size = later.size;
  for (const [number, page] of later.pages) {
    const before = into.pages.get(number);
    into.pages.set(number, isWhole(page) || before === undefined ? page : changed(before, page));
  }
  dropBeyond(into);
}

/** The set, of which each page has all of its bytes. Throws `STORE_DAMAGED` else. */
export function wholeSet({ pageBytes, size, pages }: PageSet<Page>): PageSet {
  const whole = new Map<number, Uint8Array>();
  for (const [number, page] of pages) {
    if (!isWhole(page)) throw damaged(`page ${number} lacks the version that was changed`);
    whole.set(number, page);
  }
  return { pageBytes, size, pages: whole };
}

export function isWhole(page: Page): page is Uint8Array {
  return page instanceof Uint8Array;
}

function changed<P extends Page>(page: P, ranges: Range[]): P {
  if (isWhole(page)) for (const { at, bytes } of ranges) page.set(bytes, at);
  else for (const range of ranges) page.push(range);
  return page;
}

/** Drops pages that the database has no more. */
export function dropBeyond({ pages, size }: PageSet<Page>): void {
  for (const number of pages.keys()) if (number > size) pages.delete(number);
}

/** Sets of at most `SET_BYTES`, to be applied one after the other; one at least. */
export function split({ pageBytes, size, pages }: PageSet): PageSet[] {
  const most = Math.floor(SET_BYTES / pageBytes);
  const sorted = [...pages].sort(([one], [other]) => one - other);
  const sets: PageSet[] = [];
  do sets.push({ pageBytes, size, pages: new Map(sorted.splice(0, most)) });
  while (sorted.length > 0);
  return sets;
}

function encodeBody({ pageBytes, pages }: PageSet, known: ReadonlyMap<number, Uint8Array>): Buffer {
  // Each range but the first costs less than the bytes that it saves.
  const most = pages.size * (PAGE_HEADER_BYTES + RANGE_HEADER_BYTES + pageBytes);
  const body = most <= scratch.length ? scratch : Buffer.allocUnsafe(most);
  let at = 0;
  for (const [number, page] of [...pages].sort(([one], [other]) => one - other)) {
    const base = known.get(number);
    const isChange = base?.length === pageBytes;
    const head = at;
    at += PAGE_HEADER_BYTES;
    const ranges = differences(page, isChange ? base : ZEROS);
    for (let n = 0; n < ranges.length; n += 2) {
      const [from, to] = [ranges[n] as number, ranges[n + 1] as number];
      body.writeUInt16BE(from, at);
      body.writeUInt16BE(to - from - 1, at + 2);
      body.set(page.subarray(from, to), at + RANGE_HEADER_BYTES);
      at += RANGE_HEADER_BYTES + to - from;
    }
    body.writeUInt32BE(number, head);
    body.writeUInt32BE(ranges.length / 2 + (isChange ? CHANGES : 0), head + 4);
  }
  return body.subarray(0, at);
}

const ZEROS = new Uint8Array(LARGEST_PAGE);
/** For the body of a small set, until it is copied: most of what it could take is not needed. */
const scratch = Buffer.allocUnsafe(LARGEST_PAGE * 2);

/** Where two pages differ: beginnings and ends, one after the other. */
function differences(page: Uint8Array, base: Uint8Array): number[] {
  const one = wordsOf(page);
  const other = wordsOf(base);
  const ranges: number[] = [];
  let end = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < one.length; at++) {
    if (one[at] === other[at]) continue;
    if (at - end > GAP_WORDS) {
      if (ranges.length > 0) ranges.push(end * 4);
      ranges.push(at * 4);
    }
    end = at + 1;
  }
  if (ranges.length > 0) ranges.push(end * 4);
  return ranges;
}

function wordsOf(page: Uint8Array): Int32Array {
  const { buffer, byteOffset, length } = page.byteOffset % 4 === 0 ? page : Uint8Array.from(page);
  return new Int32Array(buffer, byteOffset, length / 4);
}

function sealed({ pageBytes, size, pages }: PageSet, coding: number, body: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + body.length);
  bytes.writeUInt32BE(MAGIC, 0);
  bytes.writeUInt32BE(coding, CODING);
  bytes.writeUInt32BE(pageBytes, PAGE_BYTES);
  bytes.writeUInt32BE(size, SIZE);
  bytes.writeUInt32BE(pages.size, COUNT);
  bytes.set(body, HEADER_BYTES);
  bytes.writeUInt32BE(crc32(bytes.subarray(CODING)), CHECKSUM);
  return bytes;
}

function bytesOf(coding: number, body: Buffer, most: number): Buffer {
  if (coding === PLAIN) return body;
  if (coding !== DEFLATED) throw damaged('it has another coding');
  try {
    return inflateRawSync(body, { maxOutputLength: Math.max(most, 1) });
  } catch (error) {
    throw damaged('it cannot be inflated', error);
  }
}

function damaged(why: string, cause?: unknown): SvcError {
  const message = `An entry of the log of pages is damaged: ${why}. Restore the database of the cluster from its backup.`;
  return new SvcError('STORE_DAMAGED', message, { cause });
}
