/** Bytes ⇄ frames: a 4-byte big-endian length, then one MessagePack array. Pure; throws `FrameError` on hostile bytes. */
import { Packr, Unpackr } from 'msgpackr';
import { type Frame, Kind } from './frames.ts';
import { LIMITS } from './limits.ts';

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
  const payload = packr.pack(frame);
  if (payload.length > maxBytes)
    throw new FrameError(`A frame of ${payload.length} bytes is over the limit of ${maxBytes}.`);
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
  bytes.writeUInt32BE(payload.length, 0);
  payload.copy(bytes, HEADER_BYTES);
  return bytes;
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
      onFrame(decodePayload(bytes.subarray(offset + HEADER_BYTES, end)));
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
