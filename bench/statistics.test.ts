import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../testing/random.ts';
import { beyondNoise, factorBetween, median, middleFactor, percentile, slope } from './statistics.ts';

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

test('the interval between two runs cuts off what the tables of the Mann–Whitney test say', () => {
  // Powers of two that no two quotients share, so that the ends name the ranks. Critical value at 5 %, 5 and 5 rounds: 2.
  const a = [0, 1, 2, 3, 4].map((i) => 2 ** i);
  const b = [0, 5, 10, 15, 20].map((i) => 2 ** i);
  const sorted = b.flatMap((over) => a.map((under) => over / under)).sort((one, other) => one - other);
  const { estimate, low, high } = factorBetween(a, b);
  assert.equal(estimate, sorted[12]);
  assert.equal(low, sorted[2]);
  assert.equal(high, sorted[22]);
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
  assert.equal(beyondNoise(factorBetween([1, 1, 1], [9, 9, 9])), false);
  assert.equal(beyondNoise(middleFactor([9, 9, 9, 9, 9])), false);
  assert.equal(beyondNoise(factorBetween([1, 1, 1, 1], [9, 9, 9, 9])), true);
  assert.equal(beyondNoise(middleFactor([9, 9, 9, 9, 9, 9])), true);
});

test('an outlier moves neither estimate nor verdict much', () => {
  const a = [100, 101, 99, 100, 102, 98];
  const b = [110, 111, 109, 30, 112, 108];
  const { estimate } = factorBetween(a, b);
  assert.ok(estimate > 1.05 && estimate < 1.12, `${estimate}`);
});

test('rounds that do not differ are called different in at most one case of twenty, a difference is found', () => {
  const random = new Random(7);
  const round = (level: number): number => level * (1 + 0.1 * (random.next() + random.next() - 1));
  const rounds = (level: number): number[] => Array.from({ length: 6 }, () => round(level));
  const share = (level: number): number => {
    let found = 0;
    for (let i = 0; i < 1000; i++) if (beyondNoise(factorBetween(rounds(100), rounds(level)))) found++;
    return found / 1000;
  };
  assert.ok(share(100) < 0.065, `${share(100)} of equal runs were told apart`);
  assert.ok(share(115) > 0.95, `${share(115)} of different runs were told apart`);
});
