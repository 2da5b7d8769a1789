/** The frame codec: what was encoded comes back, and hostile bytes end in a `FrameError` before they cost memory. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { FrameBatch, FrameDecoder, FrameError } from '../../../protocol/wire/codec.ts';
import { type Frame, Kind } from '../../../protocol/wire/frames.ts';
import { anyBytes, cuts, jsonValue, mutated, pieces } from '../arbitraries.ts';
import { check, type Target } from '../target.ts';

/** Small, so that the limit is met. */
const FRAME_BYTES = 2048;
/** What decoding one hostile stream may cost besides its bytes. */
const EXTRA_BYTES = 64 * 1024 * 1024;

const member = fc.oneof(jsonValue, anyBytes(64), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }));
const frame = fc
  .tuple(fc.constantFrom(...Object.values(Kind)), fc.array(member, { maxLength: 6 }))
  .map(([kind, members]) => [kind, ...members] as unknown as Frame);
const frameList = fc.array(frame, { minLength: 1, maxLength: 6 });

function encode(list: Frame[]): Buffer {
  const batch = new FrameBatch();
  for (const one of list) batch.add(one);
  return batch.take();
}

/** Decodes until an error; answers the frames so far and that error. */
function decode(chunks: Buffer[], maxBytes?: number): { frames: Frame[]; error: unknown } {
  const decoder = new FrameDecoder(maxBytes);
  const found: Frame[] = [];
  try {
    for (const chunk of chunks) decoder.push(chunk, (one) => found.push(one));
    return { frames: found, error: null };
  } catch (error) {
    return { frames: found, error };
  }
}

function assertRoundTrip([list, at]: [Frame[], number[]]): void {
  const stream = encode(list);
  const whole = decode([stream]);
  assert.equal(whole.error, null);
  assert.equal(whole.frames.length, list.length);
  // The bytes say all there is to say: what was decoded is encoded to the same ones.
  assert.deepEqual(encode(whole.frames), encode(decode([encode(whole.frames)]).frames));
  assert.deepEqual(decode(pieces(stream, at)), whole);
}

function assertHarmless([bytes, at]: [Buffer, number[]]): void {
  const before = process.memoryUsage();
  const { frames: found, error } = decode(pieces(bytes, at), FRAME_BYTES);
  const after = process.memoryUsage();
  assert.ok(error === null || error instanceof FrameError, `not a FrameError: ${String((error as Error)?.stack)}`);
  const grown = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
  assert.ok(grown < EXTRA_BYTES, `${grown} bytes for ${bytes.length}`);
  for (const one of found) assert.ok(Array.isArray(one) && Number.isInteger(one[0]), 'a frame that is none');
  assert.deepEqual(decode([bytes], FRAME_BYTES).frames, found, 'the way it was cut makes a difference');
}

const framed = anyBytes(200).map((payload) => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(payload.length);
  return Buffer.concat([length, payload]);
});
const hostile = fc.oneof(framed, anyBytes(300), mutated(frameList.map(encode)));

export const frames: Target = {
  name: 'frames',
  claim: 'Frames come back as they were sent; other bytes end in a FrameError and cost no memory.',
  open: () => [
    check('round trip, however it is cut', 50_000, fc.tuple(frameList, cuts), assertRoundTrip),
    check('hostile bytes', 200_000, fc.tuple(hostile, cuts), assertHarmless),
  ],
};
