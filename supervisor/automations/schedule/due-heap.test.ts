import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DueHeap, type DueItem, OUTSIDE } from './due-heap.ts';

function item(due: number, order: number): DueItem {
  return { due, order, place: OUTSIDE };
}

function takeAll(heap: DueHeap<DueItem>): DueItem[] {
  const taken: DueItem[] = [];
  for (let first = heap.peek(); first; first = heap.peek()) {
    taken.push(first);
    heap.delete(first);
  }
  return taken;
}

test('what is due first is on top, and of the same time what was registered first', () => {
  const heap = new DueHeap<DueItem>();
  for (const [due, order] of [
    [5, 1],
    [3, 4],
    [5, 0],
    [1, 2],
    [3, 3],
  ] as const)
    heap.push(item(due, order));
  assert.deepEqual(
    takeAll(heap).map(({ due, order }) => [due, order]),
    [
      [1, 2],
      [3, 3],
      [3, 4],
      [5, 0],
      [5, 1],
    ],
  );
});

test('any item may be taken out of the middle, and twice does no harm', () => {
  const items = Array.from({ length: 500 }, (_, order) => item((order * 7919) % 101, order));
  const heap = new DueHeap<DueItem>();
  for (const one of items) heap.push(one);
  const gone = items.filter(({ order }) => order % 3 === 0);
  for (const one of [...gone, ...gone]) heap.delete(one);
  const left = items.filter((one) => !gone.includes(one)).sort((a, b) => a.due - b.due || a.order - b.order);
  assert.equal(heap.size, left.length);
  assert.deepEqual(takeAll(heap), left);
});

test('after it was cleared its items may be put in again', () => {
  const heap = new DueHeap<DueItem>();
  const one = item(1, 0);
  heap.push(one);
  heap.clear();
  assert.equal(heap.size, 0);
  heap.delete(one);
  heap.push(one);
  assert.deepEqual(takeAll(heap), [one]);
});
