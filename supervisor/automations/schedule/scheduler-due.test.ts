import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DueList } from './scheduler.ts';

type DueItem = { due: number; readonly order: number };

function item(due: number, order: number): DueItem {
  return { due, order };
}

function takeAll(list: DueList<DueItem>): DueItem[] {
  const taken: DueItem[] = [];
  for (let first = list.first; first; first = list.first) {
    taken.push(first);
    list.delete(first);
  }
  return taken;
}

test('the earliest is on top, and at equal times the first registered', () => {
  const list = new DueList<DueItem>();
  for (const [due, order] of [
    [5, 1],
    [3, 4],
    [5, 0],
    [1, 2],
    [3, 3],
  ] as const)
    list.add(item(due, order));
  assert.deepEqual(
    takeAll(list).map(({ due, order }) => [due, order]),
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
  const list = new DueList<DueItem>();
  for (const one of items) list.add(one);
  const gone = items.filter(({ order }) => order % 3 === 0);
  for (const one of [...gone, ...gone]) list.delete(one);
  const left = items.filter((one) => !gone.includes(one)).sort((a, b) => a.due - b.due || a.order - b.order);
  assert.deepEqual(takeAll(list), left);
});

test('after it was cleared its items may be put in again', () => {
  const list = new DueList<DueItem>();
  const one = item(1, 0);
  list.add(one);
  list.clear();
  assert.equal(list.first, undefined);
  list.delete(one);
  list.add(one);
  assert.deepEqual(takeAll(list), [one]);
});
