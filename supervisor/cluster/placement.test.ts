import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BUCKETS } from '../../protocol/buckets.ts';
import { Random } from '../../testing/random.ts';
import { place } from './placement.ts';

type Owners = (string | null)[];

const nobody: Owners = Array.from({ length: BUCKETS }, () => null);
const named = (count: number, prefix = 'node-'): string[] => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

function loadsOf(owners: Owners, nodes: string[]): number[] {
  const loads = new Map(nodes.map((name) => [name, 0]));
  for (const owner of owners) loads.set(owner as string, (loads.get(owner as string) ?? 0) + 1);
  assert.equal(loads.size, nodes.length, 'only nodes own buckets');
  return [...loads.values()];
}

const movedBetween = (before: Owners, after: Owners): number[] =>
  before.flatMap((owner, bucket) => (owner === after[bucket] ? [] : [bucket]));

test('every bucket has an owner, and the loads are even, for any number of nodes', () => {
  for (const count of [1, 2, 3, 5, 16, 99, 100, 400]) {
    const nodes = named(count);
    const loads = loadsOf(place(nobody, nodes), nodes);
    const mean = BUCKETS / count;
    assert.ok(Math.max(...loads) <= Math.max(Math.ceil(mean), mean * 1.1), `${count} nodes: ${Math.max(...loads)}`);
    assert.ok(Math.min(...loads) >= Math.floor(mean * 0.9), `${count} nodes: ${Math.min(...loads)}`);
  }
  assert.deepEqual(place(nobody, []), nobody);
});

test('nodes that know the same find the same, in whatever order they know it', () => {
  const random = new Random(7);
  const nodes = named(20);
  const owners = nobody.map(() => (random.next() < 0.2 ? null : random.pick(nodes)));
  assert.deepEqual(place(owners, random.shuffled(nodes)), place(owners, nodes));
});

test('what a lost node had goes to the others, and nothing else moves', () => {
  const nodes = named(10);
  const before = place(nobody, nodes);
  const left = nodes.slice(1);
  const moved = movedBetween(before, place(before, left));
  assert.ok(moved.every((bucket) => before[bucket] === 'node-0'));
  assert.ok(new Set(moved.map((bucket) => place(before, left)[bucket])).size === left.length, 'all others share them');
});

test('a node that joins takes no more than its share, and nothing moves between the others', () => {
  const nodes = named(3);
  const before = place(nobody, nodes);
  const after = place(before, [...nodes, 'new']);
  const moved = movedBetween(before, after);
  assert.ok(moved.every((bucket) => after[bucket] === 'new'));
  assert.ok(moved.length > 0 && moved.length <= BUCKETS / 4);
});

test('over a random history nothing moves twice, loads stay in bounds, and no more moves than is needed', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed);
    const nodes = named(random.between(2, 60), `of-${seed}-`);
    let owners = place(nobody, nodes);
    for (let step = 0; step < 20; step++) {
      if (random.next() < 0.5 || nodes.length < 3) nodes.push(`later-${step}`);
      else nodes.splice(random.between(0, nodes.length - 1), random.between(1, Math.ceil(nodes.length / 4)));
      const after = place(owners, nodes);
      const loads = loadsOf(after, nodes);
      const mean = BUCKETS / nodes.length;
      assert.ok(Math.max(...loads) <= Math.max(Math.ceil(mean), mean * 1.1), `seed ${seed}, step ${step}`);
      const before = nodes.map((node) => owners.filter((owner) => owner === node).length);
      const orphans = owners.filter((owner) => !nodes.includes(owner as string)).length;
      const uneven = before.reduce(
        (sum, load) => sum + Math.max(0, load - Math.floor(mean), Math.floor(mean * 0.9) - load),
        0,
      );
      assert.ok(movedBetween(owners, after).length <= orphans + uneven, `seed ${seed}, step ${step}`);
      assert.deepEqual(place(after, nodes), after, `seed ${seed}, step ${step}: it is stable`);
      owners = after;
    }
  }
});
