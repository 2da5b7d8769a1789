// The native part of msgpackr is found without the package that looks for it.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { pack } from 'msgpackr/pack';
import { extractStrings } from './string-extractor.ts';

test('it is loaded, and by itself', () => {
  const text = 'a string that is long enough to be read by it';
  const bytes = pack(text);
  const extract = extractStrings as (start: number, end: number, buffer: ArrayBuffer) => unknown;
  const found = extract(bytes.byteOffset, bytes.byteOffset + bytes.length, bytes.buffer as ArrayBuffer);
  assert.equal([found].flat()[0], text);
  const loaded = Object.keys(createRequire(import.meta.url).cache);
  assert.deepEqual(
    loaded.filter((file) => file.includes('node-gyp-build')),
    [],
  );
});
