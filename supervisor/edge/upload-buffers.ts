/**
 * Reuses memory for the parts of a streamed upload. Without this, each part is new memory until the next garbage collection,
 * and a large upload is faster than that. A consumer may give a part back for the next one.
 */

/** The size of a buffer, which is as much as the native code reads from a socket at once. */
const PART_BYTES = 512 * 1024;
/** The most buffers that are kept. Few uploads need more at a time. */
const KEPT = 8;

const free: ArrayBuffer[] = [];
const lent = new WeakSet<ArrayBufferLike>();

/** Copies the bytes of a part, into memory that was given back if there is some. */
export function takePart(chunk: ArrayBuffer): Buffer {
  const length = chunk.byteLength;
  if (length > PART_BYTES) return Buffer.from(new Uint8Array(chunk));
  const memory = free.pop() ?? new ArrayBuffer(PART_BYTES);
  lent.add(memory);
  const part = Buffer.from(memory, 0, length);
  part.set(new Uint8Array(chunk));
  return part;
}

/** Takes a part back, which must no longer be used. Does nothing for other bytes. */
export function givePartBack({ buffer }: Uint8Array): void {
  if (lent.delete(buffer) && free.length < KEPT) free.push(buffer as ArrayBuffer);
}
