import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { Redactor } from '../../../protocol/text/redactor.ts';
import { SourcePositions } from '../source-positions.ts';
import { AppLog } from './log.ts';

const SECRET = 'p"w\\ö\n-and a line';

function logTo(lines: string[], now: () => number = () => 0): AppLog {
  const redactor = new Redactor();
  redactor.hide([['KEY', SECRET]]);
  return new AppLog({
    app: 'a',
    versionId: 'v',
    write: (line) => lines.push(line),
    now,
    redactor,
    positions: new SourcePositions('/srv/apps/notes'),
  });
}

test('a flood of lines is cut off at the limit, counted, and reported once the next second begins', () => {
  let now = 1_000_000;
  const lines: string[] = [];
  const log = logTo(lines, () => now);
  const { info } = log.logger({ tool: 't', traceId: 'x', call: null });
  const text = 'z'.repeat(10_000);
  for (let i = 0; i < 1000; i++) info(text);
  const written = lines.length;
  assert.ok(written * text.length <= LIMITS.logBacklogBytes + LIMITS.logLineBytes);
  now += LIMITS.heartbeatMs;
  info('after');
  const [report, after] = lines.slice(written).map((line) => JSON.parse(line).msg);
  assert.equal(report, `${1000 - written} log lines were dropped: too many at once.`);
  assert.equal(after, 'after');
});

test('secrets are taken out of texts, fields, their names, errors and what console shows', () => {
  const lines: string[] = [];
  const log = logTo(lines);
  const { info } = log.logger({ tool: 't', traceId: 'x', call: null });
  const shown = log.console();
  info(`key ${SECRET}`, { [SECRET]: { deep: [SECRET] } });
  info(JSON.stringify({ key: SECRET }), [SECRET], new Error(`bad ${SECRET}`, { cause: SECRET }));
  shown.log?.('%s %o', SECRET, { key: SECRET, nested: { deeper: { key: SECRET } } });
  shown.error?.(new Error(SECRET));
  info('x'.repeat(LIMITS.logLineBytes / 8 - 5) + SECRET + 'y'.repeat(LIMITS.logLineBytes));
  assert.equal(lines.length, 5);
  for (const line of lines) {
    assert.match(line, /\[secr/, line);
    assert.doesNotMatch(line, /p\\*"w|and a line/, line.slice(0, 200));
    JSON.parse(line);
  }
  assert.deepEqual(JSON.parse(lines[0] ?? '')['[secret KEY]'], { deep: ['[secret KEY]'] });
});
