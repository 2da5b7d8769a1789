import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offsetOf } from './trace-context.ts';

test('the offset of two clocks is right although the thread is put aside between some readings', () => {
  let now = 1000;
  // Milliseconds that pass between reading one clock and the other.
  const pauses = [40, 3, 0, 12, 0];
  const behind = () => {
    now += pauses.shift() ?? 0;
    return now - 250;
  };
  assert.equal(
    offsetOf(() => now, behind),
    250,
  );
});
