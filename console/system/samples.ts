/** Keeps samples of the gateway's status while the console is open, for its charts. */
import type { SystemStatus } from '../../protocol/routes/operations/system-rows.ts';

/** `cpu` is in cores; rates are per second; null in the first sample. */
type Sample = {
  at: number;
  delayMs: number;
  memory: number;
  cpu: number | null;
  commits: number | null;
  rows: number | null;
};

/** Half an hour of answers, one every three seconds. */
const KEPT = 600;
/** Answers that come closer together say too little. */
const LEAST_MS = 1000;

let samples: readonly Sample[] = [];
let last: { at: number; system: SystemStatus } | undefined;

const sumOf = (system: SystemStatus, read: (process: SystemStatus['processes'][number]) => number): number =>
  system.processes.reduce((sum, process) => sum + read(process), 0);

export const keptSamples = (): readonly Sample[] => samples;

/** Keeps an answer, once. */
export function sample(system: SystemStatus): void {
  const at = Date.now();
  if (last?.system === system || (last && at - last.at < LEAST_MS)) return;
  const before = last?.system;
  const seconds = last ? (at - last.at) / 1000 : 0;
  /** Counters restart with their process, so a negative difference counts as zero. */
  const rate = (read: (process: SystemStatus['processes'][number]) => number): number | null =>
    before ? Math.max(0, sumOf(system, read) - sumOf(before, read)) / seconds : null;
  const cpu = rate(({ cpuMs }) => cpuMs ?? 0);
  const taken: Sample = {
    at,
    delayMs: system.eventLoop.p99,
    memory: sumOf(system, ({ rss }) => rss ?? 0),
    cpu: cpu === null ? null : cpu / 1000,
    commits: rate(({ role, counters }) => (role === 'writer' ? (counters?.commits ?? 0) : 0)),
    rows: rate(({ role, counters }) => (role === 'writer' ? (counters?.statements ?? 0) : 0)),
  };
  last = { at, system };
  samples = [...samples.slice(1 - KEPT), taken];
}
