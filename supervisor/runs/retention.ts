/** Chooses the runs that leave the history when a run of their automation ends (`history.keep`). Pinned runs stay. */
import type { HistoryKeep } from '../../protocol/automations/automation.ts';
import type { RunRecord } from '../../protocol/automations/runs.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { RunResult, SqlStatement } from '../../protocol/wire/frames.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';
import type { RuntimeDatabases } from '../runtime/runtime-databases.ts';

// `LIMIT (SELECT ?)`: where SQLite's planner looks at a parameter, as it does at a plain `LIMIT ?`, each new value has the
// statement compiled again, which takes several times as long as to run it.

/** Runs the oldest first; only as long as the run at hand has not ended, so that to run it twice deletes no more. */
export const DROP_OLDEST = `DELETE FROM runs WHERE run_id IN (
    SELECT run_id FROM runs WHERE app_id = ? AND automation_id = ? AND pinned = 0 AND ended_at IS NOT NULL
    ORDER BY run_id LIMIT (SELECT ?))
  AND NOT EXISTS (SELECT 1 FROM runs WHERE run_id = ? AND ended_at IS NOT NULL)`;
/** Ids grow with time, so those that are older are at the head of the index. */
export const DROP_OLD = `DELETE FROM runs WHERE run_id IN (
    SELECT run_id FROM runs WHERE app_id = ? AND automation_id = ? AND run_id < ? AND pinned = 0 AND ended_at < ?
    ORDER BY run_id LIMIT (SELECT ?))`;
const DROP_UNLESS_FAILED = `DELETE FROM runs WHERE run_id = ? AND pinned = 0 AND state NOT IN ('error', 'aborted', 'interrupted')`;
const COUNT_KEPT = `SELECT
    (SELECT count(*) FROM runs WHERE app_id = ? AND automation_id = ? AND pinned = 0)
    - (SELECT count(*) FROM runs INDEXED BY runs_open WHERE ended_at IS NULL AND app_id = ? AND automation_id = ? AND pinned = 0)
  AS kept`;

export class Retention {
  readonly #runtime: RuntimeDatabases;
  readonly #now: () => number;
  /** Ended runs of an automation that are not pinned, for those that keep a count; read once, then counted along. */
  readonly #kept = new Map<string, number | Promise<number>>();
  /** Runs that were pinned before they ended: they will not count. */
  readonly #pinnedOpen = new Set<string>();

  /** `now` gives milliseconds since the epoch. */
  constructor(runtime: RuntimeDatabases, now: () => number) {
    this.#runtime = runtime;
    this.#now = now;
  }

  /**
   * Runs `write`, whose first statement ends `run` or stores it ended, and removes the runs that `keep` does not keep, in one
   * batch.
   */
  async store(run: RunRecord, keep: HistoryKeep, write: SqlStatement[]): Promise<void> {
    if (typeof keep === 'object' && 'count' in keep) {
      await this.#storeCounted(run, keep.count, write);
      return;
    }
    this.#kept.delete(run.ref);
    this.#pinnedOpen.delete(run.runId);
    const dropped = this.#dropped(run, keep);
    await retryIfWriterLost(() => this.#runtime.of(run.app).batch(dropped ? [...write, dropped] : write));
  }

  /** A run is about to be pinned or not pinned any more, or just was. */
  pinned(run: RunRecord, pinned: boolean): void {
    this.#kept.delete(run.ref);
    if (run.endedAt === null && pinned) this.#pinnedOpen.add(run.runId);
    else this.#pinnedOpen.delete(run.runId);
  }

  /** Runs came or went by other ways; of one app's, or any. */
  forget(app?: string): void {
    for (const ref of this.#kept.keys()) if (app === undefined || ref.startsWith(`${app}/`)) this.#kept.delete(ref);
  }

  async #storeCounted(run: RunRecord, count: number, write: SqlStatement[]): Promise<void> {
    const drop = await this.#reserve(run, count);
    const dropOldest: SqlStatement = [DROP_OLDEST, [run.app, run.automation, drop, run.runId]];
    let lost = false;
    try {
      const results: RunResult[] = await retryIfWriterLost(
        () => this.#runtime.of(run.app).batch(drop > 0 ? [dropOldest, ...write] : write),
        () => {
          lost = true;
        },
      );
      const [dropped, written] = drop > 0 ? results : [{ changes: 0 }, ...results];
      if (lost || dropped?.changes !== drop || written?.changes !== 1) this.#kept.delete(run.ref);
    } catch (error) {
      this.#kept.delete(run.ref);
      throw error;
    }
  }

  /** How many are to go so that `count` are left with this one. Counted at once, for the ends of others meanwhile. */
  async #reserve(run: RunRecord, count: number): Promise<number> {
    for (;;) {
      let known = this.#kept.get(run.ref);
      if (known === undefined) {
        known = this.#count(run);
        this.#kept.set(run.ref, known);
      }
      const kept = await known;
      // Another run ended first, or the count is outdated.
      if (this.#kept.get(run.ref) !== known) continue;
      const added = this.#pinnedOpen.delete(run.runId) ? 0 : 1;
      const drop = Math.min(Math.max(0, kept + added - count), LIMITS.runsDropped);
      this.#kept.set(run.ref, kept + added - drop);
      return drop;
    }
  }

  async #count({ app, automation, ref }: RunRecord): Promise<number> {
    try {
      const row = await retryIfWriterLost(() =>
        this.#runtime.of(app).get(COUNT_KEPT, [app, automation, app, automation]),
      );
      return Number(row?.kept);
    } catch (error) {
      this.#kept.delete(ref);
      throw error;
    }
  }

  #dropped(run: RunRecord, keep: Exclude<HistoryKeep, { count: number }>): SqlStatement | null {
    if (keep === 'all') return null;
    if (keep === 'errors') return [DROP_UNLESS_FAILED, [run.runId]];
    const before = this.#now() - keep.days * LIMITS.dayMs;
    return [DROP_OLD, [run.app, run.automation, firstRunIdAt(before), before, LIMITS.runsDropped]];
  }
}

/** The text that every id made at this time, in milliseconds since the epoch, begins with or comes after. */
export function firstRunIdAt(time: number): string {
  const hex = Math.max(0, Math.floor(time)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}
