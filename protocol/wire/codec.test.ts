import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Unpackr } from 'msgpackr';
import {
  callFrameRoom,
  encodeFrame,
  FrameBatch,
  FrameDecoder,
  FrameError,
  readCallFrame,
  writeCallFrame,
} from './codec.ts';
import { DbOp, type Frame, type FrameOf, Kind, ToolKind } from './frames.ts';

/** Numbers in [0, 1) from a seed (mulberry32), so that a failure can be replayed. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const FRAMES: Frame[] = [
  [Kind.hello, 'a ticket'],
  [Kind.ping, 1],
  [Kind.dispatch, 7, 9999.5, 1, 'add', Buffer.from('{"input":{"title":"x"}}'), 'f'.repeat(32), 2],
  [Kind.result, 7, 201, Buffer.from('{"id":1}'), 0.25],
  [
    Kind.error,
    7,
    { code: 'INVALID_INPUT', message: 'no', path: '/a', issues: [{ path: '/a', message: 'no', keyword: 'type' }] },
    1,
  ],
  [Kind.db, 3, DbOp.run, 0, 'INSERT INTO t VALUES (?, ?, ?, ?)', [1n, -(2n ** 63n), 'text', Buffer.from([0, 255])]],
  [Kind.dbResult, 3, { changes: 1, lastInsertRowid: 2n ** 60n }],
];

function decode(chunks: Buffer[], maxBytes?: number): Frame[] {
  const decoder = new FrameDecoder(maxBytes);
  const frames: Frame[] = [];
  for (const chunk of chunks) decoder.push(chunk, (frame) => frames.push(frame));
  return frames;
}

/** Integers that a number holds exactly come back as numbers, and bytes as either kind of array. */
function asReceived(frame: Frame): unknown {
  return JSON.parse(
    JSON.stringify(frame, (_key, value) => {
      if (value instanceof Uint8Array) return Buffer.from(value).toJSON();
      return typeof value === 'bigint' ? (Number.isSafeInteger(Number(value)) ? Number(value) : `${value}n`) : value;
    }),
  );
}

test('frames survive the round trip with any split of the stream', () => {
  const stream = Buffer.concat(FRAMES.map((frame) => encodeFrame(frame)));
  const random = seeded(1);
  for (let round = 0; round < 200; round++) {
    const chunks: Buffer[] = [];
    for (let at = 0; at < stream.length; ) {
      const size = 1 + Math.floor(random() * (round % 2 ? 5 : 200));
      chunks.push(stream.subarray(at, at + size));
      at += size;
    }
    assert.deepEqual(decode(chunks).map(asReceived), FRAMES.map(asReceived), `round ${round}`);
  }
});

test('empty pieces of the stream make no difference', () => {
  const nothing = Array.from({ length: 9 }, () => Buffer.alloc(0));
  const stream = encodeFrame([Kind.ping, 1]);
  assert.deepEqual(decode([...nothing, stream.subarray(0, 2), ...nothing, stream.subarray(2), ...nothing]), [
    [Kind.ping, 1],
  ]);
});

test('a batch is the frames one behind the other, and taking it leaves it empty', () => {
  const batch = new FrameBatch();
  for (let round = 0; round < 50; round++) {
    for (const frame of FRAMES) batch.add(frame);
    assert.deepEqual(decode([batch.take()]).map(asReceived), FRAMES.map(asReceived));
    assert.equal(batch.length, 0);
  }
  const large: Frame = [Kind.log, 'x'.repeat(300_000)];
  batch.add([Kind.ping, 1]);
  batch.add(large);
  batch.add([Kind.ping, 2]);
  assert.deepEqual(decode([batch.take()]), [[Kind.ping, 1], large, [Kind.ping, 2]]);
});

test('taken bytes are never overwritten', () => {
  const batch = new FrameBatch();
  batch.add([Kind.ping, 1]);
  const first = batch.take();
  const copy = Buffer.from(first);
  for (let n = 0; n < 10_000; n++) batch.add([Kind.ping, n]);
  assert.deepEqual(first, copy);
});

test('frames over the limit are refused on both sides, before they are read', () => {
  const frame: Frame = [Kind.log, 'x'.repeat(1000)];
  assert.throws(() => encodeFrame(frame, 100), FrameError);
  assert.throws(() => decode([encodeFrame(frame)], 100), FrameError);
  assert.throws(() => decode([Buffer.from([0xff, 0xff, 0xff, 0xff])]), FrameError);
  for (let cut = 1; cut < 4; cut++) {
    const header = Buffer.from([0xff, 0xff, 0xff, 0xff]);
    assert.throws(() => decode([header.subarray(0, cut), header.subarray(cut)]), FrameError);
  }
});

for (const [name, payload] of [
  ['nothing', []],
  ['no array', [0x01]],
  ['an empty array', [0x90]],
  ['an unknown kind', [0x91, 0x7f]],
  ['a kind that is a text', [0x91, 0xa1, 0x31]],
  ['a record definition', [0xd4, 0x72, 0x40]],
  ['an unknown extension', [0xc7, 1, 0x63, 0]],
  ['a type that does not exist', [0xc1]],
  ['an array of 4 billion', [0xdd, 0xff, 0xff, 0xff, 0xff]],
  ['a map of 4 billion', [0xdf, 0xff, 0xff, 0xff, 0xff]],
  ['a text that is cut off', [0x92, 0x01, 0xdb, 0x00, 0xff, 0xff, 0xff]],
  ['more than one value', [0x91, 0x07, 0x07]],
] as const) {
  test(`hostile: ${name}`, () => {
    const bytes = Buffer.alloc(4 + payload.length);
    bytes.writeUInt32BE(payload.length);
    bytes.set(payload, 4);
    assert.throws(() => decode([bytes]), FrameError);
  });
}

