/**
 * Encodes packs of version 2 from whole objects (without deltas), reads them again to join them, and checks the sizes in any
 * pack. isomorphic-git makes and indexes packs too, but takes several times as long.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { crc32, deflateSync, inflateSync } from 'node:zlib';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isMissing } from '../files/atomic-file.ts';
import type { GitObject, ObjectType } from './object.ts';

/** An object as it stands in a pack: its type and size, and the compressed content. */
export type PackEntry = { id: string; bytes: Buffer };

type PlainPack = { pack: Buffer; index: Buffer };

const TYPE_NUMBERS: Record<ObjectType, number> = { commit: 1, tree: 2, blob: 3, tag: 4 };
const PACK_HEAD = 12;
const INDEX_HEAD = 8;
const FANOUT = 256 * 4;
const ID_BYTES = 20;

export function packEntry(id: string, { type, content }: GitObject): PackEntry {
  const head: number[] = [];
  let size = content.length;
  let byte = (TYPE_NUMBERS[type] << 4) | (size & 15);
  for (size = Math.floor(size / 16); size > 0; size = Math.floor(size / 128)) {
    head.push(byte | 0x80);
    byte = size & 0x7f;
  }
  head.push(byte);
  return { id, bytes: Buffer.concat([Buffer.from(head), deflateSync(content)]) };
}

/** Of two entries with one id the first is taken. */
export function makePack(entries: Iterable<PackEntry>): PlainPack {
  const byId = new Map<string, Buffer>();
  for (const { id, bytes } of entries) if (!byId.has(id)) byId.set(id, bytes);
  const ids = [...byId.keys()].sort();
  const contents = ids.map((id) => byId.get(id) as Buffer);
  const head = Buffer.alloc(PACK_HEAD);
  head.write('PACK');
  head.writeUInt32BE(2, 4);
  head.writeUInt32BE(ids.length, 8);
  const pack = withSum(Buffer.concat([head, ...contents]));
  return { pack, index: makeIndex(ids, contents, pack) };
}

/**
 * The entries of the pack `<base>.pack` and its index. Null when it is gone or not whole, or has a delta, which cannot be
 * copied into another pack unchanged.
 */
export function readPlainPack(base: string): PackEntry[] | null {
  const index = readIfThere(`${base}.idx`);
  const pack = readIfThere(`${base}.pack`);
  if (index === null || pack === null || !isSummed(index) || !isSummed(pack)) return null;
  const isVersion2 = index.readUInt32BE(0) === 0xff744f63 && index.readUInt32BE(4) === 2;
  if (!isVersion2 || !index.subarray(-2 * ID_BYTES, -ID_BYTES).equals(pack.subarray(-ID_BYTES))) return null;
  const count = index.readUInt32BE(INDEX_HEAD + FANOUT - 4);
  const places = Array.from({ length: count }, (_, at) => placeIn(index, at, count));
  places.sort((a, b) => a.offset - b.offset);
  const entries: PackEntry[] = [];
  for (const [at, { id, offset, crc }] of places.entries()) {
    const bytes = pack.subarray(offset, places[at + 1]?.offset ?? pack.length - ID_BYTES);
    const type = ((bytes[0] ?? 0) >> 4) & 7;
    if (type < 1 || type > 4 || crc32(bytes) !== crc) return null;
    entries.push({ id, bytes });
  }
  return entries;
}

/** The ids of the objects that an index names. */
export function idsInIndex(path: string): string[] {
  const index = readFileSync(path);
  const count = index.readUInt32BE(INDEX_HEAD + FANOUT - 4);
  return Array.from({ length: count }, (_, at) => placeIn(index, at, count).id);
}

function makeIndex(ids: string[], contents: Buffer[], pack: Buffer): Buffer {
  const head = Buffer.alloc(INDEX_HEAD + FANOUT);
  head.writeUInt32BE(0xff744f63, 0);
  head.writeUInt32BE(2, 4);
  const counts = new Uint32Array(256);
  for (const id of ids) counts[Number.parseInt(id.slice(0, 2), 16)]!++;
  for (let at = 0, below = 0; at < 256; at++) {
    below += counts[at] as number;
    head.writeUInt32BE(below, INDEX_HEAD + at * 4);
  }
  const sums = Buffer.alloc(ids.length * 4);
  const offsets = Buffer.alloc(ids.length * 4);
  let offset = PACK_HEAD;
  for (const [at, bytes] of contents.entries()) {
    sums.writeUInt32BE(crc32(bytes), at * 4);
    offsets.writeUInt32BE(offset, at * 4);
    offset += bytes.length;
  }
  const names = Buffer.from(ids.join(''), 'hex');
  return withSum(Buffer.concat([head, names, sums, offsets, pack.subarray(-ID_BYTES)]));
}

function placeIn(index: Buffer, at: number, count: number): { id: string; offset: number; crc: number } {
  const names = INDEX_HEAD + FANOUT;
  const sums = names + count * ID_BYTES;
  return {
    id: index.toString('hex', names + at * ID_BYTES, names + (at + 1) * ID_BYTES),
    crc: index.readUInt32BE(sums + at * 4),
    offset: index.readUInt32BE(sums + (count + at) * 4),
  };
}

