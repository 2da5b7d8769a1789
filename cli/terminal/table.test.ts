import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStyle, visible } from './style.ts';
import { type Column, drawTable, fit } from './table.ts';

const plain = createStyle(false);

test('columns are as wide as their widest cell, numbers are aligned to the right', () => {
  const lines = drawTable(
    [{ title: 'APP' }, { title: 'CALLS', align: 'right' }],
    [
      ['notes', '7'],
      [{ text: 'todos', format: 'bold' }, '1,204'],
    ],
    80,
    plain,
  );
  assert.deepEqual(lines, ['APP    CALLS', 'notes      7', 'todos  1,204']);
});

test('wide characters take two columns', () => {
  const lines = drawTable(
    [{ title: 'NAME' }, { title: 'X' }],
    [
      ['日本', 'a'],
      ['éa', 'b'],
    ],
    80,
    plain,
  );
  assert.deepEqual(lines, ['NAME  X', '日本  a', 'éa    b']);
});

test('a table that is too wide is cut in its widest column, and only on a terminal', () => {
  const rows = [['notes', 'a very long description of it']];
  const columns = [{ title: 'APP' }, { title: 'ABOUT' }];
  assert.deepEqual(drawTable(columns, rows, 20, plain), ['APP    ABOUT', 'notes  a very long …']);
  assert.match(drawTable(columns, rows, Number.POSITIVE_INFINITY, plain)[1] as string, /description of it$/);
});

test('a column that may be squeezed is cut first', () => {
  const columns: Column[] = [{ title: 'APP' }, { title: 'EXIT', squeeze: true }];
  assert.deepEqual(drawTable(columns, [['a long name', 'for a reason']], 19, plain)[1], 'a long name  for a…');
  assert.deepEqual(drawTable(columns, [['a long name', 'for a reason']], 12, plain)[1], 'a lon…  for…');
});

test('colours go around the padded cell and do not shift it', () => {
  const [, row] = drawTable(
    [{ title: 'A' }, { title: 'B' }],
    [[{ text: 'x', format: 'red' }, 'y']],
    80,
    createStyle(true),
  );
  assert.equal(visible(row ?? ''), '\u001b[31mx\u001b[39m  y');
});

for (const [natural, available, expected] of [
  [[5, 5], 20, [5, 5]],
  [[5, 30], 20, [5, 15]],
  [[10, 30, 30], 40, [10, 15, 15]],
  [[20, 20], 30, [15, 15]],
  [[10, 10], 3, [4, 4]],
] as const) {
  test(`widths ${natural} in ${available} become ${expected}`, () => {
    assert.deepEqual(fit([...natural], available), expected);
  });
}
