/**
 * Maps runs to SQLite (specification, "Runs"): the tables of `runtime.sqlite`, which holds the history, and of
 * `analytics.sqlite`, which holds a summary that outlives it; runs and their nodes as rows; the statements that write and list
 * them. Pure.
 */
import { automationRef } from '../../protocol/automations/automation.ts';
import type { RunNode, RunRecord, RunState, Usage } from '../../protocol/automations/runs.ts';
import type { ErrorBody } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isTooDeep } from '../../protocol/rules/json-text.ts';
import type { Row, SqlStatement, SqlValue } from '../../protocol/wire/frames.ts';
import type { NamedPerson } from '../../protocol/wire/handler-caller.ts';

/**
 * A run's id is a UUIDv7, so that order by id is order of time. The indexes by state leave out runs that ended `ok`, which are
 * most: the other indexes find those. The few that have not ended have a separate index. An earlier version's indexes by state
 * held every run that had ended.
 */
export const RUNTIME_SCHEMA = `
  CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    app_id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    trigger_kind TEXT NOT NULL,
    trigger_origin TEXT,
    parent_run_id TEXT,
    state TEXT NOT NULL,
    input TEXT,
    output TEXT,
    summary TEXT,
    error TEXT,
    queued_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    pinned INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX IF NOT EXISTS runs_open ON runs (run_id) WHERE ended_at IS NULL;
  CREATE INDEX IF NOT EXISTS runs_by_app ON runs (app_id, run_id);
  CREATE INDEX IF NOT EXISTS runs_by_automation ON runs (app_id, automation_id, run_id, pinned);
  DROP INDEX IF EXISTS runs_by_state;
  DROP INDEX IF EXISTS runs_by_app_state;
  DROP INDEX IF EXISTS runs_by_automation_state;
  CREATE INDEX IF NOT EXISTS runs_not_ok ON runs (state, run_id) WHERE ended_at IS NOT NULL AND state <> 'ok';
  CREATE INDEX IF NOT EXISTS runs_not_ok_by_app ON runs (app_id, state, run_id) WHERE ended_at IS NOT NULL AND state <> 'ok';
  CREATE INDEX IF NOT EXISTS runs_not_ok_by_automation ON runs (app_id, automation_id, state, run_id)
    WHERE ended_at IS NOT NULL AND state <> 'ok';
  CREATE TABLE IF NOT EXISTS run_nodes (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    batch_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    args TEXT,
    output TEXT,
    ok INTEGER NOT NULL,
    error TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, ordinal)
  );
  CREATE TABLE IF NOT EXISTS automation_state (
    app_id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (app_id, automation_id, key)
  );
  CREATE TABLE IF NOT EXISTS cron_fired (
    app_id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (app_id, automation_id)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS webhook_ids (
    slug TEXT NOT NULL,
    webhook_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (slug, webhook_id)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS webhook_ids_by_run ON webhook_ids (run_id);
  CREATE INDEX IF NOT EXISTS webhook_ids_by_time ON webhook_ids (at)`;

/** Columns of runs that earlier releases did not have: the JSON text of the person who caused it. */
export const ADDED_RUN_COLUMNS: readonly string[] = ['person TEXT'];

export const ANALYTICS_SCHEMA = `
  CREATE TABLE IF NOT EXISTS run_summaries (
    run_id TEXT PRIMARY KEY,
    app_id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    trigger_kind TEXT NOT NULL,
    state TEXT NOT NULL,
    model TEXT,
    started_at INTEGER,
    ended_at INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL
  );
  CREATE INDEX IF NOT EXISTS run_summaries_by_end ON run_summaries (ended_at)`;

/**
 * Which runs; all that are given must fit. `before` is a run id: only older ones; `from` too: only that one and newer ones. `failingFrom` is a run id: only failed runs from there
 * on whose automation has not succeeded since.
 */
export type RunFilter = {
  ref?: { app: string; id: string };
  app?: string;
  state?: RunState;
  before?: string;
  from?: string | undefined;
  failingFrom?: string;
};

