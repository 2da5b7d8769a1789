/**
 * Encodes and decodes frames: a 4-byte big-endian length, then one MessagePack array. Pure; throws `FrameError` on hostile
 * bytes.
 *
 * The two frames of a tool call are written and read by hand: they are the most frequent, and msgpackr takes several times as
 * long. They are MessagePack too, with every number as float64, so that each frame has one form. The reader takes only that
 * form and leaves others to msgpackr.
 */
import { Packr, Unpackr } from 'msgpackr';
import { LIMITS } from '../limits.ts';
import { type Frame, type FrameOf, Kind, type ToolKindValue } from './frames.ts';

const HEADER_BYTES = 4;
const MIN_KIND = Kind.hello;
const MAX_KIND = Math.max(...Object.values(Kind));
const BATCH_BYTES = LIMITS.linkBatchBytes;
const MIN_ROOM = 4 * 1024;

// Records and extension types let a sender define structures that the reader keeps; a worker's frames are hostile.
// `toJSON` of bytes is for the results of handlers only.
const packr = new Packr({ useRecords: false, moreTypes: false, variableMapSize: true, useToJSON: false });
// msgpackr's types lack `auto`, which it documents: a number where it is safe, else a bigint.
const int64AsType = 'auto' as 'number';
const unpackr = new Unpackr({ useRecords: false, moreTypes: false, mapsAsObjects: true, int64AsType });

export class FrameError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'FrameError';
  }
}

function checkLength(length: number, maxBytes: number): void {
  if (length > maxBytes) throw new FrameError(`A frame of ${length} bytes is over the limit of ${maxBytes}.`);
}

/** One frame as bytes, length prefix included. */
export function encodeFrame(frame: Frame, maxBytes: number = LIMITS.frameBytes): Buffer {
  const batch = new FrameBatch(maxBytes);
  batch.add(frame);
  return batch.take();
}

/** What `encodeFrame` made of a frame; it is ours. */
export function decodeFrame(bytes: Buffer): Frame {
  return decodePayload(bytes.subarray(HEADER_BYTES));
}

/** Frames that leave together, written one behind the other into one piece of memory. */
export class FrameBatch {
  readonly #maxBytes: number;
  #bytes: Buffer | null = null;
  #length = 0;

  constructor(maxBytes: number = LIMITS.frameBytes) {
    this.#maxBytes = maxBytes;
  }

  get length(): number {
    return this.#length;
  }

  /** Throws `FrameError` for a frame over the limit; the frames before it stay. */
  add(frame: Frame): void {
    const start = this.#length;
    const from = start + HEADER_BYTES;
    const room = callFrameRoom(frame);
    if (room > 0) {
      checkLength(room, this.#maxBytes);
      const bytes = this.#room(from + room);
      this.#close(bytes, start, writeCallFrame(bytes, from, frame as FrameOf<'dispatch'> | FrameOf<'result'>));
      return;
    }
    const payload = packr.pack(frame);
    checkLength(payload.length, this.#maxBytes);
    const end = from + payload.length;
    const bytes = this.#room(end);
    bytes.set(payload, from);
    this.#close(bytes, start, end);
  }

  /** The bytes of all frames. The batch is empty afterwards and never writes into them again. */
  take(): Buffer {
    const bytes = this.#bytes?.subarray(0, this.#length) ?? Buffer.alloc(0);
    // The rest of the memory serves the next frames, unless a large frame made it large.
    const left = this.#bytes?.subarray(this.#length);
    this.#bytes = left && left.length >= MIN_ROOM && bytes.length <= BATCH_BYTES ? left : null;
    this.#length = 0;
    return bytes;
  }

  /** Puts the length before a payload that ends at `end`. */
  #close(bytes: Buffer, start: number, end: number): void {
    writeLength(bytes, start, end - start - HEADER_BYTES);
    this.#length = end;
  }

  #room(end: number): Buffer {
    const bytes = this.#bytes;
    if (bytes && bytes.length >= end) return bytes;
    const larger = Buffer.allocUnsafeSlow(end <= BATCH_BYTES ? BATCH_BYTES : end);
    bytes?.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
    return larger;
  }
}

/** The payload of one frame, checked to be an array that starts with a known kind. */
function decodePayload(payload: Uint8Array): Frame {
  let value: unknown;
  try {
    value = unpackr.unpack(payload);
  } catch (error) {
    throw new FrameError(`Not MessagePack: ${(error as Error).message}`);
  }
  if (!Array.isArray(value)) throw new FrameError('A frame is an array.');
  const kind: unknown = value[0];
  if (typeof kind !== 'number' || !Number.isInteger(kind) || kind < MIN_KIND || kind > MAX_KIND) {
    throw new FrameError('Unknown kind of frame.');
  }
  return value as Frame;
}

