import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pulse, StuckDetector } from './pulse.ts';

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

test('a name longer than the memory is cut', () => {
  const pulse = new Pulse();
  pulse.enter(Buffer.alloc(1000, 'x'));
  assert.equal(pulse.name(), 'x'.repeat(256));
});

const LOOKS: [name: string, beats: (number | null)[], stuckAt: number[]][] = [
  ['idle', [null, null, null, null, null], []],
  ['many short statements', [1, 2, 3, 4, 5], []],
  ['one that is stuck is told once', [7, 7, 7, 7, 7, 7], [3]],
  ['one that ends in time', [7, 7, 7, null, 7, 7, 7], []],
  ['a second one', [7, 7, 7, 7, 8, 8, 8, 8], [3, 7]],
];
for (const [name, beats, stuckAt] of LOOKS) {
  test(`stuck: ${name}`, () => {
    const detector = new StuckDetector(100, 300);
    const told = beats.map((beat) => detector.look(beat)).flatMap((stuck, at) => (stuck ? [at] : []));
    assert.deepEqual(told, stuckAt);
  });
}
