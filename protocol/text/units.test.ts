import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatBytes, plural } from './units.ts';

test('sizes', () => {
  for (const [bytes, text] of [
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1 KiB'],
    [39_117, '38.2 KiB'],
    [250 * 1024 * 1024, '250 MiB'],
  ] as const) {
    assert.equal(formatBytes(bytes), text);
  }
});

test('nouns follow their count', () => {
  assert.deepEqual(
    [plural(1, 'query'), plural(2, 'query'), plural(1204, 'day'), plural(0, 'file')],
    ['1 query', '2 queries', '1,204 days', '0 files'],
  );
});