const USAGE_COLUMNS = 'input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd';
const PLAIN_COLUMNS = `run_id, kind, app_id, automation_id, trigger_kind, trigger_origin, parent_run_id, state, summary, error,
  queued_at, started_at, ended_at, ${USAGE_COLUMNS}, pinned, person`;

/** A run with its complete input and output. */
export const RUN_COLUMNS = `${PLAIN_COLUMNS}, input, output, octet_length(input) AS input_bytes, octet_length(output) AS output_bytes`;
/** A run with long values cut to their beginning. */
export const LISTED_COLUMNS = `${PLAIN_COLUMNS}, ${listed('input')}, ${listed('output')}`;

const INSERT_RUN = `INSERT INTO runs (run_id, kind, app_id, automation_id, trigger_kind, trigger_origin, parent_run_id,
  state, input, output, summary, error, queued_at, started_at, ended_at, ${USAGE_COLUMNS}, pinned, person)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING`;
/** A run ends once: what is recorded stays. */
const END_RUN = `UPDATE runs SET state = ?, output = ?, summary = ?, error = ?, started_at = ?, ended_at = ?,
  input_tokens = ?, output_tokens = ?, cache_read_tokens = ?, cache_write_tokens = ?, cost_usd = ?
  WHERE run_id = ? AND ended_at IS NULL`;
const INSERT_NODE = `INSERT INTO run_nodes (run_id, ordinal, batch_id, kind, name, args, output, ok, error, started_at, ended_at,
  ${USAGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, ordinal) DO NOTHING`;

const OPEN = ' AND ended_at IS NULL';
const NOT_OK = " AND state <> 'ok' AND ended_at IS NOT NULL";
const NOT_MENDED = `NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.app_id = runs.app_id
  AND later.automation_id = runs.automation_id AND later.run_id > runs.run_id AND later.state = 'ok')`;
/** A condition that makes the planner use the index of a state; `ok` runs are in the indexes of all runs. */
const INDEXED_TERMS: Record<RunState, string> = {
  queued: OPEN,
  running: OPEN,
  ok: '',
  error: NOT_OK,
  aborted: NOT_OK,
  interrupted: NOT_OK,
  skipped: NOT_OK,
};

export function insertRun(run: RunRecord): SqlStatement {
  return [
    INSERT_RUN,
    [
      run.runId,
      run.kind,
      run.app,
      run.automation,
      run.trigger.kind,
      originText(run.trigger.origin),
      run.parentRunId,
      run.state,
      storedText(run.input),
      storedText(run.output),
      summaryText(run.summary),
      errorText(run.error),
      run.queuedAt,
      run.startedAt,
      run.endedAt,
      ...usageValues(run.usage),
      run.pinned ? 1 : 0,
      run.by === undefined ? null : JSON.stringify(run.by),
    ],
  ];
}

export function endRun(run: RunRecord, endedAt: number): SqlStatement {
  return [
    END_RUN,
    [
      run.state,
      storedText(run.output),
      summaryText(run.summary),
      errorText(run.error),
      run.startedAt,
      endedAt,
      ...usageValues(run.usage),
      run.runId,
    ],
  ];
}

/** `limit` bounds the arguments and the output each. Also returns their size. */
export function insertNode(node: RunNode, limit: number): { statement: SqlStatement; bytes: number } {
  const args = storedText(node.args, limit);
  const output = storedText(node.output, limit);
  const error = errorText(node.error, limit);
  const statement: SqlStatement = [
    INSERT_NODE,
    [
      node.runId,
      node.ordinal,
      node.batchId,
      node.kind,
      node.name,
      args,
      output,
      node.ok ? 1 : 0,
      error,
      node.startedAt,
      node.endedAt,
      ...usageValues(node.usage),
    ],
  ];
  return { statement, bytes: (args?.length ?? 0) + (output?.length ?? 0) + (error?.length ?? 0) };
}

