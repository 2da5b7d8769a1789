import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TextFlow } from './text-flow.ts';

function flow(pieces: string[], columns: number): string {
  let text = '';
  const made = new TextFlow((more) => (text += more), columns, '  ');
  for (const piece of pieces) made.push(piece);
  made.finish();
  return text;
}

test('lines break between words, however the text is cut into pieces', () => {
  const text = 'The quick brown fox jumps over the lazy dog, twice.';
  const wanted = '  The quick brown fox\n  jumps over the lazy\n  dog, twice.\n';
  assert.equal(flow([text], 23), wanted);
  assert.equal(flow([...text], 23), wanted);
});

test('its own line ends and indents stay', () => {
  assert.equal(flow(['a\n', '\n  b', ' c\r\nd  \n'], 40), '  a\n\n    b c\n  d\n');
});

test('a word longer than a line is broken, wide characters by the columns that they take', () => {
  assert.equal(flow(['x'.repeat(30)], 19), `  ${'x'.repeat(16)}\n  ${'x'.repeat(14)}\n`);
  assert.equal(flow(['漢'.repeat(10)], 19), `  ${'漢'.repeat(8)}\n  漢漢\n`);
});

test('in a pipe the text passes as it comes', () => {
  let text = '';
  const made = new TextFlow((more) => (text += more), Number.POSITIVE_INFINITY, '  ');
  made.push('half a wo');
  assert.equal(text, 'half a wo');
  made.push(`rd ${'y'.repeat(500)}\n  code`);
  made.finish();
  assert.equal(text, `half a word ${'y'.repeat(500)}\n  code\n`);
});