test('hostile: deep nesting, and a prototype as a member', () => {
  const deep = Buffer.alloc(4 + 200_001, 0x91);
  deep.writeUInt32BE(200_001);
  assert.throws(() => decode([deep]), FrameError);
  const key = Buffer.from('__proto__');
  const map = Buffer.concat([
    Buffer.from([0x92, Kind.ping, 0x81, 0xa0 | key.length]),
    key,
    Buffer.from([0x81, 0xa1, 0x78, 0x01]),
  ]);
  const bytes = Buffer.alloc(4 + map.length);
  bytes.writeUInt32BE(map.length);
  bytes.set(map, 4);
  decode([bytes]);
  assert.equal(({} as { x?: unknown }).x, undefined);
});

test('random and mutated bytes give frames or a FrameError only', () => {
  const seed = Number(process.env.FUZZ_SEED ?? 20_261_121);
  const random = seeded(seed);
  const byte = () => Math.floor(random() * 256);
  for (let round = 0; round < 5_000; round++) {
    let bytes: Buffer;
    if (round % 2) {
      bytes = Buffer.from(Array.from({ length: Math.floor(random() * 60) }, byte));
      if (bytes.length >= 4) bytes.writeUInt32BE(bytes.length - 4);
    } else {
      bytes = encodeFrame(FRAMES[Math.floor(random() * FRAMES.length)] as Frame);
      for (let n = 0; n < 3; n++) bytes[Math.floor(random() * bytes.length)] = byte();
    }
    try {
      decode([bytes]);
    } catch (error) {
      assert.ok(error instanceof FrameError, `seed ${seed}, round ${round}: ${(error as Error).stack}`);
    }
  }
});

/** What is left before and behind the frame, so that a reader or writer that strays is noticed. */
const MARGIN = 7;

const bodies = fc.uint8Array({ maxLength: 300 });
const texts = fc.string({ unit: 'binary', maxLength: 80 });
const result = fc.tuple(
  fc.constant(Kind.result),
  fc.nat(),
  fc.integer({ min: 200, max: 599 }),
  bodies,
  fc.double({ noNaN: true }),
);
const dispatch = fc.tuple(
  fc.constant(Kind.dispatch),
  fc.nat(),
  fc.double({ noNaN: true }),
  fc.constantFrom(...Object.values(ToolKind)),
  texts,
  bodies,
  texts,
  fc.nat(),
);
const callFrames: fc.Arbitrary<FrameOf<'dispatch'> | FrameOf<'result'>> = fc.oneof(result, dispatch);

function write(frame: FrameOf<'dispatch'> | FrameOf<'result'>): Buffer {
  const into = Buffer.alloc(callFrameRoom(frame) + 2 * MARGIN, 0xc1);
  const end = writeCallFrame(into, MARGIN, frame);
  assert.ok(end <= into.length - MARGIN, 'it takes no more than the room that was asked for');
  return into.subarray(MARGIN, end);
}

test('a call frame survives the round trip, and is standard MessagePack', () => {
  const unpackr = new Unpackr({ useRecords: false, moreTypes: false });
  fc.assert(
    fc.property(callFrames, (frame) => {
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

test('texts up to the longest that are written by hand, and longer ones, survive the round trip', () => {
  for (const length of [21_845, 21_846, 32_767, 65_536]) {
    const text = '\u20ac'.repeat(length);
    for (const [tool, trace] of [
      [text, ''],
      ['', text],
    ] as const) {
      const frame: Frame = [Kind.dispatch, 1, 1, ToolKind.server, tool, Buffer.from('{}'), trace, 0];
      const read: unknown[] = [];
      new FrameDecoder().push(encodeFrame(frame), (one) => read.push(one[4], one[6]));
      assert.ok(read.length === 2 && read[0] === tool && read[1] === trace, `${length} characters`);
    }
  }
});

test('damaged call frames are left to msgpackr or read within their bounds', () => {
  const damaged = fc.tuple(callFrames, fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 4 }), fc.nat(20));
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

test('frames of other kinds, and texts that are too long, are left to msgpackr', () => {
  assert.equal(callFrameRoom([Kind.ping, 1]), 0);
  const long = 'x'.repeat(40_000);
  assert.equal(callFrameRoom([Kind.dispatch, 1, 1, 0, long, Buffer.alloc(0), '', 0]), 0);
  assert.equal(callFrameRoom([Kind.dispatch, 1, 1, 0, '', Buffer.alloc(0), long, 0]), 0);
  for (const odd of [
    [Kind.result],
    [Kind.result, 1, 200, 'text', 0],
    [Kind.dispatch, 1, 1, 7, 'tool', Buffer.alloc(0), '', 0],
    [Kind.dispatch, 1, 1, 0, 'tool', Buffer.alloc(0), '', 'admin'],
  ])
    assert.equal(callFrameRoom(odd as never), 0, JSON.stringify(odd));
  const ping = Buffer.from([0x92, Kind.ping, 1]);
  assert.equal(readCallFrame(ping, 0, ping.length), null);
});