function readIfThere(path: string): Buffer | null {
  try {
    return readFileSync(path);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

function withSum(content: Buffer): Buffer {
  return Buffer.concat([content, createHash('sha1').update(content).digest()]);
}

function isSummed(file: Buffer): boolean {
  if (file.length < INDEX_HEAD + ID_BYTES) return false;
  return createHash('sha1').update(file.subarray(0, -ID_BYTES)).digest().equals(file.subarray(-ID_BYTES));
}

const OFS_DELTA = 6;
const REF_DELTA = 7;

/** What it takes to read an object: the deltas below it, and the bytes of all that are made. */
type Chain = { depth: number; bytes: number };

const NO_DELTA: Chain = { depth: -1, bytes: 0 };

/**
 * Checks the sizes in a pack before it is inflated as a whole: each object starts with its size, and a delta with that of its
 * result. Whoever reads a delta makes its base first: without a limit, the last of a long chain takes work with all of them, and
 * the whole chain work that grows with its square. Nothing larger than `LIMITS.gitObjectBytes` is inflated. Throws
 * `BACKUP_TOO_LARGE`; another error when it is no whole pack, or has a delta on a name, as `git bundle` never writes it.
 */
export function checkPackSizes(pack: Buffer): void {
  if (pack.toString('latin1', 0, 4) !== 'PACK') throw new Error('It is no pack.');
  const end = pack.length - ID_BYTES;
  let left = pack.readUInt32BE(8);
  let total = 0;
  /** By the place of the object. */
  const chains = new Map<number, Chain>();
  for (let at = PACK_HEAD; left > 0; left--) {
    const { type, size, next } = objectHead(pack, at);
    checkSize(size);
    if (type === REF_DELTA) throw new Error('A delta names its base instead of its place.');
    const { distance, data } = type === OFS_DELTA ? baseOf(pack, next) : { distance: 0, data: next };
    const { content, read } = inflated(pack.subarray(data, end), size);
    const result = type === OFS_DELTA ? deltaResult(content) : size;
    checkSize(result);
    const below = type === OFS_DELTA ? chains.get(at - distance) : NO_DELTA;
    if (below === undefined) throw new Error('A delta has no base.');
    const chain = { depth: below.depth + 1, bytes: below.bytes + result };
    if (chain.depth > LIMITS.gitDeltaDepth)
      throw tooLarge(`an object of it is made of more than ${LIMITS.gitDeltaDepth} deltas`);
    chains.set(at, chain);
    total += chain.bytes;
    if (total > LIMITS.gitBundleInflatedBytes)
      throw tooLarge(`its objects have more than ${LIMITS.gitBundleInflatedBytes} bytes`);
    at = data + read;
  }
}

function checkSize(size: number): void {
  if (size > LIMITS.gitObjectBytes)
    throw tooLarge(`an object of it has ${size} bytes, and may have ${LIMITS.gitObjectBytes}`);
}

function tooLarge(why: string): SvcError {
  return new SvcError('BACKUP_TOO_LARGE', `The git bundle cannot be imported: ${why}.`);
}

/** Type and size: three bits and four, then seven a byte, the lowest first. */
function objectHead(pack: Buffer, start: number): { type: number; size: number; next: number } {
  const first = byteAt(pack, start);
  const rest = first & 0x80 ? varint(pack, start + 1) : { value: 0, next: start + 1 };
  return { type: (first >> 4) & 7, size: (first & 15) + rest.value * 16, next: rest.next };
}

/** How far before the delta its base begins, and where its data does. The highest seven bits come first, each but the last one less. */
function baseOf(pack: Buffer, start: number): { distance: number; data: number } {
  let at = start;
  let byte = byteAt(pack, at++);
  let distance = byte & 0x7f;
  while (byte & 0x80) {
    byte = byteAt(pack, at++);
    distance = (distance + 1) * 128 + (byte & 0x7f);
  }
  return { distance, data: at };
}

/** A delta begins with the sizes of its base and its result. */
function deltaResult(delta: Buffer): number {
  const base = varint(delta, 0);
  return varint(delta, base.next).value;
}

function varint(bytes: Buffer, start: number): { value: number; next: number } {
  let at = start;
  let value = 0;
  for (let scale = 1; ; scale *= 128) {
    const byte = byteAt(bytes, at++);
    value += (byte & 0x7f) * scale;
    if (!(byte & 0x80)) return { value, next: at };
  }
}

function byteAt(bytes: Buffer, at: number): number {
  const byte = bytes[at];
  if (byte === undefined) throw new Error('It ends too early.');
  return byte;
}

/** The content, which must have this size, and how many bytes it was read from. */
function inflated(bytes: Buffer, size: number): { content: Buffer; read: number } {
  // The types of Node do not know what `info` makes of the answer.
  const options = { maxOutputLength: Math.max(size, 1), info: true };
  const { buffer, engine } = inflateSync(bytes, options) as unknown as {
    buffer: Buffer;
    engine: { bytesWritten: number };
  };
  if (buffer.length !== size) throw new Error('An object has another size than it says.');
  return { content: buffer, read: engine.bytesWritten };
}
