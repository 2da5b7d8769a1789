import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Unpackr } from 'msgpackr';
import { type DispatchFrame, Kind, type ResultFrame, ToolKind } from '../frames.ts';
import { callFrameRoom, readCallFrame, writeCallFrame } from './call-frames.ts';

/** What is left before and behind the frame, so that a reader or writer that strays is noticed. */
const MARGIN = 7;

const bytes = fc.uint8Array({ maxLength: 300 });
const text = fc.string({ unit: 'binary', maxLength: 80 });
const result = fc.tuple(
  fc.constant(Kind.result),
  fc.nat(),
  fc.integer({ min: 200, max: 599 }),
  bytes,
  fc.double({ noNaN: true }),
);
const dispatch = fc.tuple(
  fc.constant(Kind.dispatch),
  fc.nat(),
  fc.double({ noNaN: true }),
  fc.constantFrom(...Object.values(ToolKind)),
  text,
  bytes,
  text,
);
const frames: fc.Arbitrary<DispatchFrame | ResultFrame> = fc.oneof(result, dispatch);

function write(frame: DispatchFrame | ResultFrame): Buffer {
  const into = Buffer.alloc(callFrameRoom(frame) + 2 * MARGIN, 0xc1);
  const end = writeCallFrame(into, MARGIN, frame);
  assert.ok(end <= into.length - MARGIN, 'it takes no more than the room that was asked for');
  return into.subarray(MARGIN, end);
}

test('a frame comes back as it was, and is MessagePack that anyone can read', () => {
  const unpackr = new Unpackr({ useRecords: false, moreTypes: false });
  fc.assert(
    fc.property(frames, (frame) => {
      const written = write(frame);
      assert.deepEqual(readCallFrame(written, 0, written.length), frame);
      const general = unpackr.unpack(written) as unknown[];
      assert.deepEqual(
        general.map((part) => (part instanceof Uint8Array ? Uint8Array.from(part) : part)),
        frame,
      );
    }),
  );
});

test('damaged bytes are left to the general way or read within their bounds', () => {
  const damaged = fc.tuple(frames, fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 4 }), fc.nat(20));
  fc.assert(
    fc.property(damaged, ([frame, changes, cut]) => {
      const written = Buffer.from(write(frame));
      for (const [at, value] of changes) if (at < written.length) written[at] = value;
      const end = Math.max(0, written.length - cut);
      const read = readCallFrame(written, 0, end);
      if (read === null) return;
      const body = read[0] === Kind.result ? read[3] : read[5];
      const start = body.byteOffset - written.byteOffset;
      assert.ok(start >= 0 && start + body.length <= end, 'the body lies within the frame');
    }),
    { numRuns: 2000 },
  );
});

test('frames of other kinds, and texts that are too long, go the general way', () => {
  assert.equal(callFrameRoom([Kind.ping, 1]), 0);
  assert.equal(callFrameRoom([Kind.dispatch, 1, 1, 0, 'x'.repeat(40_000), Buffer.alloc(0), '']), 0);
  for (const odd of [
    [Kind.result],
    [Kind.result, 1, 200, 'text', 0],
    [Kind.dispatch, 1, 1, 7, 'tool', Buffer.alloc(0), ''],
  ])
    assert.equal(callFrameRoom(odd as never), 0, JSON.stringify(odd));
  const ping = Buffer.from([0x92, Kind.ping, 1]);
  assert.equal(readCallFrame(ping, 0, ping.length), null);
});
