import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ChangeRing } from './change-ring.ts';

type Event = { table: string; bytes: number; seq: number };

function ringOf(start: number, capacity: number, events: number): ChangeRing<Event> {
  const ring = new ChangeRing<Event>(start, capacity);
  for (let i = 1; i <= events; i++) ring.append({ table: 't', bytes: 3, seq: start + i });
  return ring;
}

const replayed = (ring: ChangeRing<Event>, seq: number) => ring.since(seq)?.map((event) => event.seq);

test('replays what came after a number, and finds gaps', () => {
  const cases: [events: number, since: number, expected: number[] | undefined][] = [
    [0, 100, []],
    [0, 99, undefined],
    [0, 101, undefined],
    [2, 100, [101, 102]],
    [2, 102, []],
    [2, 103, undefined],
    [4, 100, [101, 102, 103, 104]],
    [5, 100, undefined],
    [5, 101, [102, 103, 104, 105]],
    [11, 107, [108, 109, 110, 111]],
    [11, 106, undefined],
    [11, 110, [111]],
    [11, Number.NaN, undefined],
  ];
  for (const [events, since, expected] of cases) {
    assert.deepEqual(replayed(ringOf(100, 4, events), since), expected, `${events} events, since ${since}`);
  }
});

test('counts the bytes that it keeps', () => {
  const ring = ringOf(100, 4, 9);
  assert.equal(ring.bytes, 4 * 3);
  assert.equal(ring.last, 109);
});

test('clear keeps the number, skip takes one; both leave a gap behind', () => {
  const ring = ringOf(100, 4, 6);
  ring.clear();
  assert.deepEqual([ring.last, ring.bytes, replayed(ring, 105), replayed(ring, 106)], [106, 0, undefined, []]);
  ring.append({ table: 't', bytes: 3, seq: 107 });
  assert.deepEqual(replayed(ring, 106), [107]);
  ring.skip();
  assert.deepEqual([ring.last, replayed(ring, 107), replayed(ring, 108)], [108, undefined, []]);
});
