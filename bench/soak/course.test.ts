import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Sample, secondHalf } from './course.ts';

/** A sample every ten seconds. */
const samples = (heaps: number[]): Sample[] =>
  heaps.map((heapUsed, i) => ({
    at: i * 10,
    pss: {},
    rss: {},
    heap: { heapUsed, arrayBuffers: 0 },
    descriptors: {},
    threads: {},
    files: { count: 0, bytes: 0 },
  }));

const growth = (heaps: number[]) => secondHalf(samples(heaps), ({ heap }) => heap.heapUsed);

test('what grows while caches fill does not count, what grows after that does', () => {
  assert.deepEqual(growth([10, 40, 70, 100, 100, 100, 100]), { middle: 100, share: 0 });
  assert.deepEqual(growth([100, 100, 100, 100, 105, 110, 115]).middle, 107.5);
  assert.ok(Math.abs(growth([100, 100, 100, 100, 105, 110, 115]).share - 15 / 107.5) < 1e-9);
});

test('one sample out of line is no growth', () => {
  assert.equal(growth([100, 100, 100, 100, 100, 100, 900, 100, 100]).share, 0);
});

test('too few samples tell no growth', () => {
  assert.deepEqual(growth([100]), { middle: 100, share: 0 });
});
