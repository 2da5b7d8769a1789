import assert from 'node:assert/strict';
import { test } from 'node:test';
import { printable } from './printable.ts';

/** Code points that a terminal may act on instead of showing them: C0, DEL, C1, line ends, and what turns the order of a text. */
const DRIVING = [
  ...Array.from({ length: 0x20 }, (_, code) => code).filter((code) => code !== 0x09),
  ...Array.from({ length: 0x21 }, (_, i) => 0x7f + i),
  ...[0x061c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069],
];

test('no code point is left that could drive a terminal', () => {
  for (const code of DRIVING) {
    const shown = printable(`a${String.fromCodePoint(code)}b`);
    const expected = code === 0x0a ? 'a ⏎ b' : `a\\u${code.toString(16).padStart(4, '0')}b`;
    assert.equal(shown, expected, `U+${code.toString(16)}`);
  }
});

test('text for people stays as it is', () => {
  for (const text of ['', 'abc\tdef', 'Zürich – 日本語', '👨‍👩‍👧', 'שלום', '\\u001b'])
    assert.equal(printable(text), text);
  assert.equal(printable('two\r\n   lines\nmore'), 'two ⏎ lines ⏎ more');
});

test('JSON on one line says the same afterwards', () => {
  const value = { text: String.fromCodePoint(...DRIVING), 'k\u009b\u202e': 'line\nend' };
  const shown = printable(JSON.stringify(value));
  assert.deepEqual(JSON.parse(shown), value);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there.
  assert.doesNotMatch(shown, /[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
});

test('it is done only once, however often it is asked for', () => {
  const once = printable('\u001b[2J\n\u202e');
  assert.equal(printable(once), once);
});

test('a text of many blanks takes no longer than its length', () => {
  const blanks = ' '.repeat(2_000_000);
  assert.equal(printable(blanks), blanks);
});
