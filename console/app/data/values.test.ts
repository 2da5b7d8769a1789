import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cell } from './tables.ts';
import { exactly, timeOf, timeUnitOf } from './values.ts';

const unit = (name: string, values: Cell[], type = 'INTEGER') => timeUnitOf({ name, type }, values);

test('a column is shown as times only where all of its values are plausibly times', () => {
  const ms = Date.UTC(2026, 10, 28, 13, 32, 5, 123);
  assert.equal(unit('createdAt', [ms, null, 0]), 'ms');
  assert.equal(unit('updated_at', [ms / 1000, Math.floor(ms / 1000)]), 's');
  assert.equal(unit('day', [ms], 'TIMESTAMP'), 'ms');
  assert.equal(unit('anything', ['2026-11-28T13:32:05.123Z', '2026-11-28T14:32+01:00'], 'TEXT'), 'iso');
  // Sizes, codes and phone numbers may be as large, and a text without a zone does not say when it was.
  assert.equal(unit('bytes', [ms]), null);
  assert.equal(unit('format', [ms]), null);
  assert.equal(unit('created_at', [ms, 7]), null);
  assert.equal(unit('created_at', [ms, String(ms)]), null);
  assert.equal(unit('created_at', ['2026-11-28 13:32:05'], 'TEXT'), null);
  assert.equal(unit('created_at', ['2026-13-28T13:32:05Z'], 'TEXT'), null);
  assert.equal(unit('created_at', [null, 0]), null);
});

test('a time is exact to its last digit, and 0 stays 0', () => {
  assert.equal(timeOf(1_764_336_725.5, 's'), 1_764_336_725_500);
  assert.equal(timeOf(0, 'ms'), null);
  assert.equal(timeOf('2026-11-28T14:32:05.1234567+01:00', 'iso'), Date.UTC(2026, 10, 28, 13, 32, 5, 123));
  assert.equal(exactly(1_764_336_725_123, 1_764_336_725_123), '1764336725123 (2025-11-28T13:32:05.123Z)');
  assert.equal(exactly('2026-11-28T14:32:05.1234567+01:00', 0), '2026-11-28T14:32:05.1234567+01:00');
});
