import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cron } from 'croner';
import { LIMITS } from '../limits.ts';
import { CronTimes } from './cron-times.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const BERLIN = 'Europe/Berlin';
const NEW_YORK = 'America/New_York';
const LORD_HOWE = 'Australia/Lord_Howe';

const times = new CronTimes('UTC');

function fires(expr: string, tz: string, from: string | number, to: string | number): number[] {
  const [start, end] = [new Date(from).getTime(), new Date(to).getTime()];
  const found: number[] = [];
  for (let at = times.next({ expr, tz }, start - 1); at !== null && at < end; at = times.next({ expr, tz }, at))
    found.push(at);
  return found;
}

/** What the clocks of the zone show, as `29 02:30`. */
function onTheWall(at: number, tz: string): string {
  return new Date(at).toLocaleString('sv-SE', { timeZone: tz }).slice(8, 16);
}

/** [expression, zone, from, to, what the clocks show at each fire]. */
const CHANGES: [expr: string, tz: string, from: string, to: string, shown: string[]][] = [
  // Berlin, 29 March 2026: 02:00 becomes 03:00.
  ['30 2 * * *', BERLIN, '2026-03-28', '2026-03-31', ['28 02:30', '29 03:00', '30 02:30']],
  ['0 2 * * *', BERLIN, '2026-03-28', '2026-03-30T12:00Z', ['28 02:00', '29 03:00', '30 02:00']],
  ['0 3 * * *', BERLIN, '2026-03-28', '2026-03-30T12:00Z', ['28 03:00', '29 03:00', '30 03:00']],
  ['0 0 * * *', BERLIN, '2026-03-27T23:00Z', '2026-03-30T12:00Z', ['28 00:00', '29 00:00', '30 00:00']],
  ['30 2,14 * * *', BERLIN, '2026-03-28T23:00Z', '2026-03-29T22:00Z', ['29 03:00', '29 14:30']],
  ['30 1-3 * * *', BERLIN, '2026-03-28T23:00Z', '2026-03-29T22:00Z', ['29 01:30', '29 03:00', '29 03:30']],
  ['*/20 2 * * *', BERLIN, '2026-03-28T23:00Z', '2026-03-29T22:00Z', ['29 03:00']],
  ['0 */2 * * *', BERLIN, '2026-03-28T23:00Z', '2026-03-29T05:00Z', ['29 00:00', '29 03:00', '29 04:00', '29 06:00']],
  ['0 * * * *', BERLIN, '2026-03-28T23:00Z', '2026-03-29T03:00Z', ['29 00:00', '29 01:00', '29 03:00', '29 04:00']],
  ['30 2 29 3 *', BERLIN, '2026-01-01', '2026-12-31', ['29 03:00']],
  // 25 October 2026: 03:00 becomes 02:00.
  ['30 2 * * *', BERLIN, '2026-10-24', '2026-10-26T12:00Z', ['24 02:30', '25 02:30', '26 02:30']],
  ['0 2 * * *', BERLIN, '2026-10-24', '2026-10-26T12:00Z', ['24 02:00', '25 02:00', '26 02:00']],
  ['0 3 * * *', BERLIN, '2026-10-24', '2026-10-26T12:00Z', ['24 03:00', '25 03:00', '26 03:00']],
  ['0 0 * * *', BERLIN, '2026-10-23T22:00Z', '2026-10-26T12:00Z', ['24 00:00', '25 00:00', '26 00:00']],
  ['30 2,14 * * *', BERLIN, '2026-10-24T22:00Z', '2026-10-25T22:00Z', ['25 02:30', '25 14:30']],
  ['*/20 2 * * *', BERLIN, '2026-10-24T22:00Z', '2026-10-25T22:00Z', ['25 02:00', '25 02:20', '25 02:40']],
  ['0 */2 * * *', BERLIN, '2026-10-24T22:00Z', '2026-10-25T04:00Z', ['25 00:00', '25 02:00', '25 04:00']],
  ['0 0-23 * * *', BERLIN, '2026-10-25T00:00Z', '2026-10-25T03:00Z', ['25 02:00', '25 02:00', '25 03:00']],
  // New York, 8 March 2026: 02:00 becomes 03:00; 1 November: 02:00 becomes 01:00.
  ['30 2 * * *', NEW_YORK, '2026-03-07T05:00Z', '2026-03-09T22:00Z', ['07 02:30', '08 03:00', '09 02:30']],
  ['30 1 * * *', NEW_YORK, '2026-10-31T04:00Z', '2026-11-02T22:00Z', ['31 01:30', '01 01:30', '02 01:30']],
  ['0 * * * *', NEW_YORK, '2026-11-01T05:00Z', '2026-11-01T08:00Z', ['01 01:00', '01 01:00', '01 02:00']],
  // Lord Howe, half an hour: 4 October 2026: 02:00 becomes 02:30; 5 April: 02:00 becomes 01:30.
  ['15 2 * * *', LORD_HOWE, '2026-10-02T13:30Z', '2026-10-05T13:00Z', ['03 02:15', '04 02:30', '05 02:15']],
  ['0 * * * *', LORD_HOWE, '2026-10-03T14:30Z', '2026-10-03T17:00Z', ['04 01:00', '04 02:30', '04 03:00']],
  ['*/30 * * * *', LORD_HOWE, '2026-10-03T15:00Z', '2026-10-03T16:30Z', ['04 01:30', '04 02:30', '04 03:00']],
  ['45 1 * * *', LORD_HOWE, '2026-04-03T14:00Z', '2026-04-06T13:00Z', ['04 01:45', '05 01:45', '06 01:45']],
  ['0 * * * *', LORD_HOWE, '2026-04-04T14:00Z', '2026-04-04T17:00Z', ['05 01:00', '05 02:00', '05 03:00']],
  ['*/30 * * * *', LORD_HOWE, '2026-04-04T14:30Z', '2026-04-04T16:00Z', ['05 01:30', '05 01:30', '05 02:00']],
  // Midnight is left out, two hours come twice, a whole day is left out.
  ['0 0 * * *', 'America/Santiago', '2026-09-05T04:00Z', '2026-09-07T22:00Z', ['05 00:00', '06 01:00', '07 00:00']],
  ['0 */2 * * *', 'Antarctica/Troll', '2026-10-25T00:00Z', '2026-10-25T06:00Z', ['25 02:00', '25 02:00', '25 04:00']],
  ['0 9 * * *', 'Pacific/Apia', '2011-12-28T22:00Z', '2012-01-01T10:00Z', ['29 09:00', '31 09:00', '01 09:00']],
];

