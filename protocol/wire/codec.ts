/** Bytes ⇄ frames: a 4-byte big-endian length, then one MessagePack array. Pure; throws `FrameError` on hostile bytes. */
import { Packr, Unpackr } from 'msgpackr';
import { type DispatchFrame, type Frame, Kind, type ResultFrame } from '../frames.ts';
import { LIMITS } from '../limits.ts';
import { callFrameRoom, readCallFrame, writeCallFrame } from './call-frames.ts';

const HEADER_BYTES = 4;
const MIN_KIND = Kind.hello;
const MAX_KIND = Math.max(...Object.values(Kind));

// Records and extension types let a sender define structures that the reader keeps; a worker's frames are hostile.
// Bytes are bytes: an actor gives them a `toJSON` for the results of handlers, which has no say here.
const packr = new Packr({ useRecords: false, moreTypes: false, variableMapSize: true, useToJSON: false });
// Its types do not know `auto` (a number where it is safe, else a bigint); its documentation and code do.
const int64AsType = 'auto' as 'number';
const unpackr = new Unpackr({ useRecords: false, moreTypes: false, mapsAsObjects: true, int64AsType });

export class FrameError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'FrameError';
  }
}

/** One frame as bytes, length prefix included. */
export function encodeFrame(frame: Frame, maxBytes: number = LIMITS.frameBytes): Buffer {
  const batch = new FrameBatch(maxBytes);
  batch.add(frame);
  return batch.take();
}

const BATCH_BYTES = LIMITS.linkBatchBytes;
const MIN_ROOM = 4 * 1024;

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

  /** Throws `FrameError` for a frame over the limit; what was added before stays. */
  add(frame: Frame): void {
    const start = this.#length;
    const room = callFrameRoom(frame);
    if (room > 0) {
      this.#check(room);
      const bytes = this.#room(start + HEADER_BYTES + room);
      this.#close(bytes, start, writeCallFrame(bytes, start + HEADER_BYTES, frame as DispatchFrame | ResultFrame));
      return;
    }
    const payload = packr.pack(frame);
    this.#check(payload.length);
    const end = start + HEADER_BYTES + payload.length;
    const bytes = this.#room(end);
    bytes.set(payload, start + HEADER_BYTES);
    this.#close(bytes, start, end);
  }

  #check(length: number): void {
    if (length > this.#maxBytes)
      throw new FrameError(`A frame of ${length} bytes is over the limit of ${this.#maxBytes}.`);
  }

  /** Puts the length before a payload that ends at `end`. */
  #close(bytes: Buffer, start: number, end: number): void {
    const length = end - start - HEADER_BYTES;
    bytes[start] = length >>> 24;
    bytes[start + 1] = length >>> 16;
    bytes[start + 2] = length >>> 8;
    bytes[start + 3] = length;
    this.#length = end;
  }

  /** The bytes of all frames; the batch is empty afterwards and never writes into them again. */
  take(): Buffer {
    const bytes = this.#bytes?.subarray(0, this.#length) ?? Buffer.alloc(0);
    // What is left of the memory serves the next frames, unless a large frame made it large.
    const left = this.#bytes?.subarray(this.#length);
    this.#bytes = left && left.length >= MIN_ROOM && bytes.length <= BATCH_BYTES ? left : null;
    this.#length = 0;
    return bytes;
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
export function decodePayload(payload: Uint8Array): Frame {
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

/**
 * Cuts a byte stream into frames. Bytes of a frame that has not arrived whole are kept as the chunks they came in, so
 * that a large frame is copied once.
 */
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
      if (length > this.#maxBytes)
        throw new FrameError(`A frame of ${length} bytes is over the limit of ${this.#maxBytes}.`);
      const end = offset + HEADER_BYTES + length;
      if (end > bytes.length) break;
      onFrame(
        readCallFrame(bytes, offset + HEADER_BYTES, end) ?? decodePayload(bytes.subarray(offset + HEADER_BYTES, end)),
      );
      offset = end;
    }
    this.#chunks = offset === bytes.length ? [] : [bytes.subarray(offset)];
    this.#buffered = bytes.length - offset;
  }

  /** Bytes that the frame at the head of the buffer needs, once its header can be read. */
  #needed(): number {
    const first = this.#chunks[0] as Buffer;
    if (first.length >= HEADER_BYTES) return this.#checked(first.readUInt32BE(0));
    const head = Buffer.concat(this.#chunks.slice(0, HEADER_BYTES + 1));
    return head.length >= HEADER_BYTES ? this.#checked(head.readUInt32BE(0)) : Number.POSITIVE_INFINITY;
  }

  #checked(length: number): number {
    if (length > this.#maxBytes)
      throw new FrameError(`A frame of ${length} bytes is over the limit of ${this.#maxBytes}.`);
    return HEADER_BYTES + length;
  }
}
