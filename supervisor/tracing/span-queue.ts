/** Queues ended spans for the collector: a limited number, and no call waits for it. */
import type { Logger } from 'pino';
import { LIMITS } from '../../protocol/limits.ts';
import { monotonicMs } from '../../protocol/wire/trace-context.ts';
import type { Exporter } from './otlp-exporter.ts';
import type { Span } from './span.ts';

/** How often it is logged that the collector does not take spans. */
const WARN_MS = 60_000;

export class SpanQueue {
  readonly #exporter: Exporter;
  readonly #log: Logger;
  #waiting: Span[] = [];
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;
  #warnedAt = Number.NEGATIVE_INFINITY;
  #closed = false;
  sent = 0;
  /** There was no room for them, or the collector did not take them. */
  dropped = 0;

  constructor(exporter: Exporter, log: Logger) {
    this.#exporter = exporter;
    this.#log = log;
  }

  add(span: Span): void {
    if (this.#closed || this.#waiting.length >= LIMITS.spanQueue) {
      this.dropped++;
      return;
    }
    this.#waiting.push(span);
    if (this.#sending !== null) return;
    if (this.#waiting.length >= LIMITS.spanBatch) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), LIMITS.spanDelayMs).unref();
  }

  /** Sends what waits, within `LIMITS.spansEndMs`. */
  async close(): Promise<void> {
    const end = (async () => {
      while (this.#waiting.length > 0 || this.#sending !== null) {
        this.#send();
        await this.#sending;
      }
    })();
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([
      end,
      new Promise((resolve) => {
        timer = setTimeout(resolve, LIMITS.spansEndMs);
      }),
    ]);
    clearTimeout(timer);
    this.#closed = true;
    this.dropped += this.#waiting.length;
    this.#waiting = [];
    // Not awaited: it waits for what is under way, and a collector that does not answer has had its time.
    this.#exporter.close().catch(() => {});
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#sending !== null || this.#waiting.length === 0) return;
    const batch = this.#waiting.splice(0, LIMITS.spanBatch);
    // Taken for each batch, because the system's clock may be set.
    const wallMs = Date.now() - monotonicMs();
    this.#sending = this.#exporter
      .send(batch, wallMs)
      .then(
        () => {
          this.sent += batch.length;
        },
        (error: unknown) => this.#failed(batch.length, error),
      )
      .finally(() => {
        this.#sending = null;
        if (this.#waiting.length > 0) this.#send();
      });
  }

  #failed(spans: number, error: unknown): void {
    this.dropped += spans;
    const now = performance.now();
    if (now - this.#warnedAt < WARN_MS) return;
    this.#warnedAt = now;
    this.#log.warn({ err: error }, 'The collector of traces takes no spans; they are dropped.');
  }
}
