import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { Kind } from '../../../protocol/wire/frames.ts';
import { CallTrace } from './call-trace.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const GET = { method: 'GET', host: 'example.org', port: 443 };
const traced = (flags: string): CallTrace => CallTrace.of(`00-${TRACE}-${PARENT}-${flags}`) ?? assert.fail();

test('a trace id alone is no trace', () => {
  for (const text of [
    '',
    'trace',
    TRACE,
    `00-${TRACE}`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `ff-${TRACE}-${PARENT}-01`,
  ])
    assert.equal(CallTrace.of(text), null, text);
});

test('an unrecorded call passes on the span of its caller', () => {
  const trace = traced('00');
  assert.equal(trace.statement('INSERT INTO t VALUES (1)'), undefined);
  assert.equal(trace.request(GET).traceparent, `00-${TRACE}-${PARENT}-00`);
  assert.equal(trace.end(1), null);
});

test('operations and requests are reported once, in the order of their ends', () => {
  const trace = traced('01');
  const request = trace.request(GET);
  trace.statement('  insert INTO t VALUES (?)')?.([1, 2, 3, 4], '');
  trace.statement("SECRET 'x'")?.([1, 1, 2, 1], 'SQLITE_ERROR');
  request.ended(200, '');
  request.ended(500, 'late');
  const open = trace.request({ ...GET, method: 'POST' });
  const [kind, id, spanId, begunAt, endedAt, spans, leftOut] = trace.end(7) ?? assert.fail();
  assert.deepEqual([kind, id, leftOut, begunAt <= endedAt], [Kind.spans, 7, 0, true]);
  const [, , ownId] = request.traceparent.split('-');
  assert.notEqual(ownId, spanId);
  assert.deepEqual(
    spans.map(([what, , , error, name, ...more]) => [what, error, name, ...more]),
    [
      ['db', '', 'INSERT', 1, 4],
      ['db', 'SQLITE_ERROR', '', 0, 1],
      ['fetch', '', 'GET', ownId, 'example.org', 443, 200],
      ['fetch', 'call_ended', 'POST', open.traceparent.split('-')[2], 'example.org', 443, 0],
    ],
  );
});

test('a call reports a limited number of spans', () => {
  const trace = traced('01');
  for (let i = 0; i < LIMITS.spansOfCall + 5; i++) trace.operation('BATCH')?.([1, 1, 1, 1], '');
  const [, , , , , spans, leftOut] = trace.end(1) ?? assert.fail();
  assert.deepEqual([spans.length, leftOut], [LIMITS.spansOfCall, 5]);
});