/** The newest runs first. Every combination of filters has an index. */
export function listRuns(
  { ref, app, state, before, from: oldest, failingFrom }: RunFilter,
  limit: number,
): SqlStatement {
  const terms: string[] = [];
  const params: SqlValue[] = [];
  const where = (term: string, ...values: SqlValue[]): void => {
    terms.push(term);
    params.push(...values);
  };
  if (ref) where('app_id = ? AND automation_id = ?', ref.app, ref.id);
  if (app !== undefined && app !== ref?.app) where('app_id = ?', app);
  if (state !== undefined) where(`state = ?${INDEXED_TERMS[state]}`, state);
  if (before !== undefined) where('run_id < ?', before);
  if (oldest !== undefined) where('run_id >= ?', oldest);
  if (failingFrom !== undefined) where(`state = 'error'${NOT_OK} AND run_id >= ? AND ${NOT_MENDED}`, failingFrom);
  const condition = terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`;
  // Otherwise the planner reads all runs of an app to find the few that have not ended.
  const from = state === 'queued' || state === 'running' ? 'runs INDEXED BY runs_open' : 'runs';
  return [`SELECT ${LISTED_COLUMNS} FROM ${from} ${condition} ORDER BY run_id DESC LIMIT ?`, [...params, limit]];
}

export function runOf(row: Row): RunRecord {
  const [app, automation] = [row.app_id, row.automation_id] as [string, string];
  const kind = row.trigger_kind as RunRecord['trigger']['kind'];
  const origin = row.trigger_origin as string | null;
  return {
    runId: row.run_id as string,
    kind: row.kind as RunRecord['kind'],
    ref: automationRef(app, automation),
    app,
    automation,
    trigger: { kind, origin: kind === 'cron' && origin !== null ? Date.parse(origin) : origin },
    parentRunId: row.parent_run_id as string | null,
    state: row.state as RunState,
    input: storedValue(row.input as string | null, row.input_bytes as number),
    output: storedValue(row.output as string | null, row.output_bytes as number),
    summary: row.summary as string | null,
    error: parsed(row.error) as ErrorBody | null,
    queuedAt: row.queued_at as number,
    startedAt: row.started_at as number | null,
    endedAt: row.ended_at as number | null,
    usage: usageOf(row),
    pinned: row.pinned === 1,
    ...(typeof row.person === 'string' && { by: JSON.parse(row.person) as NamedPerson }),
  };
}

export function nodeOf(row: Row): RunNode {
  return {
    runId: row.run_id as string,
    ordinal: row.ordinal as number,
    batchId: row.batch_id as number,
    kind: row.kind as RunNode['kind'],
    name: row.name as string,
    args: parsed(row.args),
    output: parsed(row.output),
    ok: row.ok === 1,
    error: parsed(row.error) as ErrorBody | null,
    startedAt: row.started_at as number,
    endedAt: row.ended_at as number,
    usage: usageOf(row),
  };
}

function parsed(text: SqlValue | undefined): unknown {
  return typeof text === 'string' ? JSON.parse(text) : null;
}

/** A time is stored as ISO 8601. */
function originText(origin: RunRecord['trigger']['origin']): string | null {
  return typeof origin === 'number' ? new Date(origin).toISOString() : origin;
}

export function errorText(error: ErrorBody | null, limit: number = LIMITS.runValueBytes): string | null {
  if (error === null) return null;
  const text = JSON.stringify(error);
  if (Buffer.byteLength(text) <= limit) return text;
  return JSON.stringify({ code: error.code, message: cutText(error.message, Math.floor(limit / 4)) });
}

/** As it is stored and shown. */
export function summaryText(summary: string | null): string | null {
  return summary === null ? null : cutText(summary, LIMITS.runSummaryChars);
}

/** The text without what is over `most` characters. */
function cutText(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

export function usageValues(usage: Usage): number[] {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, costUsd } = usage;
  return [inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, costUsd ?? 0];
}

function usageOf(row: Row): Usage {
  return {
    inputTokens: row.input_tokens as number,
    outputTokens: row.output_tokens as number,
    cacheReadTokens: row.cache_read_tokens as number,
    cacheWriteTokens: row.cache_write_tokens as number,
    // The column is older than null: 0 stands for no price.
    costUsd: (row.cost_usd as number) || null,
  };
}

function listed(column: string): string {
  const most = LIMITS.runListedBytes;
  return `CASE WHEN octet_length(${column}) <= ${most} THEN ${column} ELSE substr(${column}, 1, ${most / 2}) END AS ${column},
    octet_length(${column}) AS ${column}_bytes`;
}

const KEPT_MS = 2 * LIMITS.webhookToleranceMs;

/** Each message is taken once: for another run the column becomes null, which fails the batch. The same run may come again. */
const CLAIM = `INSERT INTO webhook_ids (slug, webhook_id, run_id, at) VALUES (?, ?, ?, ?)
  ON CONFLICT (slug, webhook_id) DO UPDATE SET run_id = CASE WHEN run_id = excluded.run_id THEN run_id END`;

/**
 * Takes a signed webhook message, as its sender names it, for a run, in the batch that stores the run. `now` in milliseconds
 * since the epoch; `keptMs` is how long it is remembered, at least `KEPT_MS`.
 */
export function claimMessage(
  slug: string,
  webhookId: string,
  runId: string,
  now: number,
  keptMs: number,
): SqlStatement[] {
  return [
    ['DELETE FROM webhook_ids WHERE at < ?', [now - KEPT_MS]],
    // Rows are deleted when their time is `KEPT_MS` ago; to be kept longer, they get a later time.
    [CLAIM, [slug, webhookId, runId, now + keptMs - KEPT_MS]],
  ];
}

/** The run failed: its sender may try again. */
export function releaseMessage(runId: string): SqlStatement {
  return ['DELETE FROM webhook_ids WHERE run_id = ?', [runId]];
}

/** Whether a batch failed because the message was taken before. */
export function isReplay(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return code === 'SQLITE_CONSTRAINT_NOTNULL' && String(message).includes('webhook_ids.run_id');
}

/** Stands where a value was too long: `head` is the beginning of its JSON text, `bytes` the length of all of it. */
type CutValue = { cut: true; bytes: number; head: string };

/** Size of the marker without the head, whose every character may need an escape. */
const MARKER_BYTES = 64;
const MARKER = /^\{"cut":true,"bytes":(\d+),"head":"/;

/** A value for followers and the ledger: `json` is JSON text, empty for none. Too long or deep text is not parsed. */
export function recordedValue(json: Uint8Array): unknown {
  if (json.length === 0) return null;
  const bytes = Buffer.from(json.buffer, json.byteOffset, json.byteLength);
  if (bytes.length > LIMITS.runValueBytes || isTooDeep(bytes)) return cut(bytes, LIMITS.runValueBytes);
  return JSON.parse(bytes.toString()) as unknown;
}

/** The value as JSON text of at most `limit` bytes; null for a value that is absent or null. */
function storedText(value: unknown, limit: number = LIMITS.runValueBytes): string | null {
  if (value === undefined || value === null) return null;
  const text = JSON.stringify(value);
  if (text.length * 3 <= limit) return text;
  return Buffer.byteLength(text) <= limit ? text : JSON.stringify(cut(Buffer.from(text), limit));
}

/** What `storedText` made; `bytes` is the length of it all, of which `text` may be the beginning only. */
function storedValue(text: string | null, bytes: number): unknown {
  if (text === null) return null;
  if (bytes <= LIMITS.runListedBytes || Buffer.byteLength(text) === bytes) return JSON.parse(text);
  const marker = MARKER.exec(text);
  if (!marker) return { cut: true, bytes, head: text } satisfies CutValue;
  // JSON text holds no control characters, so only these need an escape.
  const head = text.slice(marker[0].length).replace(/\\(["\\])|\\$/g, '$1');
  return { cut: true, bytes: Number(marker[1]), head } satisfies CutValue;
}

/** Its JSON text has at most `limit` bytes: that of the head grows to at most twice its size in a JSON string. */
function cut(json: Buffer, limit: number): CutValue {
  const head = json.toString('utf8', 0, Math.floor((limit - MARKER_BYTES) / 2));
  // The first half of a character.
  return { cut: true, bytes: json.length, head: head.replace(/\uFFFD+$/, '') };
}
