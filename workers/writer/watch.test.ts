import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Begun, Pulse, StuckDetector } from './watch.ts';

test('the other thread sees work, its beat and whose it is', () => {
  const pulse = new Pulse();
  const seen = new Pulse(pulse.memory);
  assert.equal(seen.read(), null);
  pulse.enter(Buffer.from('todos'));
  const first = seen.read();
  assert.notEqual(first, null);
  assert.equal(seen.name(), 'todos');
  pulse.beat();
  assert.notEqual(seen.read(), first);
  pulse.leave();
  assert.equal(seen.read(), null);
});

test('a statement that has ended meanwhile is not halted', () => {
  const pulse = new Pulse();
  pulse.enter(Buffer.from('todos'));
  const beat = pulse.read() as number;
  pulse.beat();
  assert.equal(pulse.halt(beat), false);
  pulse.beat();
  assert.equal(pulse.halt(pulse.read() as number), true);
});

test('the number of a statement says whether it is a brief one', () => {
  const pulse = new Pulse();
  pulse.enter(Buffer.from('todos'));
  const seen = [false, true, true, false].map((brief) => {
    pulse.beat(brief);
    return pulse.read() as number;
  });
  assert.equal(new Set(seen).size, 4);
  assert.deepEqual(
    seen.map((beat) => beat % 2),
    [0, 1, 1, 0],
  );
});

test('a name longer than the memory is cut', () => {
  const pulse = new Pulse();
  pulse.enter(Buffer.alloc(1000, 'x'));
  assert.equal(pulse.name(), 'x'.repeat(256));
});

/** Even beats are of statements that may take 300 ms, odd ones of brief ones, which may take 200. */
const LOOKS: [name: string, beats: (number | null)[], stuckAt: number[]][] = [
  ['idle', [null, null, null, null, null], []],
  ['many short statements', [2, 4, 6, 7, 9], []],
  ['one that is stuck is told once', [8, 8, 8, 8, 8, 8], [3]],
  ['one that ends in time', [8, 8, 8, null, 8, 8, 8], []],
  ['a second one', [8, 8, 8, 8, 10, 10, 10, 10], [3, 7]],
  ['a brief one', [7, 7, 7, 7, 7], [2]],
  ['the commit of a brief one', [7, 7, 8, 8, 8, 8], [5]],
];
for (const [name, beats, stuckAt] of LOOKS) {
  test(`stuck: ${name}`, () => {
    const detector = new StuckDetector(100, 300, 200);
    const told = beats.map((beat) => [beat, detector.look(beat)] as const);
    assert.deepEqual(
      told.flatMap(([, allowed], at) => (allowed === null ? [] : [at])),
      stuckAt,
    );
    for (const [beat, allowed] of told) if (allowed !== null) assert.equal(allowed, (beat ?? 0) % 2 === 0 ? 300 : 200);
  });
}

test('the other thread reads how far each session has come, also one that has ended', () => {
  const now = () => 0;
  const begun = new Begun(now);
  const seen = new Begun(now, begun.memory);
  assert.deepEqual(seen.read(), []);
  const [one, two] = [begun.open(11), begun.open(22)];
  begun.mark(one, 5);
  // Half of a group that failed runs again.
  begun.mark(one, 3);
  begun.mark(two, 1);
  begun.close(11, one);
  assert.deepEqual(seen.read(), [
    [11, 5],
    [22, 1],
  ]);
  assert.deepEqual([begun.knows(11), begun.knows(22), begun.knows(33)], [true, true, false]);
});

test('the place of a session that ended is free again once no client can ask for it any more', () => {
  let now = 0;
  const begun = new Begun(() => now);
  for (let session = 1; session < LIMITS.writerSessions; session++) begun.open(session);
  const last = begun.open(LIMITS.writerSessions);
  begun.mark(last, 7);
  begun.close(LIMITS.writerSessions, last);
  now = LIMITS.handoverMs + 1;
  begun.mark(begun.open(9999), 2);
  assert.equal(begun.knows(LIMITS.writerSessions), false);
  assert.deepEqual(begun.read()?.at(-1), [9999, 2]);
});

test('with too many sessions none is reported', () => {
  const begun = new Begun(() => 0);
  for (let session = 1; session <= LIMITS.writerSessions + 1; session++) begun.mark(begun.open(session), 1);
  assert.equal(begun.read(), null);
  assert.equal(begun.knows(9_999_999), true);
});
