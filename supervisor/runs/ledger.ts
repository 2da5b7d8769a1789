/** Stores every run of an automation with its nodes, durably, and bounds the history (specification, "History of runs"). */
import type { Logger } from 'pino';
import { automationRef, type HistoryKeep } from '../../protocol/automations/automation.ts';
import type { Insights, RunNode, RunRecord } from '../../protocol/automations/runs.ts';
import { type ErrorBody, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import type { SqlStatement } from '../../protocol/wire/frames.ts';
import {
  ADDED_RUN_COLUMNS,
  endRun,
  errorText,
  insertNode,
  insertRun,
  isReplay,
  LISTED_COLUMNS,
  listRuns,
  nodeOf,
  RUN_COLUMNS,
  RUNTIME_SCHEMA,
  type RunFilter,
  releaseMessage,
  runOf,
} from '../../storage/automations/run-rows.ts';
import { addColumns } from '../added-columns.ts';
import { inTurns } from '../dispatch/kept-array.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';
import { OncePerDatabase, type RuntimeDatabases, RuntimeTables, unlessLost } from '../runtime/runtime-databases.ts';
import { Retention } from './retention.ts';
import { RunSummaries } from './run-summaries.ts';

/** Which automation. */
type AutomationName = { app: string; id: string };

type RunLedgerOptions = {
  /** The history, and `analytics.sqlite`, through the writer. */
  runtime: RuntimeDatabases;
  analytics: DbClient;
  /** Puts a damaged `analytics.sqlite` aside; answers its new name. */
  putAnalyticsAside(): Promise<string>;
  /** Milliseconds since the epoch. */
  now(): number;
  log: Pick<Logger, 'warn'>;
  /** The end of a run is stored. */
  onEnded?(run: RunRecord): void;
};

/** Bytes of a run's nodes so far. */
type Tally = { nodes: number; bytes: number };

const INTERRUPTED: ErrorBody = {
  code: 'RUN_ABORTED',
  message: 'The gateway stopped before this run had ended; what the run had done until then stays done.',
};
/** Those of one app, or all where that is null. */
const OPEN = 'ended_at IS NULL AND (@app IS NULL OR app_id = @app)';
const FORGET_OPEN_MESSAGES = `DELETE FROM webhook_ids
  WHERE run_id IN (SELECT run_id FROM runs WHERE ${OPEN} AND run_id <= @last)`;
const INTERRUPT_OPEN = `UPDATE runs SET state = 'interrupted', ended_at = @endedAt, error = @error WHERE ${OPEN} AND run_id <= @last`;
const LAST_RUNS = `SELECT ${LISTED_COLUMNS} FROM json_each(?) AS refs JOIN runs ON run_id = (
  SELECT run_id FROM runs AS of_ref WHERE of_ref.app_id = refs.value ->> 0 AND of_ref.automation_id = refs.value ->> 1
  ORDER BY run_id DESC LIMIT 1)`;

const SET_STATE = `INSERT INTO automation_state (app_id, automation_id, key, value)
  SELECT @app, @id, @key, @value WHERE EXISTS (SELECT 1 FROM automation_state WHERE app_id = @app AND automation_id = @id AND key = @key)
    OR (SELECT count(*) FROM automation_state WHERE app_id = @app AND automation_id = @id) < @most
  ON CONFLICT (app_id, automation_id, key) DO UPDATE SET value = excluded.value`;

/** Every statement here may run twice: see `retryIfWriterLost`. */
export class RunLedger {
  readonly #runtime: RuntimeDatabases;
  readonly #tables: RuntimeTables;
  readonly #recovery = new OncePerDatabase((db) => this.#interrupt(db));
  readonly #now: () => number;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #onEnded: (run: RunRecord) => void;
  readonly #retention: Retention;
  readonly #summaries: RunSummaries;
  readonly #gathered = new GatheredWrites();
  #opening: Promise<void> | null = null;
  #isOpen = false;
  /** Runs whose end is not stored, with their apps. */
  readonly #open = new Map<string, string>();
  /** State of runs under way. */
  readonly #tallies = new Map<string, Tally>();
  /** Statements under way that no caller waits for. */
  readonly #pending = new Set<Promise<void>>();

  constructor({ runtime, analytics, putAnalyticsAside, now, log, onEnded = () => {} }: RunLedgerOptions) {
    this.#runtime = runtime;
    this.#tables = new RuntimeTables(runtime, makeTables);
    this.#now = now;
    this.#log = log;
    this.#onEnded = onEnded;
    this.#retention = new Retention(runtime, now);
    this.#summaries = new RunSummaries(analytics, putAnalyticsAside, log);
  }

  /** Before runs of these apps are stored: marks what another node, or an earlier time here, left `interrupted`. */
  async serve(apps: Iterable<string>): Promise<void> {
    if (!this.#isOpen) return this.open();
    for (const app of apps) {
      const db = await this.#tables.existing(app);
      if (db !== null) await this.#interrupt(db, app);
    }
  }

  /** Makes the tables, and does `recover` in each database. When it rejects, the next run to be stored tries again. */
  open(): Promise<void> {
    this.#opening ??= this.#prepare().catch((error: unknown) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  async #prepare(): Promise<void> {
    const all = await this.#tables.all();
    await this.#summaries.open();
    for (const db of all) {
      await this.recover(db);
      await this.#summaries.settled();
      // A crash may have come between the end of a run and its summary; those of the newest are added again.
      for (const { run, nodes } of await this.#withNodes(db, '', 'DESC')) {
        if (run.endedAt !== null) this.#summaries.add(run, nodes, null);
      }
      await this.#summaries.settled();
    }
    this.#isOpen = true;
  }

  /** Marks the runs that an earlier gateway left in a database `interrupted`, once, before anything is written there. */
  async recover(db: DbClient): Promise<void> {
    await this.#recovery.in(db);
  }

  /**
   * Stores a new run; it is durable when this resolves. `extra` goes into the same batch, all or none, and must be harmless
   * when it runs twice. Rejects with `CONFLICT` when `extra` claims a webhook message that was taken before.
   */
  async insert(run: RunRecord, extra: SqlStatement[] = []): Promise<void> {
    const db = await this.#toWrite(run.app);
    this.#open.set(run.runId, run.app);
    const write = () => retryIfWriterLost(() => db.batch([insertRun(run), ...extra]));
    try {
      await this.#refusingReplays(() => this.#gathered.add(this.#open.size, write));
    } catch (error) {
      this.#open.delete(run.runId);
      throw error;
    }
  }

  /** The run goes from `queued` to `running`; a failure is logged. */
  started({ app, runId }: RunRecord, startedAt: number): void {
    const sql = "UPDATE runs SET state = 'running', started_at = ? WHERE run_id = ? AND state = 'queued'";
    this.#later(app, runId, [sql, [startedAt, runId]]);
  }

  /** A node of a run of the app ended. Stored in the order of the calls and before the end of its run; a failure is logged. */
  node(app: string, node: RunNode): void {
    const tally = this.#tallies.get(node.runId) ?? { nodes: 0, bytes: 0 };
    this.#tallies.set(node.runId, tally);
    const limit = tally.bytes < LIMITS.runNodesBytes ? LIMITS.runValueBytes : LIMITS.runValueLeftBytes;
    const { statement, bytes } = insertNode(node, limit);
    tally.nodes += 1;
    tally.bytes += bytes;
    this.#later(app, node.runId, statement);
  }

  /**
   * Stores how a run ended, once, and drops what `keep` does not keep; durable when this resolves. `model` is for the summary,
   * `status` what its handler answered the sender of a webhook with: a message that failed or was refused may come again. `extra` as in
   * `insert`.
   */
  async end(
    run: RunRecord,
    keep: HistoryKeep,
    {
      model = null,
      status = null,
      extra = [],
    }: { model?: string | null; status?: number | null; extra?: SqlStatement[] } = {},
  ): Promise<void> {
    const endedAt = run.endedAt ?? this.#now();
    const nodes = this.#tallies.get(run.runId)?.nodes ?? 0;
    const write = [endRun(run, endedAt)];
    const isTaken = run.state === 'ok' && (status ?? 200) < 400;
    if (run.trigger.kind === 'webhook' && !isTaken) write.push(releaseMessage(run.runId));
    write.push(...extra);
    try {
      await this.#gathered.add(this.#open.size, () => this.#retention.store(run, keep, write));
    } finally {
      this.#open.delete(run.runId);
    }
    // Only now: one that could not be stored is tried again.
    this.#tallies.delete(run.runId);
    this.#onEnded(run);
    this.#summaries.add({ ...run, endedAt }, nodes, model);
  }

  /** Stores a run that ended as it began: `skipped`. `extra` as in `insert`. */
  async skip(run: RunRecord, keep: HistoryKeep, extra: SqlStatement[] = []): Promise<void> {
    await this.#toWrite(run.app);
    const endedAt = run.endedAt ?? this.#now();
    const skipped = { ...run, endedAt };
    await this.#refusingReplays(() => this.#retention.store(skipped, keep, [insertRun(skipped), ...extra]));
    this.#onEnded(skipped);
    this.#summaries.add(skipped, 0, null);
  }

  /** The run with the whole of what is stored of it, or null. */
  async get(runId: string): Promise<RunRecord | null> {
    const app = this.#open.get(runId);
    if (app !== undefined) return find(await this.#tables.of(app), runId);
    for (const db of await this.#tables.all()) {
      const run = await unlessLost(db, () => find(db, runId));
      if (run !== null) return run;
    }
    return null;
  }

  /** Nodes of a run in their order: at most `limit`, of those behind the ordinal `after`. */
  async nodes({ app, runId }: RunRecord, page: { after?: number; limit?: number } = {}): Promise<RunNode[]> {
    const { after = 0, limit = LIMITS.listRowsMax } = page;
    const sql = 'SELECT * FROM run_nodes WHERE run_id = ? AND ordinal > ? ORDER BY ordinal LIMIT ?';
    const db = await this.#tables.of(app);
    const rows = await retryIfWriterLost(() => db.all(sql, [runId, after, limit]));
    return inTurns(rows, nodeOf);
  }

  /** Runs, the newest first; of inputs and outputs over `LIMITS.runListedBytes` only the beginning. */
  async list(filter: RunFilter = {}, limit: number = LIMITS.listRows): Promise<RunRecord[]> {
    const app = filter.ref?.app ?? filter.app;
    if (app !== undefined) {
      const db = await this.#tables.existing(app);
      return db === null ? [] : listIn(db, filter, limit);
    }
    let newest: RunRecord[] = [];
    for (const db of await this.#tables.all()) {
      // There may be thousands of databases: each is asked only for what belongs to the page.
      const from = newest.length < limit ? undefined : newest.at(-1)?.runId;
      const found = (await unlessLost(db, () => listIn(db, { ...filter, from }, limit))) ?? [];
      newest = newest.length === 0 ? found : [...newest, ...found].sort(byAge).slice(0, limit);
    }
    return newest;
  }

  /** The newest run of each automation that has one, by ref, as `list` gives it. */
  async lastRuns(automations: AutomationName[]): Promise<Map<string, RunRecord>> {
    const runs = new Map<string, RunRecord>();
    const refsOf = new Map<DbClient | null, [app: string, id: string][]>();
    for (const { app, id } of automations) {
      const db = this.#runtime.existing(app);
      const known = refsOf.get(db);
      if (known === undefined) refsOf.set(db, [[app, id]]);
      else known.push([app, id]);
    }
    for (const [db, all] of refsOf) {
      if (db === null) continue;
      await this.#tables.in(db);
      for (let from = 0; from < all.length; from += LIMITS.listRowsMax) {
        const refs = all.slice(from, from + LIMITS.listRowsMax);
        const rows = await retryIfWriterLost(() => db.all(LAST_RUNS, [JSON.stringify(refs)]));
        for (const run of rows.map(runOf)) runs.set(run.ref, run);
      }
    }
    return runs;
  }

  /** Sums over the runs of the last `days` days, including today and removed apps. */
  async insights(days: number): Promise<Insights> {
    if (!this.#isOpen) await this.open();
    const today = Math.floor(this.#now() / LIMITS.dayMs);
    const sums = await this.#summaries.sums((today - days + 1) * LIMITS.dayMs);
    return { ...sums, recent: await this.list({}, LIMITS.insightsRecent) };
  }

  /** A pinned run stays in the history. Resolves with the run, or null when there is none. */
  async pin(runId: string, pinned: boolean): Promise<RunRecord | null> {
    const run = await this.get(runId);
    if (!run) return null;
    // Both times: what is counted while the statement is under way may be from before it.
    this.#retention.pinned(run, pinned);
    const db = await this.#tables.of(run.app);
    await retryIfWriterLost(() => db.run('UPDATE runs SET pinned = ? WHERE run_id = ?', [pinned ? 1 : 0, runId]));
    const changed = await find(db, runId);
    if (changed) this.#retention.pinned(changed, pinned);
    return changed;
  }

  /** The app was removed: its runs, its automations' state and when they fired go. Its summaries stay. */
  async forgetApp(app: string): Promise<void> {
    const db = await this.#tables.existing(app);
    if (db === null) return;
    const sql = 'DELETE FROM runs WHERE run_id IN (SELECT run_id FROM runs WHERE app_id = ? LIMIT ?)';
    // In steps, so that a long history does not keep the writer from everything else.
    while ((await retryIfWriterLost(() => db.run(sql, [app, LIMITS.runsDropped]))).changes > 0);
    await retryIfWriterLost(() =>
      db.batch([
        ['DELETE FROM automation_state WHERE app_id = ?', [app]],
        ['DELETE FROM cron_fired WHERE app_id = ?', [app]],
      ]),
    );
    this.#retention.forget(app);
  }

  /** The scheduled time, in milliseconds since the epoch, of the automation's latest cron fire; null before the first. */
  async cronFired({ app, id }: AutomationName): Promise<number | null> {
    const sql = 'SELECT last_at FROM cron_fired WHERE app_id = ? AND automation_id = ?';
    const db = await this.#tables.existing(app);
    const row = db && (await retryIfWriterLost(() => db.get(sql, [app, id])));
    return row === null ? null : Number(row.last_at);
  }

  /**
   * By ref, the scheduled times of the latest cron fires, but for those ahead of `at` by more than a clock that is set back may be wrong:
   * of all automations, or of those in one database.
   */
  async lastCronFires(at: number, only?: DbClient): Promise<Map<string, number>> {
    const sql = 'SELECT app_id, automation_id, last_at FROM cron_fired WHERE last_at <= ?';
    const fired = new Map<string, number>();
    for (const db of only === undefined ? await this.#tables.all() : [await this.#tables.in(only)])
      for (const row of await retryIfWriterLost(() => db.all(sql, [at + LIMITS.cronBackMs])))
        fired.set(automationRef(String(row.app_id), String(row.automation_id)), Number(row.last_at));
    return fired;
  }

  /** For `insert` or `skip`: the run is a cron fire of this scheduled time. */
  cronFire({ app, id }: AutomationName, scheduledAt: number): SqlStatement {
    const sql = `INSERT INTO cron_fired (app_id, automation_id, last_at) VALUES (?, ?, ?)
      ON CONFLICT (app_id, automation_id) DO UPDATE
      SET last_at = iif(last_at - excluded.last_at > ?, excluded.last_at, max(last_at, excluded.last_at))`;
    // Drops times noted by a clock that was plainly wrong.
    return [sql, [app, id, scheduledAt, LIMITS.cronBackMs]];
  }

  /** Notes a cron fire, or the first time that one was looked for, without a run. */
  async noteCronFired(automation: AutomationName, scheduledAt: number): Promise<void> {
    const db = await this.#toWrite(automation.app);
    await retryIfWriterLost(() => db.batch([this.cronFire(automation, scheduledAt)]));
  }

  /** `ctx.state`: the value, or undefined. Like the next two, rejects with `BAD_REQUEST` for a malformed key. */
  async getState({ app, id }: AutomationName, key: unknown): Promise<unknown> {
    const name = checkKey(key);
    const sql = 'SELECT value FROM automation_state WHERE app_id = ? AND automation_id = ? AND key = ?';
    const db = await this.#tables.of(app);
    const row = await retryIfWriterLost(() => db.get(sql, [app, id, name]));
    return row === null ? undefined : JSON.parse(String(row.value));
  }

  /** Stored durably when it resolves. Rejects with `PAYLOAD_TOO_LARGE` over `LIMITS.stateValueBytes` or `LIMITS.stateKeys`. */
  async setState({ app, id }: AutomationName, key: unknown, value: unknown): Promise<void> {
    const name = checkKey(key);
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined) throw new SvcError('BAD_REQUEST', 'The value must be JSON.', { path: 'value' });
    if (Buffer.byteLength(text) > LIMITS.stateValueBytes)
      throw tooLarge('value', `A value may have at most ${LIMITS.stateValueBytes} bytes of JSON.`);
    const row = { app, id, key: name, value: text, most: LIMITS.stateKeys };
    const db = await this.#tables.of(app);
    const { changes } = await retryIfWriterLost(() => db.run(SET_STATE, row));
    if (changes === 0) throw tooLarge('key', `An automation may have at most ${LIMITS.stateKeys} keys; delete some.`);
  }

  /** No error when there is no such key. */
  async deleteState({ app, id }: AutomationName, key: unknown): Promise<void> {
    const name = checkKey(key);
    const sql = 'DELETE FROM automation_state WHERE app_id = ? AND automation_id = ? AND key = ?';
    const db = await this.#tables.of(app);
    await retryIfWriterLost(() => db.run(sql, [app, id, name]));
  }

  /** Every run that has not ended is `interrupted`, for a stop that cannot wait any longer. */
  async interruptAll(): Promise<void> {
    await this.settled();
    for (const db of await this.#tables.all()) await this.#interrupt(db);
    this.#tallies.clear();
    this.#open.clear();
    this.#retention.forget();
  }

  /** The database for rows of the app, in which nothing is left that an earlier gateway had under way. */
  #toWrite(app: string): Promise<DbClient> {
    return this.#isOpen ? this.#recovery.in(this.#runtime.of(app)) : this.open().then(() => this.#toWrite(app));
  }

  /** Another node goes on with the app: what is counted of its history is counted anew. */
  async release(app: string): Promise<void> {
    await this.settled();
    this.#retention.forget(app);
  }

  /** Resolves when everything that was handed over is stored, or failed. */
  async settled(): Promise<void> {
    this.#gathered.flush();
    await Promise.all(this.#pending);
    await this.#summaries.settled();
  }

  /** In one database; of one app, or all where it is null. */
  async #interrupt(db: DbClient, app: string | null = null): Promise<void> {
    await this.#tables.in(db);
    for (;;) {
      const open = await this.#withNodes(db, `WHERE ${OPEN}`, 'ASC', app);
      const last = open.at(-1)?.run.runId;
      if (last === undefined) return;
      const endedAt = this.#now();
      await retryIfWriterLost(() =>
        db.batch([
          [FORGET_OPEN_MESSAGES, { app, last }],
          [INTERRUPT_OPEN, { app, last, endedAt, error: errorText(INTERRUPTED) }],
        ]),
      );
      for (const { run, nodes } of open) this.#summaries.add({ ...run, state: 'interrupted', endedAt }, nodes, null);
    }
  }

  /** Runs as they are listed, with the number of their nodes; a page from one end. */
  async #withNodes(
    db: DbClient,
    where: string,
    order: 'ASC' | 'DESC',
    app: string | null = null,
  ): Promise<{ run: RunRecord; nodes: number }[]> {
    const sql = `SELECT ${LISTED_COLUMNS}, (SELECT count(*) FROM run_nodes AS of_run WHERE of_run.run_id = runs.run_id) AS nodes
      FROM runs ${where} ORDER BY run_id ${order} LIMIT @most`;
    const params = where === '' ? { most: LIMITS.listRowsMax } : { app, most: LIMITS.listRowsMax };
    const rows = await retryIfWriterLost(() => db.all(sql, params));
    return rows.map((row) => ({ run: runOf(row), nodes: Number(row.nodes) }));
  }

  #later(app: string, runId: string, [sql, params]: SqlStatement): void {
    const done = retryIfWriterLost(async () => this.#runtime.of(app).run(sql, params)).then(
      () => {},
      (error: unknown) => this.#log.warn({ err: error, runId }, 'A step of a run could not be recorded.'),
    );
    this.#pending.add(done);
    void done.then(() => this.#pending.delete(done));
  }

  async #refusingReplays<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (error) {
      if (isReplay(error)) throw new SvcError('CONFLICT', 'A message with this webhook-id was already accepted.');
      throw error;
    }
  }
}

async function makeTables(db: DbClient): Promise<void> {
  await db.exec(RUNTIME_SCHEMA);
  await addColumns(db, 'runs', ADDED_RUN_COLUMNS);
}

async function find(db: DbClient, runId: string): Promise<RunRecord | null> {
  const row = await retryIfWriterLost(() => db.get(`SELECT ${RUN_COLUMNS} FROM runs WHERE run_id = ?`, [runId]));
  return row && runOf(row);
}

async function listIn(db: DbClient, filter: RunFilter, limit: number): Promise<RunRecord[]> {
  const [sql, params] = listRuns(filter, limit);
  return (await retryIfWriterLost(() => db.all(sql, params))).map(runOf);
}

/** The newest first: ids grow with time. */
function byAge(one: RunRecord, other: RunRecord): number {
  return one.runId < other.runId ? 1 : -1;
}

function tooLarge(path: string, message: string): SvcError {
  return new SvcError('PAYLOAD_TOO_LARGE', message, { path });
}

function checkKey(key: unknown): string {
  if (typeof key === 'string' && key !== '' && Buffer.byteLength(key) <= LIMITS.stateKeyBytes) return key;
  throw new SvcError('BAD_REQUEST', `A key must be a string of 1 to ${LIMITS.stateKeyBytes} bytes.`, { path: 'key' });
}

/** Runs under way up to which no write waits: too few would share its commit. */
const FEW_RUNS = 4;

/** Holds writes of many runs back until some leave together: a commit costs about the same for one as for ten. */
export class GatheredWrites {
  #held: (() => void)[] = [];
  #timer: NodeJS.Timeout | null = null;

  /** Resolves as `write` does. With many runs under way it waits until half of them have a write, or for `LIMITS.runGatherMs`. */
  add<T>(runsUnderWay: number, write: () => Promise<T>): Promise<T> {
    if (runsUnderWay <= FEW_RUNS && this.#held.length === 0) return write();
    return new Promise((resolve, reject) => {
      this.#held.push(() => write().then(resolve, reject));
      if (this.#held.length >= runsUnderWay / 2) this.flush();
      else this.#timer ??= setTimeout(() => this.flush(), LIMITS.runGatherMs);
    });
  }

  /** No store waits any longer. */
  flush(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    const held = this.#held;
    this.#held = [];
    for (const write of held) write();
  }
}
