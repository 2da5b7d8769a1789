/**
 * Encodes pages of a database, as the log of pages stores them: a header of 24 bytes (magic, CRC-32 of the rest, coding, bytes of a
 * page, size of the database in pages, number of pages), then each page with its number and without its longest run of zeros.
 */
import { promisify } from 'node:util';
import { crc32, deflateRaw, inflateRawSync } from 'node:zlib';
import { SvcError } from '../../protocol/errors.ts';

/** Pages of a database by number, from 1 on: the last version of each; `size` is that of the database then, in pages. */
export type PageSet = { pageBytes: number; size: number; pages: Map<number, Uint8Array> };

const MAGIC = 0x53565031;
const CHECKSUM = 4;
const CODING = 8;
const PAGE_BYTES = 12;
const SIZE = 16;
const COUNT = 20;
const HEADER_BYTES = 24;
/** Before a page: its number, and where its run of zeros begins and ends. */
const PAGE_HEADER_BYTES = 12;

const PLAIN = 0;
const DEFLATED = 1;

/** Pages of one set, in bytes; `split` makes sets of at most this. */
export const SET_BYTES = 4 * 1024 * 1024;
const SMALLEST_PAGE = 512;
const LARGEST_PAGE = 65_536;
/** SQLite's own limit. */
const LARGEST_SIZE = 0xffff_fffe;

/** Takes about 3 µs a page; a row of text added to a table takes half a page or less. */
export function encodePages(set: PageSet): Buffer {
  const body = encodeBody(set);
  return sealed(set, PLAIN, body);
}

/** The same, deflated: takes 25 times as long, in another thread, and a third of the bytes. For what is kept. */
export async function encodeDeflated(set: PageSet): Promise<Buffer> {
  const body = await promisify(deflateRaw)(encodeBody(set), { level: 1 });
  return sealed(set, DEFLATED, body);
}

/** The checksum of an encoded set: with its seq and its epoch it names an entry of the log. */
export function checksumOf(encoded: Buffer): number {
  return encoded.readUInt32BE(CHECKSUM);
}

/** Throws `STORE_DAMAGED` for bytes that are not what `encodePages` or `encodeDeflated` made. */
export function decodePages(bytes: Buffer): PageSet {
  if (bytes.length < HEADER_BYTES || bytes.readUInt32BE(0) !== MAGIC) throw damaged('it has another format');
  if (crc32(bytes.subarray(CODING)) !== checksumOf(bytes)) throw damaged('its checksum does not match');
  const coding = bytes.readUInt32BE(CODING);
  const pageBytes = bytes.readUInt32BE(PAGE_BYTES);
  const size = bytes.readUInt32BE(SIZE);
  const count = bytes.readUInt32BE(COUNT);
  const isPageSize = pageBytes >= SMALLEST_PAGE && pageBytes <= LARGEST_PAGE && (pageBytes & (pageBytes - 1)) === 0;
  if (!isPageSize || size > LARGEST_SIZE || count > size || count * pageBytes > SET_BYTES)
    throw damaged('its sizes are over the limits');
  const body = bytesOf(coding, bytes.subarray(HEADER_BYTES), count * (PAGE_HEADER_BYTES + pageBytes));
  const pages = new Map<number, Uint8Array>();
  let at = 0;
  let last = 0;
  for (let n = 0; n < count; n++) {
    if (body.length - at < PAGE_HEADER_BYTES) throw damaged('it ends early');
    const number = body.readUInt32BE(at);
    const from = body.readUInt32BE(at + 4);
    const to = body.readUInt32BE(at + 8);
    at += PAGE_HEADER_BYTES;
    if (number <= last || number > size || from > to || to > pageBytes) throw damaged('a page has a wrong place');
    const rest = at + from;
    const end = rest + pageBytes - to;
    if (end > body.length) throw damaged('it ends early');
    const page = new Uint8Array(pageBytes);
    page.set(body.subarray(at, rest));
    page.set(body.subarray(rest, end), to);
    pages.set(number, page);
    last = number;
    at = end;
  }
  if (at !== body.length) throw damaged('it is too long');
  return { pageBytes, size, pages };
}

/** Adds later pages: `into` is then what both say together. */
export function addPages(into: PageSet, later: PageSet): void {
  into.pageBytes = later.pageBytes;
  into.size = later.size;
  for (const [number, page] of later.pages) into.pages.set(number, page);
  dropBeyond(into);
}

/** Drops pages that the database has no more. */
export function dropBeyond({ pages, size }: PageSet): void {
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

function encodeBody({ pageBytes, pages }: PageSet): Buffer {
  const body = Buffer.allocUnsafe(pages.size * (PAGE_HEADER_BYTES + pageBytes));
  let at = 0;
  for (const [number, page] of [...pages].sort(([one], [other]) => one - other)) {
    const [from, to] = longestZeros(page);
    body.writeUInt32BE(number, at);
    body.writeUInt32BE(from, at + 4);
    body.writeUInt32BE(to, at + 8);
    at += PAGE_HEADER_BYTES;
    body.set(page.subarray(0, from), at);
    at += from;
    body.set(page.subarray(to), at);
    at += page.length - to;
  }
  return body.subarray(0, at);
}

/** Where the longest run of zeros begins and ends, in steps of four bytes. */
function longestZeros(page: Uint8Array): [from: number, to: number] {
  const words = page.byteOffset % 4 === 0 ? page : Uint8Array.from(page);
  const numbers = new Int32Array(words.buffer, words.byteOffset, words.length / 4);
  let longest = 0;
  let end = 0;
  let run = 0;
  for (let at = 0; at < numbers.length; at++) {
    if (numbers[at] !== 0) run = 0;
    else if (++run > longest) {
      longest = run;
      end = at + 1;
    }
  }
  return [(end - longest) * 4, end * 4];
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
