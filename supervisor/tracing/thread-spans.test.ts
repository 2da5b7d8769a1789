import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { type FrameOf, Kind } from '../../protocol/wire/frames.ts';
import { Span } from './span.ts';
import { addThreadSpans, isThreadSpans } from './thread-spans.ts';

const ID = '00f067aa0ba902b7';
const DB = ['db', 2, 3, '', 'INSERT', 0.5, 4];
const FETCH = ['fetch', 2, 3, '', 'GET', ID, 'example.org', 443, 200];
const frame = (spans: unknown, ...rest: unknown[]) =>
  [Kind.spans, 1, ...(rest.length > 0 ? rest : [ID, 1, 4]), spans, 0] as unknown as FrameOf<'spans'>;

test('only valid spans are accepted from a thread', () => {
  assert.ok(isThreadSpans(frame([])));
  assert.ok(isThreadSpans(frame([DB, FETCH])));
  for (const wrong of [
    frame(null),
    frame([null]),
    frame([['else', 1, 2, '', 'X', 1, 1]]),
    frame(Array.from({ length: LIMITS.spansOfCall + 1 }, () => DB)),
    frame([], 'not an id', 1, 4),
    frame([], '0'.repeat(16), 1, 4),
    frame([], ID, Number.NaN, 4),
    frame([['db', 2, Number.POSITIVE_INFINITY, '', 'INSERT', 0, 1]]),
    frame([['db', 2, 3, 'a message, with anything', 'INSERT', 0, 1]]),
    frame([['db', 2, 3, '', 'INSERT INTO x', 0, 1]]),
    frame([['db', 2, 3, '', 'INSERT', 0, -1]]),
    frame([['fetch', 2, 3, '', 'GET', ID, 'x'.repeat(LIMITS.textChars + 1), 443, 200]]),
    frame([['fetch', 2, 3, '', 'GET', ID, 'example.org', '443', 200]]),
  ]) {
    assert.equal(isThreadSpans(wrong), false, JSON.stringify(wrong).slice(0, 200));
  }
});

test('spans lie within the time of their call, with any times from the thread', () => {
  const ended: Span[] = [];
  const call = new Span(
    'query a.b',
    'internal',
    { traceId: 'a'.repeat(32), parentId: null },
    (span) => ended.push(span),
    10,
  );
  const told = frame([['db', -5, 1e9, 'SQLITE_BUSY', '', 1, 2], FETCH], ID, 0, 1e12);
  addThreadSpans(call, told, { process: 'host-1', app: 'a' }, { begunAt: 11, now: 20 });
  const [db, fetch, handler] = ended as [Span, Span, Span];
  assert.deepEqual([handler.begunAt, handler.endedAt, handler.spanId, handler.parentId], [11, 20, ID, call.spanId]);
  assert.deepEqual([db.begunAt, db.endedAt, db.name, db.error, db.parentId], [11, 20, 'a', 'SQLITE_BUSY', ID]);
  assert.deepEqual([fetch.name, fetch.spanId, fetch.attributes['svc.process']], ['GET', ID, 'host-1']);
});
