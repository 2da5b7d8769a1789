import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allRows, PAGE_ROWS } from './list-pages.ts';

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
