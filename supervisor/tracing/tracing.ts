/**
 * Makes traces of the gateway's work for a collector of OpenTelemetry. Only if `OTEL_EXPORTER_OTLP_ENDPOINT` is set: without it
 * none of this code is loaded, and frames carry nothing extra.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { parseTraceparent } from '../../protocol/wire/trace-context.ts';
import { Span, type SpanKind } from './span.ts';
import { SpanQueue } from './span-queue.ts';
import { type Environment, type TracingSettings, tracingSettings } from './tracing-settings.ts';

export class Tracing {
  readonly queue: SpanQueue;
  readonly #sampler: TracingSettings['sampler'];
  readonly #current = new AsyncLocalStorage<Span>();
  readonly #record = (span: Span): void => this.queue.add(span);

  constructor(queue: SpanQueue, sampler: TracingSettings['sampler']) {
    this.queue = queue;
    this.#sampler = sampler;
  }

  /** Null where no traces are wanted, or where they cannot be sent, which is logged. */
  static async open(env: Environment, version: string, log: Logger): Promise<Tracing | null> {
    try {
      const settings = tracingSettings(env);
      if (settings === null) return null;
      const { openExporter } = await import('./otlp-exporter.ts');
      const queue = new SpanQueue(openExporter(settings.protocol, version), log);
      log.info({ protocol: settings.protocol }, `Traces are sent to ${new URL(settings.endpoint).origin}.`);
      return new Tracing(queue, settings.sampler);
    } catch (error) {
      log.warn(`No traces are sent: ${(error as Error).message}`);
      return null;
    }
  }

  /** A span that continues the trace of a `traceparent`, or begins one. */
  start(name: string, kind: SpanKind, traceparent?: string, isRemote = false): Span {
    const parent = parseTraceparent(traceparent);
    const traceId = parent?.traceId ?? randomBytes(16).toString('hex');
    const isSampled = this.#sampler(traceId, parent);
    const parentId = parent?.spanId ?? null;
    // Not recorded, but sent on: as the span that it came from, so that none is missing in between.
    const own = isSampled || parentId === null ? {} : { spanId: parentId };
    return new Span(name, kind, { traceId, parentId, isRemote, ...own }, isSampled ? this.#record : null);
  }

  /** Runs something whose jobs and runs are part of this span. */
  within<T>(span: Span, run: () => T): T {
    return this.#current.run(span, run);
  }

  /** The span that this runs within; null where there is none, or it has ended: timers may outlive the request that set them. */
  get current(): Span | null {
    const span = this.#current.getStore();
    return span === undefined || span.ended ? null : span;
  }

  close(): Promise<void> {
    return this.queue.close();
  }
}
