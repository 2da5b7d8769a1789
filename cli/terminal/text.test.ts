import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plural } from '../../protocol/text/units.ts';
import { drawLogEntry } from './log-entry.ts';
import { nearest } from './nearest.ts';
import { createStyle, visible, wantsColour } from './style.ts';
import { displayWidth, truncate } from './table.ts';
import { drawJson, progressLine } from './terminal.ts';
import { formatAge, formatDuration } from './units.ts';

test('widths count what a terminal shows', () => {
  for (const [text, width] of [
    ['', 0],
    ['abc', 3],
    ['é', 1],
    ['e\u0301', 1],
    ['日本語', 6],
    ['𠮷野家', 6],
    ['🇩🇪', 2],
    ['👍🏽', 2],
    ['👨‍👩‍👧', 2],
    ['a…b', 3],
  ] as const) {
    assert.equal(displayWidth(text), width, text);
  }
});

test('truncation never splits a character and never exceeds the width', () => {
  assert.equal(truncate('short', 5), 'short');
  assert.equal(truncate('longer', 5), 'long…');
  assert.equal(truncate('日本語', 5), '日本…');
  assert.equal(truncate('日本語', 4), '日…');
});

test('units', () => {
  for (const [ms, text] of [
    [0, '0 ms'],
    [999, '999 ms'],
    [45_000, '45 s'],
    [60_000, '1 min'],
    [8_040_500, '2 h 14 min'],
    [90_000_000, '1 d 1 h'],
  ] as const) {
    assert.equal(formatDuration(ms), text);
  }
  for (const [age, text] of [
    [-5000, 'just now'],
    [9000, 'just now'],
    [200_000, '3 min ago'],
    [200_000_000, '2 d ago'],
  ] as const) {
    assert.equal(formatAge(0, age), text);
  }
  assert.equal(plural(1, 'file'), '1 file');
  assert.equal(plural(1204, 'file'), '1,204 files');
});

test('the nearest name', () => {
  const names = ['serve', 'status', 'push', 'read', 'restart', 'rm', 'rollback'];
  for (const [typed, meant] of [
    ['sevre', 'serve'],
    ['puhs', 'push'],
    ['raed', 'read'],
    ['roll', 'rollback'],
    ['STATUS', 'status'],
    ['xyzzy', undefined],
    ['', undefined],
  ] as const) {
    assert.equal(nearest(typed, names), meant, typed);
  }
});

test('a text is written with our colours and no others', () => {
  const red = createStyle(true)('red', 'a\u001b[32mb');
  assert.equal(visible(`${red} c\u001b[0m`), '\u001b[31ma\\u001b[32mb\u001b[39m c\\u001b[0m');
  assert.equal(visible(createStyle(false)('red', '\u001b[1mx')), '\\u001b[1mx');
});

test('colours are used on terminals, and as the environment asks', () => {
  for (const [isTTY, env, wanted] of [
    [true, {}, true],
    [false, {}, false],
    [true, { NO_COLOR: '1' }, false],
    [true, { NO_COLOR: '' }, true],
    [true, { TERM: 'dumb' }, false],
    [false, { FORCE_COLOR: '1' }, true],
    [true, { FORCE_COLOR: '0' }, false],
  ] as const) {
    assert.equal(wantsColour({ isTTY }, env), wanted, JSON.stringify({ isTTY, env }));
  }
});

test('JSON for a reader is still JSON', () => {
  const value = { text: 'a "b": 1', list: [1, -2.5e9, true, null], empty: {} };
  assert.deepEqual(JSON.parse(drawJson(value, createStyle(false)).join('\n')), value);
  const coloured = drawJson({ a: 'x', n: 1 }, createStyle(true)).map(visible).join('\n');
  assert.ok(coloured.includes('\u001b[36m"a"\u001b[39m:') && coloured.includes('\u001b[32m"x"\u001b[39m'), coloured);
});

test('a progress bar fills from empty to full', () => {
  const plain = createStyle(false);
  assert.match(progressLine('Uploading', 0, 2048, plain), /^Uploading ░{28} {3}0 % {2}0 B of 2 KiB$/);
  assert.match(progressLine('Uploading', 1024, 2048, plain), /^Uploading █{14}░{14} {2}50 % {2}1 KiB of 2 KiB$/);
  assert.match(progressLine('Uploading', 2048, 2048, plain), /^Uploading █{28} 100 % /);
});

test('a log entry names the call that wrote it, if one did', () => {
  const draw = (tool: string | null) =>
    drawLogEntry(
      { ts: 0, level: 'error', app: 'notes', msg: 'late', tool, traceId: tool },
      createStyle(false),
      false,
    ).join();
  assert.match(draw('add'), / {2}error {2}add {2}late$/);
  assert.match(draw(null), / {2}error {2}late$/);
});
