/** What the writer has done since it started; shown in its heartbeats. */
export type Counters = { commits: number; statements: number; rows: number; groupMax: number; checkpoints: number };

export function newCounters(): Counters {
  return { commits: 0, statements: 0, rows: 0, groupMax: 0, checkpoints: 0 };
}
