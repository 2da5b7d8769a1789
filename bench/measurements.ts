/** What scenarios find out, as it stands in the report. Rates are per second, latencies milliseconds, memory bytes. */
import type { Durability } from './notes.ts';
import type { Interval } from './statistics.ts';

/** One round of one contender. */
export type RoundResult = { requestsPerSecond: number; p50: number; p99: number };

export type Latencies = { p50: number; p99: number; worst: number };

/** One contender under one load. */
export type SideResult = Latencies & {
  rounds: RoundResult[];
  /** Median of the rounds. */
  requestsPerSecond: number;
  p999: number;
  requests: number;
  events: number;
  failed: number;
  /** CPU microseconds per request, by process; the load generators are one of them. */
  cpu: Record<string, number>;
  /** PSS of all its processes right after the last round. */
  memory: number;
  /** Commits that were synced; null when none were, or the contender does not count them. */
  fsyncsPerSecond: number | null;
  /** Of the supervisor: the median of the rounds' 99th percentiles, and the worst of all; null for who does not say. */
  eventLoop: { p99: number; max: number } | null;
  /** From the writer having its answer until the last subscriber has the event; null without subscribers. */
  delivery: Latencies | null;
};

export type LoadMeasurement = {
  kind: 'load';
  scenario: string;
  question: string;
  durability: Durability | null;
  connections: number;
  /** By contender, the one in question first. */
  sides: Record<string, SideResult>;
  /** The rate of the first divided by that of each other one, over neighbouring rounds. */
  ratios: Record<string, Interval>;
  /** Rows the gateway's writer committed, over its commits; null when it committed nothing. */
  rowsPerCommit: number | null;
};

export type Fact = {
  kind: 'fact';
  scenario: string;
  name: string;
  value: number;
  unit: 'ms' | 'MiB' | '×' | '/s' | '%' | '';
  /** How it was taken. */
  detail: string;
};

/** The milliseconds that the work takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** A fact before it is told which scenario found it. */
export type Finding = Omit<Fact, 'scenario'>;

export function fact(name: string, value: number, unit: Fact['unit'], detail: string): Finding {
  return { kind: 'fact', name, value, unit, detail };
}

export type Measurement = LoadMeasurement | Fact;

/** What the project expects of a measurement, and whether it was so. */
export type Expectation = { text: string; expected: string; measured: string; met: boolean };
