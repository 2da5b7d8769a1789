/** Records what one call does in its thread, for the spans of its trace: operations of the writer, and requests of `ctx.fetch`. */

import { LIMITS } from '../../../protocol/limits.ts';
import type { Timed } from '../../../protocol/wire/db-client.ts';
import { type FrameOf, Kind, type ThreadSpan } from '../../../protocol/wire/frames.ts';
import {
  monotonicMs,
  newSpanId,
  parseTraceparent,
  type SpanContext,
  traceparentOf,
} from '../../../protocol/wire/trace-context.ts';

/** The parts of a request that the trace shows. The rest of its address may hold secrets. */
type TracedRequest = { method: string; host: string; port: number };

/** First words of statements that the trace shows; others could be anything. */
const STATEMENT = /^\s*(insert|update|delete|replace|select|with|create|alter|drop|pragma|vacuum)\b/i;

export class CallTrace {
  readonly #caller: SpanContext;
  /** The span of the call in this thread; that of the caller when nothing is recorded. */
  readonly #own: SpanContext;
  readonly #begunAt = monotonicMs();
  readonly #spans: ThreadSpan[] = [];
  /** Requests under way: they end with the call at the latest. */
  readonly #requests = new Set<() => void>();
  #leftOut = 0;

  /** `traceId` from the call; null unless it is a `traceparent`. */
  static of(traceId: string): CallTrace | null {
    const caller = parseTraceparent(traceId);
    return caller === null ? null : new CallTrace(caller);
  }

  constructor(caller: SpanContext) {
    this.#caller = caller;
    this.#own = caller.sampled ? { ...caller, spanId: newSpanId() } : caller;
  }

  get traceId(): string {
    return this.#caller.traceId;
  }

  /** A callback for the outcome of a writer's operation; undefined when nothing is recorded. */
  operation(name: string): Timed | undefined {
    if (!this.#caller.sampled) return undefined;
    return ([receivedAt, begunAt, endedAt, group], error) =>
      this.#add(['db', receivedAt, endedAt, error, name, begunAt - receivedAt, group]);
  }

  /** The same for a statement, of which it records the first word. */
  statement(sql: string): Timed | undefined {
    return this.operation(STATEMENT.exec(sql)?.[1]?.toUpperCase() ?? '');
  }

  /**
   * Begins a request. Returns its `traceparent`, and a callback for its end: its status, or 0 and an error without an answer.
   */
  request({ method, host, port }: TracedRequest): { traceparent: string; ended(status: number, error: string): void } {
    const span = this.#caller.sampled ? { ...this.#own, spanId: newSpanId() } : this.#own;
    const begunAt = monotonicMs();
    const ended = (status: number, error: string): void => {
      if (!this.#requests.delete(cut)) return;
      this.#add(['fetch', begunAt, monotonicMs(), error, method, span.spanId, host, port, status]);
    };
    const cut = (): void => ended(0, 'call_ended');
    if (this.#caller.sampled) this.#requests.add(cut);
    return { traceparent: traceparentOf(span), ended };
  }

  /** The frame for the supervisor when the call ends; null when nothing is recorded. */
  end(callId: number): FrameOf<'spans'> | null {
    if (!this.#caller.sampled) return null;
    for (const cut of [...this.#requests]) cut();
    return [Kind.spans, callId, this.#own.spanId, this.#begunAt, monotonicMs(), this.#spans, this.#leftOut];
  }

  #add(span: ThreadSpan): void {
    if (this.#spans.length < LIMITS.spansOfCall) this.#spans.push(span);
    else this.#leftOut++;
  }
}
