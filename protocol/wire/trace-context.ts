/** Reads and writes W3C trace contexts, and provides the clock for the times of spans. */
import { randomBytes } from 'node:crypto';
import { hrtime } from 'node:process';

/** Which span of which trace: 32 and 16 hexadecimal digits. `sampled`: the trace is recorded. */
export type SpanContext = { traceId: string; spanId: string; sampled: boolean };

/** Not version ff, and no id of zeros: the recommendation (W3C Trace Context) calls them invalid. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;
const SAMPLED = 1;
const READINGS = 5;

const { parseInt: parseInteger } = Number;
const elapsed = performance.now.bind(performance);
/** The time of the system's monotonic clock, which all processes share, when this thread's `performance.now` is 0. */
const zero = offsetOf(() => Number(hrtime.bigint()) / 1e6, elapsed);

/**
 * By how much one clock is ahead of another. The thread may be put aside between the two readings, which makes the difference
 * too small: spans of two processes would not lie within each other.
 */
export function offsetOf(clock: () => number, behind: () => number): number {
  let offset = -Infinity;
  for (let readings = 0; readings < READINGS; readings++) offset = Math.max(offset, clock() - behind());
  return offset;
}

/** The context that a `traceparent` names; null for a text that is none. */
export function parseTraceparent(text: string | undefined): SpanContext | null {
  const found = text === undefined ? null : TRACEPARENT.exec(text);
  if (found === null) return null;
  const [, traceId, spanId, flags] = found as unknown as [string, string, string, string];
  return { traceId, spanId, sampled: (parseInteger(flags, 16) & SAMPLED) !== 0 };
}

export function traceparentOf({ traceId, spanId, sampled }: SpanContext): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

export function newSpanId(): string {
  return randomBytes(8).toString('hex');
}

/** Milliseconds of a clock that only grows, the same one in every process and thread of this machine. */
export function monotonicMs(): number {
  return zero + elapsed();
}

/** A time of this thread's `performance.now`, on that clock. */
export function toMonotonic(ms: number): number {
  return zero + ms;
}