/** Cuts a byte stream into frames. An incomplete frame is kept as the chunks it came in, so that a large one is copied once. */
export class FrameDecoder {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #buffered = 0;

  constructor(maxBytes: number = LIMITS.frameBytes) {
    this.#maxBytes = maxBytes;
  }

  /** Calls `onFrame` for every frame that is complete with `chunk`. Throws `FrameError`; the stream is then unusable. */
  push(chunk: Buffer, onFrame: (frame: Frame) => void): void {
    // `#needed` looks for the header in as many chunks as it has bytes.
    if (chunk.length === 0) return;
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
    if (this.#buffered < HEADER_BYTES) return;
    if (this.#chunks.length > 1 && this.#buffered < this.#needed()) return;
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#buffered);
    let offset = 0;
    while (bytes.length - offset >= HEADER_BYTES) {
      const length = bytes.readUInt32BE(offset);
      checkLength(length, this.#maxBytes);
      const start = offset + HEADER_BYTES;
      const end = start + length;
      if (end > bytes.length) break;
      onFrame(readCallFrame(bytes, start, end) ?? decodePayload(bytes.subarray(start, end)));
      offset = end;
    }
    this.#chunks = offset === bytes.length ? [] : [bytes.subarray(offset)];
    this.#buffered = bytes.length - offset;
  }

  /** Bytes that the frame at the head of the buffer takes; its header has arrived. */
  #needed(): number {
    const first = this.#chunks[0] as Buffer;
    const head = first.length >= HEADER_BYTES ? first : Buffer.concat(this.#chunks.slice(0, HEADER_BYTES));
    const length = head.readUInt32BE(0);
    checkLength(length, this.#maxBytes);
    return HEADER_BYTES + length;
  }
}

const ARRAY_5 = 0x95;
const ARRAY_8 = 0x98;
const FLOAT_64 = 0xcb;
const STR_16 = 0xda;
const BIN_32 = 0xc6;

/** Characters of a text whose bytes `STR_16` can count: each takes three at most. Longer texts are left to msgpackr. */
const MAX_TEXT = 21_845;
/** Bytes of each frame beside its body and texts. */
const DISPATCH_OVERHEAD = 2 + 9 + 9 + 1 + 3 + 5 + 3 + 9;
const RESULT_OVERHEAD = 2 + 9 + 9 + 5 + 9;

/** Over the memory of the latest frame; neighbours share it. */
let view: DataView = new DataView(new ArrayBuffer(0));

// From here on, frames are read by index, and numbers through a DataView: V8 never compiles this code in threads that are
// called rarely, and there each step of a loop or of an array's iterator costs as much as a call.

/** The most bytes that this frame can take by hand; 0 for a frame that is left to msgpackr, also one that breaks its type. */
export function callFrameRoom(frame: Frame): number {
  if (frame[0] === Kind.result) return isResult(frame) ? RESULT_OVERHEAD + frame[3].length : 0;
  if (frame[0] !== Kind.dispatch || !isDispatch(frame)) return 0;
  const tool = frame[4];
  const traceId = frame[6];
  if (tool.length > MAX_TEXT || traceId.length > MAX_TEXT) return 0;
  return DISPATCH_OVERHEAD + 3 * (tool.length + traceId.length) + frame[5].length;
}

function isResult(frame: FrameOf<'result'>): boolean {
  const numbers = typeof frame[1] === 'number' && typeof frame[2] === 'number' && typeof frame[4] === 'number';
  return numbers && frame.length === 5 && frame[3] instanceof Uint8Array;
}

function isDispatch(frame: FrameOf<'dispatch'>): boolean {
  if (typeof frame[1] !== 'number' || typeof frame[2] !== 'number' || frame.length !== 8) return false;
  if (!isToolKind(frame[3]) || typeof frame[7] !== 'number') return false;
  return typeof frame[4] === 'string' && typeof frame[6] === 'string' && frame[5] instanceof Uint8Array;
}

/** The numbers of `ToolKind`. */
function isToolKind(kind: unknown): kind is ToolKindValue {
  return kind === 0 || kind === 1 || kind === 3 || kind === 4 || kind === 5;
}

/** Writes a frame for which `callFrameRoom` found room, from `at` on; returns where it ends. */
export function writeCallFrame(into: Buffer, at: number, frame: FrameOf<'dispatch'> | FrameOf<'result'>): number {
  if (frame[0] === Kind.result) {
    into[at] = ARRAY_5;
    into[at + 1] = Kind.result;
    const status = writeNumber(into, at + 2, frame[1]);
    const body = writeBytes(into, writeNumber(into, status, frame[2]), frame[3]);
    return writeNumber(into, body, frame[4]);
  }
  into[at] = ARRAY_8;
  into[at + 1] = Kind.dispatch;
  const kind = writeNumber(into, writeNumber(into, at + 2, frame[1]), frame[2]);
  into[kind] = frame[3];
  const body = writeBytes(into, writeText(into, kind + 1, frame[4]), frame[5]);
  return writeNumber(into, writeText(into, body, frame[6]), frame[7]);
}

/**
 * Reads the frame that takes exactly the bytes from `at` to `end`; null for any other frame or form. Its body shares the memory
 * of `from`.
 */
export function readCallFrame(from: Buffer, at: number, end: number): FrameOf<'dispatch'> | FrameOf<'result'> | null {
  // The shorter of the two.
  if (end - at < RESULT_OVERHEAD) return null;
  if (from[at] === ARRAY_5 && from[at + 1] === Kind.result) return readResult(from, at + 2, end);
  if (from[at] === ARRAY_8 && from[at + 1] === Kind.dispatch) return readDispatch(from, at + 2, end);
  return null;
}

function readResult(from: Buffer, at: number, end: number): FrameOf<'result'> | null {
  if (from[at] !== FLOAT_64 || from[at + 9] !== FLOAT_64 || from[at + 18] !== BIN_32) return null;
  const start = at + 23;
  const stop = start + from.readUInt32BE(at + 19);
  if (stop + 9 !== end || from[stop] !== FLOAT_64) return null;
  const id = readNumber(from, at);
  return [Kind.result, id, readNumber(from, at + 9), bytesOf(from, start, stop), readNumber(from, stop)];
}

function readDispatch(from: Buffer, at: number, end: number): FrameOf<'dispatch'> | null {
  if (from[at] !== FLOAT_64 || from[at + 9] !== FLOAT_64 || from[at + 19] !== STR_16) return null;
  const kind = from[at + 18];
  if (!isToolKind(kind)) return null;
  const tool = at + 22;
  const bin = tool + from.readUInt16BE(at + 20);
  if (bin + 5 > end || from[bin] !== BIN_32) return null;
  const body = bin + 5;
  const str = body + from.readUInt32BE(bin + 1);
  if (str + 3 > end || from[str] !== STR_16) return null;
  const trace = str + 3;
  const caller = trace + from.readUInt16BE(str + 1);
  if (caller + 9 !== end || from[caller] !== FLOAT_64) return null;
  return [
    Kind.dispatch,
    readNumber(from, at),
    readNumber(from, at + 9),
    kind,
    textOf(from, tool, bin),
    bytesOf(from, body, str),
    textOf(from, trace, caller),
    readNumber(from, caller),
  ];
}

function writeNumber(into: Buffer, at: number, value: number): number {
  into[at] = FLOAT_64;
  viewOf(into).setFloat64(into.byteOffset + at + 1, value);
  return at + 9;
}

function readNumber(from: Buffer, at: number): number {
  return viewOf(from).getFloat64(from.byteOffset + at + 1);
}

function viewOf({ buffer }: Buffer): DataView {
  if (view.buffer !== buffer) view = new DataView(buffer);
  return view;
}

/** Most texts are short and ASCII: written here, without a call into native code. */
/** From so many characters on Node writes a text sooner than a loop does. */
const LONG_TEXT = 24;

function writeText(into: Buffer, at: number, text: string): number {
  // Without the name of an encoding, which Node would have to look up.
  const length = (text.length < LONG_TEXT ? writeAscii(into, at + 3, text) : null) ?? into.write(text, at + 3);
  into[at] = STR_16;
  into[at + 1] = length >>> 8;
  into[at + 2] = length;
  return at + 3 + length;
}

/** Null where a character is no ASCII. */
function writeAscii(into: Buffer, at: number, text: string): number | null {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) return null;
    into[at + i] = code;
  }
  return text.length;
}

function textOf(from: Buffer, start: number, stop: number): string {
  return from.toString(undefined, start, stop);
}

function writeBytes(into: Buffer, at: number, bytes: Uint8Array): number {
  const { length } = bytes;
  into[at] = BIN_32;
  writeLength(into, at + 1, length);
  into.set(bytes, at + 5);
  return at + 5 + length;
}

function writeLength(into: Buffer, at: number, length: number): void {
  into[at] = length >>> 24;
  into[at + 1] = length >>> 16;
  into[at + 2] = length >>> 8;
  into[at + 3] = length;
}

function bytesOf(from: Buffer, start: number, stop: number): Uint8Array {
  return new Uint8Array(from.buffer, from.byteOffset + start, stop - start);
}
