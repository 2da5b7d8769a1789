import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Histogram } from './histogram.ts';

test('percentiles are within 1 % of the values, from a microsecond to minutes', () => {
  for (const scale of [1, 7, 1000, 60_000, 1_000_000]) {
    const histogram = new Histogram();
    for (let i = 1; i <= 1000; i++) histogram.record(i * scale);
    for (const share of [0.001, 0.5, 0.99, 0.999, 1]) {
      const exact = share * 1000 * scale;
      const off = Math.abs(histogram.percentile(share) - exact) / exact;
      assert.ok(off <= 0.01, `p${share * 100} at scale ${scale} is ${off * 100} % off`);
    }
  }
});

test('histograms of several processes add up', () => {
  const slow = new Histogram();
  const all = new Histogram();
  for (let i = 0; i < 9; i++) all.record(10);
  slow.record(100);
  all.add(slow.counts());
  assert.equal(all.total, 10);
  assert.equal(all.percentile(0.9), 10);
  assert.equal(all.percentile(1), 100);
});

test('without values every percentile is 0', () => {
  assert.equal(new Histogram().percentile(0.99), 0);
});
