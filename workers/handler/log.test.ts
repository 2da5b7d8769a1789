import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { AppLog } from './log.ts';

test('a flood of lines is cut off at the limit, counted, and reported once the next second begins', () => {
  let now = 1_000_000;
  const lines: string[] = [];
  const log = new AppLog({ app: 'a', versionId: 'v', write: (line) => lines.push(line), now: () => now });
  const { info } = log.logger({ tool: 't', traceId: 'x' });
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