for (const [expr, tz, from, to, shown] of CHANGES) {
  test(`${expr} in ${tz} from ${from} fires at ${shown.join(', ')}`, () => {
    assert.deepEqual(
      fires(expr, tz, from, to).map((at) => onTheWall(at, tz)),
      shown,
    );
  });
}

/** Where croner, given the zone, fires otherwise. Once it does not, less of cron-times.ts is needed. */
const CRONER: [expr: string, tz: string, from: string, to: string, shown: string[]][] = [
  ['30 2,14 * * *', BERLIN, '2026-03-28T23:00Z', '2026-03-29T22:00Z', ['29 14:30']],
  ['30 1-3 * * *', BERLIN, '2026-03-28T23:00Z', '2026-03-29T22:00Z', ['29 01:30', '29 03:30']],
  ['*/20 2 * * *', BERLIN, '2026-03-28T23:00Z', '2026-03-29T22:00Z', []],
  ['0 */2 * * *', BERLIN, '2026-03-28T23:00Z', '2026-03-29T05:00Z', ['29 00:00', '29 04:00', '29 06:00']],
  ['30 2,14 * * *', BERLIN, '2026-10-24T22:00Z', '2026-10-25T22:00Z', ['25 02:30', '25 02:30', '25 14:30']],
  ['0 */2 * * *', BERLIN, '2026-10-24T22:00Z', '2026-10-25T04:00Z', ['25 00:00', '25 02:00', '25 02:00', '25 04:00']],
  ['0 * * * *', LORD_HOWE, '2026-10-03T14:30Z', '2026-10-03T17:00Z', ['04 01:00', '04 03:00']],
];

for (const [expr, tz, from, to, shown] of CRONER) {
  test(`croner does not keep the rule for ${expr} in ${tz} from ${from}`, () => {
    const ours = CHANGES.find((row) => row[0] === expr && row[1] === tz && row[2] === from)?.[4];
    const runs = new Cron(expr, { timezone: tz, paused: true }).nextRuns(10, new Date(Date.parse(from) - 1));
    const croner = runs.filter((at) => at.getTime() < Date.parse(to)).map((at) => onTheWall(at.getTime(), tz));
    assert.deepEqual(croner, shown);
    assert.notDeepEqual(croner, ours);
  });
}

const ZONES = [
  BERLIN,
  NEW_YORK,
  LORD_HOWE,
  'UTC',
  'Europe/London',
  'America/Sao_Paulo',
  'America/St_Johns',
  'America/Havana',
  'Africa/Cairo',
  'Africa/Casablanca',
  'Asia/Beirut',
  'Asia/Kolkata',
  'Pacific/Chatham',
  'Pacific/Auckland',
  'Antarctica/Troll',
];

