import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../testing/random.ts';
import { beyondNoise, median, middleFactor, percentile, slope } from './statistics.ts';

test('the median is the middle of the sorted values', () => {
  assert.equal(median([10, 1, 2]), 2);
  assert.equal(median([10, 1, 2, 4]), 3);
  assert.equal(median([7]), 7);
});

test('a percentile is one of the values', () => {
  assert.equal(percentile([5, 1, 4, 2, 3], 0.5), 3);
  assert.equal(percentile([5, 1, 4, 2, 3], 0.99), 5);
  assert.equal(percentile([7], 0.01), 7);
});

test('a slope is that of most of the points', () => {
  const line = Array.from({ length: 20 }, (_, x) => ({ x, y: 3 + 2 * x }));
  assert.equal(slope(line), 2);
  assert.equal(slope([...line, { x: 20, y: 1e9 }]), 2);
});

test('the interval of neighbouring rounds cuts off what the tables of the signed-rank test say', () => {
  // Critical value at 5 % for six pairs: 0, so only the ends are cut; for ten pairs: 8.
  const six = [1, 2, 4, 8, 16, 32];
  assert.deepEqual(middleFactor(six), { estimate: Math.sqrt(32), low: 1, high: 32 });
  const ten = Array.from({ length: 10 }, (_, i) => 2 ** (2 ** i / 100));
  const means = ten
    .flatMap((one, i) => ten.slice(i).map((other) => Math.sqrt(one * other)))
    .sort((one, other) => one - other);
  const { low, high } = middleFactor(ten);
  assert.equal(low, means[8]);
  assert.equal(high, means[means.length - 9]);
});

test('too few rounds are never beyond noise', () => {
  assert.equal(beyondNoise(middleFactor([9, 9, 9, 9, 9])), false);
  assert.equal(beyondNoise(middleFactor([9, 9, 9, 9, 9, 9])), true);
});

test('an outlier moves neither estimate nor verdict much', () => {
  const { estimate } = middleFactor([1.1, 1.1, 1.09, 0.3, 1.11, 1.1]);
  assert.ok(estimate > 1.05 && estimate < 1.12, `${estimate}`);
});

test('rounds that do not differ are called different in at most one case of twenty, a difference is found', () => {
  const random = new Random(7);
  const round = (level: number): number => level * (1 + 0.1 * (random.next() + random.next() - 1));
  const quotients = (level: number): number[] => Array.from({ length: 12 }, () => round(level) / round(100));
  const share = (level: number): number => {
    let found = 0;
    for (let i = 0; i < 1000; i++) if (beyondNoise(middleFactor(quotients(level)))) found++;
    return found / 1000;
  };
  assert.ok(share(100) < 0.065, `${share(100)} of equal builds were told apart`);
  assert.ok(share(115) > 0.95, `${share(115)} of different builds were told apart`);
});
