import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodedTag, noneMatch, parseRange, preferredEncoding, rangeApplies } from './assets.ts';

test('preferredEncoding', () => {
  const cases: [accept: string | undefined, expected: string][] = [
    [undefined, 'identity'],
    ['', 'identity'],
    ['gzip, deflate, br', 'br'],
    ['gzip', 'gzip'],
    ['GZIP', 'gzip'],
    ['br;q=0.5, gzip;q=0.8', 'gzip'],
    ['br;q=0, gzip;q=0', 'identity'],
    ['br;q=0, *', 'gzip'],
    ['*;q=0', 'identity'],
    ['*', 'br'],
    ['identity, br;q=0.5', 'identity'],
    ['identity;q=0.5, br ; q=0.5', 'br'],
    ['zstd, deflate', 'identity'],
    ['brotli', 'identity'],
    [',;q=1,, =', 'identity'],
  ];
  for (const [accept, expected] of cases) assert.equal(preferredEncoding(accept, ['br', 'gzip']), expected, accept);
  assert.equal(preferredEncoding('br, gzip', ['gzip']), 'gzip');
  assert.equal(preferredEncoding('br, gzip', []), 'identity');
});

test('each encoding has a separate tag', () => {
  assert.deepEqual(
    (['identity', 'br', 'gzip'] as const).map((encoding) => encodedTag('"abc"', encoding)),
    ['"abc"', '"abc-br"', '"abc-gzip"'],
  );
});

test('noneMatch', () => {
  const cases: [header: string | undefined, expected: boolean][] = [
    [undefined, false],
    ['"abc"', true],
    ['W/"abc"', true],
    ['"x", W/"abc" , "y"', true],
    ['*', true],
    ['"abcd"', false],
    ['abc', false],
    ['"abc-br"', false],
    ['', false],
  ];
  for (const [header, expected] of cases) assert.equal(noneMatch(header, '"abc"'), expected, header);
});

test('If-Range takes the strong tag only', () => {
  assert.equal(rangeApplies(undefined, '"abc"'), true);
  assert.equal(rangeApplies('"abc"', '"abc"'), true);
  assert.equal(rangeApplies('W/"abc"', '"abc"'), false);
  assert.equal(rangeApplies('Sat, 29 Oct 1994 19:43:31 GMT', '"abc"'), false);
});

test('parseRange', () => {
  const cases: [header: string, length: number, expected: [number, number] | 'unsatisfiable' | undefined][] = [
    ['bytes=0-0', 10, [0, 0]],
    ['bytes=2-5', 10, [2, 5]],
    ['Bytes=2-', 10, [2, 9]],
    ['bytes=2-99', 10, [2, 9]],
    ['bytes=-3', 10, [7, 9]],
    ['bytes=-99', 10, [0, 9]],
    ['bytes=10-', 10, 'unsatisfiable'],
    ['bytes=-0', 10, 'unsatisfiable'],
    ['bytes=0-', 0, 'unsatisfiable'],
    ['bytes=-1', 0, 'unsatisfiable'],
    ['bytes=5-2', 10, undefined],
    ['bytes=0-1,3-4', 10, undefined],
    ['bytes=-', 10, undefined],
    ['bytes=a-b', 10, undefined],
    ['lines=0-1', 10, undefined],
    [`bytes=${'9'.repeat(400)}-`, 10, 'unsatisfiable'],
  ];
  for (const [header, length, expected] of cases) {
    const [first, last] = Array.isArray(expected) ? expected : [];
    assert.deepEqual(parseRange(header, length), Array.isArray(expected) ? { first, last } : expected, header);
  }
});
