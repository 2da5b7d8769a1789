/** What scenarios find out, as it stands in the report. */

/** One server under one load. Rates are per second, latencies milliseconds. */
export type SideResult = {
  /** Median of the rounds. */
  requestsPerSecond: number;
  p50: number;
  p99: number;
  p999: number;
  requests: number;
  events: number;
  failed: number;
  /** CPU microseconds per request, by process; the load generators are one of them. */
  cpu: Record<string, number>;
  /** PSS of all its processes right after the last round, in bytes. */
  memory: number;
};

export type Comparison = {
  kind: 'comparison';
  scenario: string;
  connections: number;
  gateway: SideResult;
  bare: SideResult;
  /** Median over the rounds of the gateway's rate divided by that of the bare edge just before it. */
  ratio: number;
  /** Rows the writer committed, over its commits, during the rounds; null when it committed nothing. */
  rowsPerCommit: number | null;
};

export type Fact = {
  kind: 'fact';
  scenario: string;
  name: string;
  value: number;
  unit: 'ms' | 'MiB' | '×';
  /** How it was taken. */
  detail: string;
};

export type Measurement = Comparison | Fact;

/** What the project expects of a measurement, and whether it was so. */
export type Expectation = { text: string; expected: string; measured: string; met: boolean };
