/** Defines spans of traces, from their start until the exporter gets them. Names and attributes hold no input and no secret. */
import { monotonicMs, newSpanId, type SpanContext, traceparentOf } from '../../protocol/wire/trace-context.ts';

export type SpanKind = 'internal' | 'server' | 'client';

/** Names as the semantic conventions of OpenTelemetry have them, and ours, which begin with `svc.`. */
type Attributes = Record<string, string | number | boolean>;

/** The trace of a span: a recorded trace passes each of its spans to `ended`, once. */
type Recorder = (span: Span) => void;

export class Span implements SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  /** Null: the trace begins here. */
  readonly parentId: string | null;
  /** Its parent is a span of another program. */
  readonly isRemote: boolean;
  readonly kind: SpanKind;
  name: string;
  readonly attributes: Attributes = {};
  /** Milliseconds of `monotonicMs`. */
  begunAt: number;
  endedAt = 0;
  /** The type of the error that it ended with. */
  error: string | null = null;
  readonly #recorder: Recorder | null;

  /** `recorder` is null where the trace is sent on, and not recorded. */
  constructor(
    name: string,
    kind: SpanKind,
    context: { traceId: string; spanId?: string; parentId: string | null; isRemote?: boolean },
    recorder: Recorder | null,
    begunAt = monotonicMs(),
  ) {
    this.name = name;
    this.kind = kind;
    this.traceId = context.traceId;
    this.parentId = context.parentId;
    this.isRemote = context.isRemote ?? false;
    this.spanId = context.spanId ?? newSpanId();
    this.begunAt = begunAt;
    this.#recorder = recorder;
    if (recorder !== null) this.attributes['svc.process'] = 'supervisor';
  }

  get sampled(): boolean {
    return this.#recorder !== null;
  }

  get ended(): boolean {
    return this.endedAt > 0;
  }

  get traceparent(): string {
    return traceparentOf(this);
  }

  /** A span within this one. `spanId` is given where another process chose it. */
  child(name: string, kind: SpanKind = 'internal', begunAt?: number, spanId?: string): Span {
    // One unrecorded span replaces all that would be in it.
    if (this.#recorder === null) return this;
    const context = { traceId: this.traceId, parentId: this.spanId, ...(spanId !== undefined && { spanId }) };
    return new Span(name, kind, context, this.#recorder, begunAt);
  }

  set(name: string, value: string | number | boolean): void {
    if (this.#recorder !== null) this.attributes[name] = value;
  }

  /** `type` is a code, never a message: those may hold anything. */
  fail(type: string): void {
    this.error = type;
    this.set('error.type', type);
  }

  /** Does nothing the second time. */
  end(at = monotonicMs()): void {
    if (this.#recorder === null || this.endedAt > 0) return;
    this.endedAt = at;
    this.#recorder(this);
  }
}
