import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cron } from 'croner';
import { WallPattern } from './wall-pattern.ts';

const FROM = Date.parse('2026-02-27T22:59:30.500Z');
const FIRES = 40;

const TIMES = ['0 9', '*/15 *', '5-50/15 8-18/5', '59,0,30 0,23', '7 */7', '00 09', '* ?', '1,*/30 0-3'];
const SECONDS = ['', '0 ', '*/20 ', '59 ', '3,1-2 '];
const DAYS = [
  '* * *',
  '? * MON-FRI',
  '31 * *',
  '29 2 *',
  'L * *',
  'LW * *',
  '15W * *',
  '* * 5#2',
  '* * FRIL',
  '1 jan,JUL SUN',
  '13 * +FRI',
  '*/10 */3 0,7',
];
const NICKNAMES = ['@yearly', '@Monthly', '@weekly', '@daily', '@hourly'];
const INVALID = ['60 9 * * *', '0 24 * * *', '0 5/10 * * *', '*/0 * * * *', '9-8 * * * *', ', * * * *', '0 9 32 * *'];
const MORE_INVALID = ['0 9 * *', '2026-03-01T09:00:00', '0 9 * a:b *', '* * * * FRI-', '0 9 31 * 8', ''];

test('its times are those of croner, which reads the days for it', () => {
  const plain = SECONDS.flatMap((second) => TIMES.flatMap((time) => DAYS.map((days) => `${second}${time} ${days}`)));
  for (const expr of [...plain, ...NICKNAMES]) {
    const expected = new Cron(expr, { utcOffset: 0, paused: true })
      .nextRuns(FIRES, new Date(FROM))
      .map((date) => date.getTime());
    const pattern = new WallPattern(expr);
    const found: number[] = [];
    for (let at = pattern.after(FROM); at !== null && found.length < FIRES; at = pattern.after(at)) found.push(at);
    assert.deepEqual(found, expected, expr);
  }
});

test('what croner refuses is refused', () => {
  for (const expr of [...INVALID, ...MORE_INVALID]) assert.throws(() => new WallPattern(expr), `"${expr}"`);
});

test('days that no month has never come', () => {
  assert.equal(new WallPattern('0 9 30 2 *').after(FROM), null);
  assert.equal(new WallPattern('0 9 31 4,6 *').after(FROM), null);
});
