/**
 * Checks what a pack would become before anybody inflates it as a whole: each object says its size in front, and a delta that of
 * its result. Nothing larger than `LIMITS.gitObjectBytes` is inflated.
 */
import { inflateSync } from 'node:zlib';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

const HEAD_BYTES = 12;
const SUM_BYTES = 20;
const OFS_DELTA = 6;
const REF_DELTA = 7;

/** Throws `BACKUP_TOO_LARGE`; another error when it is no whole pack. */
export function checkPackSizes(pack: Buffer): void {
  if (pack.toString('latin1', 0, 4) !== 'PACK') throw new Error('It is no pack.');
  const end = pack.length - SUM_BYTES;
  let left = pack.readUInt32BE(8);
  let total = 0;
  for (let at = HEAD_BYTES; left > 0; left--) {
    const { type, size, next } = objectHead(pack, at);
    checkSize(size);
    const data = afterBase(pack, type, next);
    const { content, read } = inflated(pack.subarray(data, end), size);
    const result = type === OFS_DELTA || type === REF_DELTA ? deltaResult(content) : size;
    checkSize(result);
    total += result;
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
  let at = start;
  let byte = byteAt(pack, at++);
  const type = (byte >> 4) & 7;
  let size = byte & 15;
  for (let scale = 16; byte & 0x80; scale *= 128) {
    byte = byteAt(pack, at++);
    size += (byte & 0x7f) * scale;
  }
  return { type, size, next: at };
}

/** Where the data begin, behind the name of what a delta is made on. */
function afterBase(pack: Buffer, type: number, start: number): number {
  if (type === REF_DELTA) return start + SUM_BYTES;
  let at = start;
  if (type === OFS_DELTA) while (byteAt(pack, at++) & 0x80);
  return at;
}

/** A delta begins with the sizes of what it is made on and of its result. */
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
