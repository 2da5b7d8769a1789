import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tileOf } from './icons.ts';

/** Relative luminance of a colour (WCAG 2). */
function luminance(hue: number, saturation: number, lightness: number): number {
  const channel = (n: number): number => {
    const k = (n + hue / 30) % 12;
    const value = lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(0) + 0.7152 * channel(8) + 0.0722 * channel(4);
}

test('a tile has the first letter of the id, and the same colour each time', () => {
  assert.match(tileOf('notes'), /<title>N<\/title>/);
  assert.match(tileOf('7-days'), /<title>7<\/title>/);
  assert.equal(tileOf('notes'), tileOf('notes'));
  assert.notEqual(tileOf('notes'), tileOf('news'));
});

test('every letter and digit has strokes of its own', () => {
  const strokes = [...'abcdefghijklmnopqrstuvwxyz0123456789'].map((letter) => / d='([^']+)'/.exec(tileOf(letter))?.[1]);
  assert.ok(!strokes.includes(undefined));
  assert.equal(new Set(strokes).size, 36);
});

test('white is readable on every colour that a tile may have', () => {
  for (let hue = 0; hue < 360; hue++) {
    const contrast = 1.05 / (luminance(hue, 0.6, 0.3) + 0.05);
    assert.ok(contrast >= 4.5, `hsl(${hue} 60% 30%) has ${contrast.toFixed(2)}`);
  }
});
