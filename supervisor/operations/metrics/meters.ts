/**
 * Counts calls and runs by app since the start. A call adds to numbers that its actor holds: labels and look-ups happen only in
 * a scrape (specification, "Metrics and traces").
 */

import type { RunRecord } from '../../../protocol/automations/runs.ts';
import { isDraftKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';

/** Upper bounds of the buckets of call durations, in milliseconds; a last bucket has what is longer. */
export const CALL_BUCKETS_MS = [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000, 30_000] as const;

/** The label of all apps without their own. */
export const OTHER = 'other';

/** Calls of one kind by how they ended: `refused` with a status below 500, `failed` with another error. */
type CallCounts = { ok: number; refused: number; failed: number };

/** The counts of one app, or of all that share a label. They only grow. */
export class Meter {
  readonly queries: CallCounts = { ok: 0, refused: 0, failed: 0 };
  readonly actions: CallCounts = { ok: 0, refused: 0, failed: 0 };
  /** How many calls took as long, see `CALL_BUCKETS_MS`; not added up. */
  readonly buckets = new Float64Array(CALL_BUCKETS_MS.length + 1);
  callMs = 0;
  keptHits = 0;
  keptMisses = 0;
  restarts = 0;
  /** By their state at the end. */
  readonly runs = new Map<RunRecord['state'], number>();
  inputTokens = 0;
  outputTokens = 0;
  costUsd = 0;

  /** A query or action ended after `ms`, waiting included; `status` is that of its error, 0 without one. */
  called(counts: CallCounts, ms: number, status: number): void {
    if (status === 0) counts.ok++;
    else if (status < 500) counts.refused++;
    else counts.failed++;
    let bucket = 0;
    while (bucket < CALL_BUCKETS_MS.length && ms > (CALL_BUCKETS_MS[bucket] as number)) bucket++;
    (this.buckets[bucket] as number)++;
    this.callMs += ms;
  }

  ran({ state, usage }: Pick<RunRecord, 'state' | 'usage'>): void {
    this.runs.set(state, (this.runs.get(state) ?? 0) + 1);
    this.inputTokens += usage.inputTokens;
    this.outputTokens += usage.outputTokens;
    this.costUsd += usage.costUsd ?? 0;
  }

  /** Counts what another has counted, too. */
  add(other: Meter): void {
    for (const kind of ['queries', 'actions'] as const)
      for (const result of ['ok', 'refused', 'failed'] as const) this[kind][result] += other[kind][result];
    for (const [index, count] of other.buckets.entries()) (this.buckets[index] as number) += count;
    for (const name of SUMS) this[name] += other[name];
    for (const [state, count] of other.runs) this.runs.set(state, (this.runs.get(state) ?? 0) + count);
  }
}

const SUMS = ['callMs', 'keptHits', 'keptMisses', 'restarts', 'inputTokens', 'outputTokens', 'costUsd'] as const;

/**
 * The meters of all apps. The first `LIMITS.metricsApps` that are used have their own label, so that counts never decrease;
 * `LIMITS.activityApps` have their own meter.
 */
export class Meters {
  readonly #limit: number;
  readonly #meterLimit: number;
  readonly #own = new Map<string, Meter>();
  /** For apps without a label. */
  readonly #unlabelled = new Map<string, Meter>();
  /** For apps without a meter, and the sums of removed apps without a label. */
  readonly #other = new Meter();
  /** For previews, which do not count as use of an app: never shown. */
  readonly #drafts = new Meter();

  constructor(limit: number = LIMITS.metricsApps, meterLimit: number = LIMITS.activityApps) {
    this.#limit = limit;
    this.#meterLimit = meterLimit;
  }

  /** `key` is the id of a live app or the key of a draft. */
  of(key: string): Meter {
    const known = this.#own.get(key) ?? this.#unlabelled.get(key);
    if (known !== undefined) return known;
    if (isDraftKey(key)) return this.#drafts;
    if (this.#own.size + this.#unlabelled.size >= this.#meterLimit) return this.#other;
    const meter = new Meter();
    const isLabelled = this.#own.size < this.#limit && key !== OTHER;
    (isLabelled ? this.#own : this.#unlabelled).set(key, meter);
    return meter;
  }

  /** The label under which an app is counted. */
  labelOf(app: string): string {
    return this.#own.has(app) ? app : OTHER;
  }

  /** By label; that of all others is the last. */
  get all(): [label: string, meter: Meter][] {
    const others = new Meter();
    for (const meter of [this.#other, ...this.#unlabelled.values()]) others.add(meter);
    return [...this.#own, [OTHER, others]];
  }

  /** The apps with their own meter. */
  used(): [app: string, meter: Meter][] {
    return [...this.#own, ...this.#unlabelled];
  }

  /** The app was removed: another may have its place. */
  forget(app: string): void {
    this.#own.delete(app);
    const meter = this.#unlabelled.get(app);
    if (meter === undefined) return;
    this.#other.add(meter);
    this.#unlabelled.delete(app);
  }
}
