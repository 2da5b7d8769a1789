import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allRows, errorIn, formatBytes, PAGE_ROWS } from './client.ts';

test('a list is read until a page is not full', async () => {
  const all = Array.from({ length: 2 * PAGE_ROWS + 1 }, (_, n) => n);
  const asked: (number | undefined)[] = [];
  const read = async (last: number | undefined) => {
    asked.push(last);
    const from = last === undefined ? 0 : last + 1;
    return all.slice(from, from + PAGE_ROWS);
  };
  assert.deepEqual(await allRows(read), all);
  assert.deepEqual(asked, [undefined, PAGE_ROWS - 1, 2 * PAGE_ROWS - 1]);
});

test('an error is one of the gateway only if it has a code and a message', () => {
  const error = { code: 'NOT_FOUND', message: 'Nothing is here.' };
  assert.equal(errorIn({ error }), error);
  for (const answer of [
    undefined,
    null,
    'x',
    {},
    { error: 'x' },
    { error: { code: 'A' } },
    { error: { message: 'A' } },
  ])
    assert.equal(errorIn(answer), undefined);
});

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
