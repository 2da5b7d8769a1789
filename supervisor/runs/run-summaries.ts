/**
 * Writes one row for each run that ended to `analytics.sqlite`, which stays when the run leaves the history (specification,
 * "History of runs").
 */
import type { Logger } from 'pino';
import type { Insights, RunRecord, RunSums } from '../../protocol/automations/runs.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import type { Row, SqlStatement } from '../../protocol/wire/frames.ts';
import { ANALYTICS_SCHEMA, usageValues } from '../../storage/automations/run-rows.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';

const INSERT = `INSERT INTO run_summaries (run_id, app_id, automation_id, trigger_kind, state, model, started_at, ended_at, nodes,
  input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING`;

const SUMS = `count(*) AS runs, total(state = 'ok') AS ok, total(state IN ('error', 'interrupted')) AS failed,
  total(input_tokens) AS inputTokens, total(output_tokens) AS outputTokens, nullif(total(cost_usd), 0) AS costUsd`;

export class RunSummaries {
  readonly #db: DbClient;
  readonly #putAside: () => Promise<string>;
  readonly #log: Pick<Logger, 'warn'>;
  #renewing: Promise<void> | null = null;
  #due: SqlStatement[] = [];
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;

  /** `putAside` renames a damaged database. */
  constructor(db: DbClient, putAside: () => Promise<string>, log: Pick<Logger, 'warn'>) {
    this.#db = db;
    this.#putAside = putAside;
    this.#log = log;
  }

  async open(): Promise<void> {
    await this.#ask(() => this.#db.exec(ANALYTICS_SCHEMA));
  }

  /** What is derived is made anew when it is damaged: its newest runs are added again at the next start. */
  async #ask<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await retryIfWriterLost(ask);
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'STORE_DAMAGED') throw error;
      this.#renewing ??= this.#renew().finally(() => {
        this.#renewing = null;
      });
      await this.#renewing;
      return retryIfWriterLost(ask);
    }
  }

  async #renew(): Promise<void> {
    const aside = await this.#putAside();
    await retryIfWriterLost(() => this.#db.exec(ANALYTICS_SCHEMA));
    this.#log.warn(`analytics.sqlite was damaged. It is ${aside} now, and an empty analytics.sqlite was made.`);
  }

  /** Written within `LIMITS.runSummaryMs`, together with others, so that runs are stored first. The ledger adds again what a crash took. */
  add(run: RunRecord, nodes: number, model: string | null): void {
    if (this.#due.length >= LIMITS.batchStatements) {
      this.#log.warn({ runId: run.runId }, 'Too many run summaries are waiting; one was dropped.');
      return;
    }
    const { runId, app, automation, trigger, state, startedAt, endedAt, queuedAt, usage } = run;
    this.#due.push([
      INSERT,
      [
        runId,
        app,
        automation,
        trigger.kind,
        state,
        model,
        startedAt,
        endedAt ?? queuedAt,
        nodes,
        ...usageValues(usage),
      ],
    ]);
    this.#timer ??= setTimeout(() => this.#flush(), LIMITS.runSummaryMs).unref();
  }

  /** Sums over the runs that ended since then, in milliseconds since the epoch. */
  async sums(since: number): Promise<Omit<Insights, 'recent'>> {
    await this.settled();
    const all = (key: string, rest: string): Promise<Row[]> => {
      const sql = `SELECT ${key}${SUMS} FROM run_summaries WHERE ended_at >= ? ${rest}`;
      return this.#ask(() => this.#db.all(sql, [since]));
    };
    const most = `ORDER BY runs DESC LIMIT ${LIMITS.listRowsMax}`;
    const [totals, byDay, byAutomation, byModel] = (await Promise.all([
      all('', ''),
      all("strftime('%F', ended_at / 1000, 'unixepoch') AS day, ", 'GROUP BY day ORDER BY day'),
      all("app_id || '/' || automation_id AS ref, ", `GROUP BY app_id, automation_id ${most}`),
      all('model, ', `AND model IS NOT NULL GROUP BY model ${most}`),
    ])) as [RunSums[], Insights['byDay'], Insights['byAutomation'], Insights['byModel']];
    return { totals: totals[0] as RunSums, byDay, byAutomation, byModel };
  }

  /** Writes what waits; resolves when everything was written. */
  async settled(): Promise<void> {
    this.#flush();
    await this.#writing;
  }

  #flush(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#due.length > 0) this.#writing ??= this.#write();
  }

  /** One batch at a time. */
  async #write(): Promise<void> {
    while (this.#due.length > 0) {
      const batch = this.#due;
      this.#due = [];
      try {
        await this.#ask(() => this.#db.batch(batch));
      } catch (error) {
        this.#log.warn({ err: error, runs: batch.length }, 'Summaries of runs could not be written.');
      }
    }
    this.#writing = null;
  }
}
