import assert from 'node:assert/strict';
import { test } from 'node:test';
import { median } from './statistics.ts';

test('the median is the middle of the sorted values', () => {
  assert.equal(median([10, 1, 2]), 2);
  assert.equal(median([10, 1, 2, 4]), 3);
  assert.equal(median([7]), 7);
});