for (const tz of ZONES) {
  test(`a daily time comes once on each day of a year in ${tz}`, () => {
    const dates = new Intl.DateTimeFormat('sv-SE', { timeZone: tz });
    for (const expr of ['0 0 * * *', '30 0 * * *', '30 1 * * *', '30 2 * * *', '30 23 * * *']) {
      const days = fires(expr, tz, '2026-01-02T12:00Z', '2027-01-02T12:00Z').map((at) => dates.format(at));
      assert.equal(days.length, 365, expr);
      assert.equal(new Set(days).size, 365, expr);
    }
  });

  test(`every 15 minutes is every 15 minutes through all changes of the clocks of ${tz}`, () => {
    const starts = [
      '2026-03-07',
      '2026-03-28',
      '2026-04-04',
      '2026-09-05',
      '2026-09-26',
      '2026-10-03',
      '2026-10-24',
      '2026-10-31',
    ];
    for (const start of starts) {
      const found = fires('*/15 * * * *', tz, start, new Date(start).getTime() + 2 * DAY);
      assert.equal(found.length, 192, start);
      for (const [i, at] of found.entries()) assert.equal(at, Date.parse(start) + i * 15 * MINUTE);
    }
  });
}

test('a look from any moment finds the same fires as one from fire to fire', () => {
  const [from, to] = [Date.parse('2026-10-24T23:00Z'), Date.parse('2026-10-25T03:00Z')];
  for (const expr of ['30 2 * * *', '*/15 * * * *', '*/20 2 * * *', '0 * * * *']) {
    const all = fires(expr, BERLIN, from, to + DAY);
    for (let at = from; at < to; at += 5 * MINUTE)
      assert.equal(
        times.next({ expr, tz: BERLIN }, at),
        all.find((fire) => fire > at),
        `${expr} after ${new Date(at).toISOString()}`,
      );
  }
});

test('a trigger without a zone uses the host’s', () => {
  const host = new CronTimes(NEW_YORK);
  assert.equal(host.next({ expr: '0 9 * * *' }, Date.parse('2026-06-01')), Date.parse('2026-06-01T13:00Z'));
});

test('the zone of the process has no part in it', () => {
  const before = process.env.TZ;
  try {
    for (const zone of ['America/New_York', 'Asia/Kolkata']) {
      process.env.TZ = zone;
      const next = new CronTimes('UTC').next({ expr: '0 9 * * *' }, Date.parse('2026-03-08T00:00Z'));
      assert.equal(next, Date.parse('2026-03-08T09:00Z'), zone);
    }
  } finally {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  }
});

test('days that no month has never come', () => {
  for (const expr of ['0 0 30 2 *', '0 0 31 2,4,6,9,11 *', '0 0 31 4 +MON', '0 0 31W 2 *'])
    assert.equal(times.next({ expr }, Date.parse('2026-01-01')), null, expr);
  for (const expr of ['0 0 29 2 *', '0 0 31 1,2 *', '0 0 L 2 *', '0 0 30 2 MON', '0 0 28W 2 *', '@yearly'])
    assert.notEqual(times.next({ expr }, Date.parse('2026-01-01')), null, expr);
});

test('invalid expressions and zones are refused', () => {
  for (const expr of ['', '* * * *', '61 * * * *', '2026-01-01T00:00:00Z', '0 0 0 1 1 * 2027'])
    assert.throws(() => times.next({ expr }, 0), /is no cron expression/, expr);
  assert.throws(() => times.next({ expr: '* * * * *', tz: 'Europe/Atlantis' }, 0), /is no time zone/);
});

test('the last fire up to a moment is found as by going from fire to fire', () => {
  const ends = ['2026-03-29T00:59:59Z', '2026-03-29T01:00:00Z', '2026-04-15T12:34:56Z'].map((end) => Date.parse(end));
  for (const expr of ['*/15 * * * *', '30 2 * * *', '* 2 * * *', '0 9 * * MON#1', '*/7 3-5 1,15 * *']) {
    const all = fires(expr, BERLIN, '2026-03-01', Math.max(...ends) + 1);
    for (const end of ends) {
      const found = times.latest({ expr, tz: BERLIN }, all[0] as number, end);
      assert.equal(found, all.filter((at) => at <= end).at(-1), `${expr} up to ${new Date(end).toISOString()}`);
    }
  }
});

test('more expressions than are kept ready are answered as well', () => {
  const times = new CronTimes('UTC');
  const at = Date.parse('2026-01-01T00:00Z');
  // The second round asks again for some that had to go.
  for (const [round, last] of [
    [1, LIMITS.cronCache],
    [2, 50],
  ] as const)
    for (let i = 0; i <= last; i++) {
      const [hour, minute] = [Math.floor(i / 60) % 24, i % 60];
      const day = 2 + Math.floor(i / 1440);
      const next = times.next({ expr: `${minute} ${hour} ${day} * *` }, at);
      assert.equal(next, Date.UTC(2026, 0, day, hour, minute), `round ${round}`);
    }
});
