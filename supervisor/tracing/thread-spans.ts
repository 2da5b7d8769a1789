/** Makes spans from a thread's report of a traced call. App code runs there, so every value is checked. */

import { LIMITS } from '../../protocol/limits.ts';
import type { FrameOf, ThreadSpan } from '../../protocol/wire/frames.ts';
import type { Span } from './span.ts';

const SPAN_ID = /^(?!0{16})[0-9a-f]{16}$/;
const WORD = /^[A-Za-z0-9_]{0,64}$/;

/** Where the thread runs, and for whom. */
type ThreadOrigin = { process: string; app: string };

/** `call` is the supervisor's span of the call; `begunAt` and `now` are when it was sent and the frame came. */
export function addThreadSpans(
  call: Span,
  [, , spanId, begunAt, endedAt, spans, leftOut]: FrameOf<'spans'>,
  { process, app }: ThreadOrigin,
  within: { begunAt: number; now: number },
): void {
  // A thread that tells other times than could be is cut to those that could.
  const clamp = (at: number) => Math.min(Math.max(at, within.begunAt), within.now);
  const handler = call.child(`handle ${call.name}`, 'internal', clamp(begunAt), spanId);
  handler.set('svc.process', process);
  handler.set('svc.app', app);
  if (leftOut > 0) handler.set('svc.spans_left_out', leftOut);
  for (const span of spans) {
    const made = span[0] === 'db' ? databaseSpan(handler, span, app, clamp) : fetchSpan(handler, span, clamp);
    made.set('svc.process', span[0] === 'db' ? 'writer' : process);
    if (span[3] !== '') made.fail(span[3]);
    made.end(clamp(span[2]));
  }
  if (call.error !== null) handler.fail(call.error);
  handler.end(clamp(endedAt));
}

type Clamp = (at: number) => number;

function databaseSpan(
  parent: Span,
  [, begunAt, , , operation, waitedMs, group]: Extract<ThreadSpan, { 0: 'db' }>,
  app: string,
  clamp: Clamp,
): Span {
  const span = parent.child(operation === '' ? app : `${operation} ${app}`, 'client', clamp(begunAt));
  span.set('db.system.name', 'sqlite');
  span.set('db.namespace', app);
  if (operation !== '') span.set('db.operation.name', operation);
  span.set('svc.app', app);
  span.set('svc.wait_ms', waitedMs);
  span.set('svc.group_size', group);
  return span;
}

function fetchSpan(
  parent: Span,
  [, begunAt, , , method, spanId, host, port, status]: Extract<ThreadSpan, { 0: 'fetch' }>,
  clamp: Clamp,
): Span {
  const span = parent.child(method === '_OTHER' ? 'HTTP' : method, 'client', clamp(begunAt), spanId);
  span.set('http.request.method', method);
  span.set('server.address', host);
  span.set('server.port', port);
  if (status > 0) span.set('http.response.status_code', status);
  return span;
}

/** Whether a frame has the shape that its type promises. */
export function isThreadSpans([, , spanId, begunAt, endedAt, spans, leftOut]: FrameOf<'spans'>): boolean {
  if (!isSpanId(spanId) || !areTimes(begunAt, endedAt) || !isCount(leftOut)) return false;
  return Array.isArray(spans) && spans.length <= LIMITS.spansOfCall && spans.every(isThreadSpan);
}

function isThreadSpan(span: unknown): boolean {
  if (!Array.isArray(span)) return false;
  const [what, begunAt, endedAt, error, name, ...more] = span as unknown[];
  if (!areTimes(begunAt, endedAt) || !isWord(error) || !isWord(name)) return false;
  if (what === 'db') return isTime(more[0]) && isCount(more[1]);
  const [spanId, host, port, status] = more;
  return what === 'fetch' && isSpanId(spanId) && isHost(host) && isCount(port) && isCount(status);
}

function areTimes(begunAt: unknown, endedAt: unknown): boolean {
  return isTime(begunAt) && isTime(endedAt);
}

function isTime(value: unknown): boolean {
  return typeof value === 'number' && Number.isFinite(value);
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isWord(value: unknown): boolean {
  return typeof value === 'string' && WORD.test(value);
}

function isSpanId(value: unknown): boolean {
  return typeof value === 'string' && SPAN_ID.test(value);
}

function isHost(value: unknown): boolean {
  return typeof value === 'string' && value.length <= LIMITS.textChars;
}
