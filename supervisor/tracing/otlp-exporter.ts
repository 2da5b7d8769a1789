/**
 * Sends spans to a collector, by the exporters of OpenTelemetry: they bring the protocol, headers, TLS, timeouts, retries and
 * their `OTEL_…` variables. Built into a separate file, which is loaded only if traces are sent.
 */
import { hostname } from 'node:os';
import { SpanKind as Kind, type SpanContext, SpanStatusCode } from '@opentelemetry/api';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { detectResources, envDetector, type Resource, resourceFromAttributes } from '@opentelemetry/resources';
import type { Span } from './span.ts';

export type Exporter = {
  /** `wallMs` is what to add to the times of spans, for milliseconds since the epoch. Rejects where the collector did not take them. */
  send(spans: readonly Span[], wallMs: number): Promise<void>;
  close(): Promise<void>;
};

type ReadableSpan = Parameters<JsonExporter['export']>[0][number];

const KINDS = { internal: Kind.INTERNAL, server: Kind.SERVER, client: Kind.CLIENT } as const;
const NONE = { links: [], events: [], droppedAttributesCount: 0, droppedEventsCount: 0, droppedLinksCount: 0 };

export function openExporter(protocol: 'http/json' | 'http/protobuf', version: string): Exporter {
  const exporter = protocol === 'http/json' ? new JsonExporter() : new ProtobufExporter();
  const resource = resourceFromAttributes({
    'service.name': 'svc',
    'service.version': version,
    'service.instance.id': `${hostname()}:${process.pid}`,
    'process.pid': process.pid,
    // `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win.
  }).merge(detectResources({ detectors: [envDetector] }));
  const scope = { name: 'svc', version };
  return {
    send: (spans, wallMs) =>
      new Promise((resolve, reject) => {
        const readable = spans.map((span) => readableSpan(span, wallMs, resource, scope));
        exporter.export(readable, ({ code, error }) => {
          if (code === 0) resolve();
          else reject(error ?? new Error('The collector refused the spans.'));
        });
      }),
    close: () => exporter.shutdown(),
  };
}

function readableSpan(
  span: Span,
  wallMs: number,
  resource: Resource,
  scope: ReadableSpan['instrumentationScope'],
): ReadableSpan {
  const { traceId, spanId, parentId, isRemote, error } = span;
  const context: SpanContext = { traceId, spanId, traceFlags: 1 };
  return {
    ...NONE,
    name: span.name,
    kind: KINDS[span.kind],
    spanContext: () => context,
    ...(parentId !== null && { parentSpanContext: { traceId, spanId: parentId, traceFlags: 1, isRemote } }),
    startTime: timeOf(span.begunAt + wallMs),
    endTime: timeOf(span.endedAt + wallMs),
    duration: timeOf(span.endedAt - span.begunAt),
    ended: true,
    status: { code: error === null ? SpanStatusCode.UNSET : SpanStatusCode.ERROR },
    attributes: span.attributes,
    resource,
    instrumentationScope: scope,
  };
}

/** Seconds and nanoseconds. */
function timeOf(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
