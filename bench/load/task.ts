/** What a load generator is told to do and what it tells afterwards; both travel between processes. */
import type { HistogramCounts } from './histogram.ts';

export type LoadTask = {
  port: number;
  connections: number;
  /** Whole requests, head and body; each connection sends them in turn, starting at another one. */
  requests: string[];
  /** Milliseconds that are not counted, then milliseconds that are. */
  warmUpMs: number;
  measureMs: number;
  /** A request that opens an event stream, and how many streams are open while the load runs. Each request causes one event. */
  subscribe?: { request: string; subscribers: number };
};

export type LoadResult = {
  /** Requests answered in the measured time, and milliseconds it lasted. */
  answered: number;
  elapsedMs: number;
  /** Microseconds from sending a request to its last byte; with subscribers, to the last of them having its event. */
  latencies: HistogramCounts;
  /** Requests and events over the whole run, warm-up too: what the CPU time of the run is divided by. */
  requests: number;
  events: number;
  /** Answers that were not 2xx, and the status of the first. */
  failed: number;
  firstFailure: number | null;
  /** CPU time of the generator itself over the whole run, in milliseconds. */
  cpuMs: number;
};
