import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toParams } from './sql-params.ts';

test('bytes are those of when the statement was given, also where it is sent again later', () => {
  const bytes = Buffer.from([1]);
  const all = [toParams([bytes]), toParams([[bytes]]), toParams([{ a: bytes }])];
  bytes.fill(9);
  const kept = new Uint8Array([1]);
  assert.deepEqual(all, [[kept], [kept], { a: kept }]);
});
