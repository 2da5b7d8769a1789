/** Pages of the log are remembered within a limit, each in its last version. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { KnownPages } from './known-pages.ts';
import { takePage } from './page-memory.ts';

const PAGE_BYTES = 4096;
const MOST = LIMITS.logKnownBytes / PAGE_BYTES;
const APP = {};
const OTHER = {};

/** What a commit gives, each page filled with its number and `more`. */
function setOf(size: number, numbers: number[], more = 0) {
  const pages = new Map(numbers.map((n) => [n, takePage(PAGE_BYTES).fill(n + more)]));
  return { pageBytes: PAGE_BYTES, size, pages };
}

function numbers(from: number, count: number): number[] {
  return Array.from({ length: count }, (_, n) => from + n);
}

test('a page is known as it was sent last, whatever memory is lent later', () => {
  const known = new KnownPages<object>();
  known.add(APP, setOf(10, [1, 2]));
  known.add(OTHER, setOf(10, [1], 100));
  known.add(APP, setOf(10, [2, 3], 50));
  // The memory of the page that was replaced is lent again.
  for (let n = 0; n < 4; n++) takePage(PAGE_BYTES).fill(255);
  assert.deepEqual(
    [...known.of(APP)].map(([number, page]) => [number, page[0], page.at(-1)]),
    [
      [1, 1, 1],
      [2, 52, 52],
      [3, 53, 53],
    ],
  );
  assert.deepEqual(
    [...known.of(OTHER)].map(([number, page]) => [number, page[0]]),
    [[1, 101]],
  );
  known.forget(APP);
  assert.equal(known.of(APP).size, 0);
  assert.equal(known.of(OTHER).size, 1);
});

test('the database that changed longest ago loses its pages first, of them those that changed longest ago', () => {
  const known = new KnownPages<object>();
  known.add(OTHER, setOf(MOST, numbers(1, 10)));
  known.add(APP, setOf(MOST, numbers(1, MOST - 10)));
  known.add(OTHER, setOf(MOST, [5]));
  assert.deepEqual([known.of(APP).size, known.of(OTHER).size], [MOST - 10, 10]);
  known.add(OTHER, setOf(MOST, [11, 12]));
  assert.deepEqual([known.of(APP).size, known.of(OTHER).size], [MOST - 12, 12]);
  assert.ok(!known.of(APP).has(1) && !known.of(APP).has(2) && known.of(APP).has(3));
  known.add(APP, setOf(MOST, numbers(1, MOST)));
  assert.deepEqual([known.of(APP).size, known.of(OTHER).size], [MOST, 0]);
});

test('nothing is known of pages beyond the size, and of parts of a larger memory', () => {
  const known = new KnownPages<object>();
  known.add(APP, setOf(40, numbers(1, 40)));
  known.add(APP, setOf(30, [1]));
  assert.ok([...known.of(APP).keys()].every((number) => number <= 30));
  const whole = new Uint8Array(2 * PAGE_BYTES);
  const pages = new Map([1, 2].map((n) => [n, whole.subarray((n - 1) * PAGE_BYTES, n * PAGE_BYTES)]));
  known.add(APP, { pageBytes: PAGE_BYTES, size: 30, pages });
  assert.ok(!known.of(APP).has(1) && !known.of(APP).has(2) && known.of(APP).has(3));
});
