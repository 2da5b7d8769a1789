import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Progress, Pulse, placeOf, StuckDetector } from './watch.ts';

const PLACE = placeOf('todos', '/data/todos.sqlite');

test('the other thread sees work, its beat and whose it is', () => {
  const pulse = new Pulse();
  const seen = new Pulse(pulse.memory);
  assert.equal(seen.read(), null);
  pulse.enter(PLACE);
  const first = seen.read();
  assert.notEqual(first, null);
  assert.deepEqual(seen.place(), { name: 'todos', file: '/data/todos.sqlite' });
  pulse.beat();
  assert.notEqual(seen.read(), first);
  pulse.leave();
  assert.equal(seen.read(), null);
});

test('a statement that has ended meanwhile is not halted', () => {
  const pulse = new Pulse();
  pulse.enter(PLACE);
  const beat = pulse.read() as number;
  pulse.beat();
  assert.equal(pulse.halt(beat), false);
  pulse.beat();
  assert.equal(pulse.halt(pulse.read() as number), true);
});

test('the number of a statement says whether it is a brief one', () => {
  const pulse = new Pulse();
  pulse.enter(PLACE);
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

test('a place longer than the memory is cut', () => {
  const pulse = new Pulse();
  pulse.enter(placeOf('x', 'y'.repeat(10_000)));
  assert.deepEqual([pulse.place().name, pulse.place().file.length], ['x', 4096 + 256 - 2]);
});

test('the other thread sees that a migration is under way', () => {
  const pulse = new Pulse();
  const seen = new Pulse(pulse.memory);
  pulse.migrations(1);
  pulse.migrations(1);
  pulse.migrations(-1);
  assert.equal(seen.isMigrating, true);
  pulse.migrations(-1);
  assert.equal(seen.isMigrating, false);
});

/** A statement is stuck after 400 ms; odd ones are brief, and slow after 200. */
const LOOKS: [name: string, beats: (number | null)[], verdicts: Record<number, 'slow' | 'stuck'>][] = [
  ['idle', [null, null, null, null, null, null], {}],
  ['many short statements', [2, 4, 6, 7, 9, 11], {}],
  ['one that is stuck is told once', [8, 8, 8, 8, 8, 8, 8], { 4: 'stuck' }],
  ['one that ends in time', [8, 8, 8, 8, null, 8, 8, 8, 8], {}],
  ['a second one', [8, 8, 8, 8, 8, 10, 10, 10, 10, 10], { 4: 'stuck', 9: 'stuck' }],
  ['a slow one is told until it is stuck', [7, 7, 7, 7, 7, 7, 7], { 2: 'slow', 3: 'slow', 4: 'stuck' }],
  ['a slow one that ends', [7, 7, 7, 9, 9, null], { 2: 'slow' }],
  ['the commit of a brief one', [7, 7, 8, 8, 8, 8, 8], { 6: 'stuck' }],
];
for (const [name, beats, verdicts] of LOOKS) {
  test(`stuck: ${name}`, () => {
    const detector = new StuckDetector(100, 400, 200);
    const told = beats.map((beat) => detector.look(beat));
    assert.deepEqual(Object.fromEntries(Object.entries(told).filter(([, verdict]) => verdict !== null)), verdicts);
  });
}

test('the other thread reads how far each connection has come, also one that has ended', () => {
  const now = () => 0;
  const progress = new Progress(now);
  const seen = new Progress(now, progress.memory);
  assert.deepEqual(seen.read(), []);
  const [one, two] = [progress.open(11), progress.open(22)];
  progress.operation(one, 5);
  // Half of a group that failed runs again.
  progress.operation(one, 3);
  progress.commit(one, 4);
  progress.operation(two, 1);
  progress.close(11, one);
  assert.deepEqual(seen.read(), [
    [11, 5, 4],
    [22, 1, 0],
  ]);
  assert.deepEqual([progress.knows(11), progress.knows(22), progress.knows(33)], [true, true, false]);
});

test('the place of a connection that ended is free again once no client can ask for it any more', () => {
  let now = 0;
  const progress = new Progress(() => now);
  for (let connectionId = 1; connectionId < LIMITS.writerConnections; connectionId++) progress.open(connectionId);
  const last = progress.open(LIMITS.writerConnections);
  progress.operation(last, 7);
  progress.commit(last, 8);
  progress.close(LIMITS.writerConnections, last);
  now = LIMITS.handoverMs + 1;
  progress.operation(progress.open(9999), 2);
  assert.equal(progress.knows(LIMITS.writerConnections), false);
  assert.deepEqual(progress.read()?.at(-1), [9999, 2, 0]);
});

test('with too many connections none is reported, until those without a place ended a while ago', () => {
  let now = 0;
  const progress = new Progress(() => now);
  const places = Array.from({ length: LIMITS.writerConnections + 1 }, (_, connectionId) =>
    progress.open(connectionId + 1),
  );
  for (const place of places) progress.operation(place, 1);
  const isUnknown = () => progress.read() === null && progress.knows(9_999_999);
  assert.equal(isUnknown(), true);
  progress.close(1, places[0] as number);
  now += LIMITS.handoverMs + 1;
  // Takes the place of the first one; that of the last one is still missing.
  const next = progress.open(7777);
  assert.equal(isUnknown(), true);
  progress.close(LIMITS.writerConnections + 1, places.at(-1) as number);
  progress.close(7777, next);
  now += LIMITS.handoverMs + 1;
  progress.open(8888);
  assert.equal(isUnknown(), false);
});
