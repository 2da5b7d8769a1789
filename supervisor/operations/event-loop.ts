/** Measures the delay of the supervisor's event loop: how long a request waits before any of our code runs. */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { LIMITS } from '../../protocol/limits.ts';

/** Milliseconds; `forMs` is how long they were gathered. */
export type EventLoopDelay = { p50: number; p99: number; max: number; forMs: number };

/** Samples the delay a hundred times a second, by a timer that costs a few microseconds of CPU each time. */
export class EventLoopMonitor {
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: LIMITS.eventLoopSampleMs });
  #since = performance.now();

  start(): void {
    this.#histogram.enable();
    this.#since = performance.now();
  }

  stop(): void {
    this.#histogram.disable();
  }

  /** The delays since `start` or the last time they were taken. */
  take(): EventLoopDelay {
    const histogram = this.#histogram;
    const now = performance.now();
    // It holds the nanoseconds from one sample to the next, so the time between samples is part of each; 0 without any.
    const ms = (nanoseconds: number): number =>
      histogram.count === 0 ? 0 : Math.max(0, Math.round(nanoseconds / 1e4) / 100 - LIMITS.eventLoopSampleMs);
    const delay = {
      p50: ms(histogram.percentile(50)),
      p99: ms(histogram.percentile(99)),
      max: ms(histogram.max),
      forMs: Math.round(now - this.#since),
    };
    histogram.reset();
    this.#since = now;
    return delay;
  }
}
