/** What a load generator is told to do and what it tells afterwards; both travel between processes. */

export type LoadTask = {
  port: number;
  connections: number;
  /** Whole requests, head and body; each connection sends them in turn, starting at another one. */
  requests: Uint8Array[];
  /** Further servers, with what they are asked: connections go to all of them in turn. */
  others?: { port: number; requests: Uint8Array[] }[];
  /** Milliseconds that are not counted, then milliseconds that are. */
  warmUpMs: number;
  measureMs: number;
  /**
   * Milliseconds between two requests of a connection; without it the next one leaves when the answer is whole. A request
   * that waits for a late answer is timed from when it was due.
   */
  intervalMs?: number;
  /**
   * Each connection sends an equal share of the requests, its own, once each; the time is what that takes, whatever
   * `warmUpMs` and `measureMs` say.
   */
  burst?: boolean;
  /**
   * A request that opens an event stream, and how many streams are open while the load runs. Each request causes one event.
   * `live` streams open with one.
   */
  subscribe?: { request: Uint8Array; subscribers: number; live?: boolean };
};

export type LoadResult = {
  /** Requests answered in the measured time, and milliseconds it lasted. */
  answered: number;
  elapsedMs: number;
  /** Milliseconds from sending a request to its last byte; with subscribers, to the last of them having its event. */
  latencies: number[];
  /** Milliseconds from the first answer of a turn to the last event at the last subscriber; empty without subscribers. */
  delivery: number[];
  /** Requests and events over the whole run, warm-up too: what the CPU time of the run is divided by. */
  requests: number;
  events: number;
  /** Answers that were neither 2xx nor 304, and the status and body of the first. */
  failed: number;
  firstFailure: string | null;
  /** CPU time of the generator itself over the whole run, in milliseconds. */
  cpuMs: number;
};

/** What a load finds out by itself. */
export type Counted = Omit<LoadResult, 'cpuMs'>;

/** Of several generators, or of several rounds. */
export function merge(results: LoadResult[]): LoadResult {
  const sum = (member: 'answered' | 'requests' | 'events' | 'failed' | 'cpuMs'): number =>
    results.reduce((total, result) => total + result[member], 0);
  return {
    answered: sum('answered'),
    elapsedMs: Math.max(...results.map((result) => result.elapsedMs)),
    latencies: results.flatMap((result) => result.latencies),
    delivery: results.flatMap((result) => result.delivery),
    requests: sum('requests'),
    events: sum('events'),
    failed: sum('failed'),
    firstFailure: results.find((result) => result.firstFailure !== null)?.firstFailure ?? null,
    cpuMs: sum('cpuMs'),
  };
}
