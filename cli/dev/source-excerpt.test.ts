import assert from 'node:assert/strict';
import { test } from 'node:test';
import { excerpt, jsonFault } from './source-excerpt.ts';

test('the line is shown below the one before it, and its column is marked', () => {
  const text = Array.from({ length: 12 }, (_, n) => `line ${n + 1}\r\n`).join('');
  assert.deepEqual(excerpt(text, { line: 10, column: 6 }), [' 9 │ line 9', '10 │ line 10', '   │      ^']);
  assert.deepEqual(excerpt('a ;', { line: 1, column: 3 }), ['1 │ a ;', '  │   ^']);
  assert.deepEqual(excerpt('a', { line: 2, column: 1 }), []);
});

test('the mark stands right below tabs and control characters, which cannot drive the terminal', () => {
  assert.deepEqual(excerpt('\t\u001b[2J;', { line: 1, column: 6 }), ['1 │  \\u001b[2J;', '  │           ^']);
});

test('of a long line the part around the column is shown', () => {
  const shown = excerpt(`${'a'.repeat(100_000)};${'b'.repeat(100_000)}`, { line: 1, column: 100_001 });
  assert.deepEqual(shown, [`1 │ ${'a'.repeat(50)};${'b'.repeat(49)}`, `  │ ${' '.repeat(50)}^`]);
});

test('where JSON breaks off is told by line and column', () => {
  assert.equal(jsonFault('{"a": 1}'), null);
  assert.deepEqual(jsonFault('{\n  "a": 1,\n}\n'), {
    reason: 'Expected double-quoted property name',
    place: { line: 3, column: 1 },
  });
  assert.deepEqual(jsonFault('{\n  "a": [1'), {
    reason: "Expected ',' or ']' after array element",
    place: { line: 2, column: 10 },
  });
  assert.deepEqual(jsonFault('{\n\n')?.place, { line: 3, column: 1 });
  assert.match(jsonFault('{"a": x}')?.reason ?? '', /Unexpected token 'x'/);
});
