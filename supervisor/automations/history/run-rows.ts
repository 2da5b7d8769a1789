/** Runs and their nodes as rows, and the statements that write and list them. Pure. */
import { automationRef } from '../../../protocol/automation.ts';
import type { ErrorBody } from '../../../protocol/errors.ts';
import type { Row, SqlStatement, SqlValue } from '../../../protocol/frames.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { RunNode, RunRecord, RunState, RunTrigger, Usage } from '../../../protocol/runs.ts';
import { cutText, storedText, storedValue } from './run-values.ts';

/** Which runs; all that are given must fit. `before` is a run id: only older ones. */
export type RunFilter = { ref?: { app: string; id: string }; app?: string; state?: RunState; before?: string };

const USAGE_COLUMNS = 'input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd';
const PLAIN_COLUMNS = `run_id, kind, app_id, automation_id, trigger_kind, trigger_origin, parent_run_id, state, summary, error,
  queued_at, started_at, ended_at, ${USAGE_COLUMNS}, pinned`;

/** A run with the whole of its input and output. */
export const RUN_COLUMNS = `${PLAIN_COLUMNS}, input, output, octet_length(input) AS input_bytes, octet_length(output) AS output_bytes`;
/** A run with the beginning of what is long. */
export const LISTED_COLUMNS = `${PLAIN_COLUMNS}, ${listed('input')}, ${listed('output')}`;

export const INSERT_RUN = `INSERT INTO runs (run_id, kind, app_id, automation_id, trigger_kind, trigger_origin, parent_run_id,
  state, input, output, summary, error, queued_at, started_at, ended_at, ${USAGE_COLUMNS}, pinned)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING`;
/** A run ends once: what is recorded stays. */
export const END_RUN = `UPDATE runs SET state = ?, output = ?, summary = ?, error = ?, started_at = ?, ended_at = ?,
  input_tokens = ?, output_tokens = ?, cache_read_tokens = ?, cache_write_tokens = ?, cost_usd = ?
  WHERE run_id = ? AND ended_at IS NULL`;
const INSERT_NODE = `INSERT INTO run_nodes (run_id, ordinal, batch_id, kind, name, args, output, ok, error, started_at, ended_at,
  ${USAGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, ordinal) DO NOTHING`;

const OPEN = ' AND ended_at IS NULL';
const NOT_OK = " AND state <> 'ok' AND ended_at IS NOT NULL";
/** What the planner must read to know which index holds the runs of a state; those that are `ok` are in those of all runs. */
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

/** `limit` is what the arguments and the output may take each. Also says what they take. */
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

/** The newest runs first. Every combination of filters has an index (`ledger-schema.ts`). */
export function listRuns({ ref, app, state, before }: RunFilter, limit: number): SqlStatement {
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
  const condition = terms.length === 0 ? '' : `WHERE ${terms.join(' AND ')}`;
  // Left to itself the planner goes through all runs of an app to find the few that have not ended.
  const from = state === 'queued' || state === 'running' ? 'runs INDEXED BY runs_open' : 'runs';
  return [`SELECT ${LISTED_COLUMNS} FROM ${from} ${condition} ORDER BY run_id DESC LIMIT ?`, [...params, limit]];
}

export function runOf(row: Row): RunRecord {
  const app = String(row.app_id);
  const automation = String(row.automation_id);
  return {
    runId: String(row.run_id),
    kind: 'automation',
    ref: automationRef(app, automation),
    app,
    automation,
    trigger: triggerOf(row),
    parentRunId: textOf(row.parent_run_id),
    state: String(row.state) as RunState,
    input: storedValue(textOf(row.input), Number(row.input_bytes)),
    output: storedValue(textOf(row.output), Number(row.output_bytes)),
    summary: textOf(row.summary),
    error: errorOf(row),
    queuedAt: Number(row.queued_at),
    startedAt: numberOf(row.started_at),
    endedAt: numberOf(row.ended_at),
    usage: usageOf(row),
    pinned: row.pinned === 1,
  };
}

/** A time is stored as ISO 8601. */
function originText(origin: RunTrigger['origin']): string | null {
  return typeof origin === 'number' ? new Date(origin).toISOString() : origin;
}

function triggerOf(row: Row): RunTrigger {
  const kind = String(row.trigger_kind) as RunTrigger['kind'];
  const origin = textOf(row.trigger_origin);
  return { kind, origin: kind === 'cron' && origin !== null ? Date.parse(origin) : origin };
}

export function nodeOf(row: Row): RunNode {
  return {
    runId: String(row.run_id),
    ordinal: Number(row.ordinal),
    batchId: Number(row.batch_id),
    kind: String(row.kind) as RunNode['kind'],
    name: String(row.name),
    args: row.args === null ? null : JSON.parse(String(row.args)),
    output: row.output === null ? null : JSON.parse(String(row.output)),
    ok: row.ok === 1,
    error: errorOf(row),
    startedAt: Number(row.started_at),
    endedAt: Number(row.ended_at),
    usage: usageOf(row),
  };
}

export function errorText(error: ErrorBody | null, limit: number = LIMITS.runValueBytes): string | null {
  if (error === null) return null;
  const text = JSON.stringify(error);
  if (Buffer.byteLength(text) <= limit) return text;
  return JSON.stringify({ code: error.code, message: cutText(error.message, Math.floor(limit / 4)) });
}

function summaryText(summary: string | null): string | null {
  return summary === null ? null : cutText(summary, LIMITS.runSummaryChars);
}

export function usageValues(usage: Usage): number[] {
  return [usage.inputTokens, usage.outputTokens, usage.cacheReadTokens, usage.cacheWriteTokens, usage.costUsd];
}

export function usageOf(row: Row): Usage {
  return {
    inputTokens: Number(row.input_tokens),
    outputTokens: Number(row.output_tokens),
    cacheReadTokens: Number(row.cache_read_tokens),
    cacheWriteTokens: Number(row.cache_write_tokens),
    costUsd: Number(row.cost_usd),
  };
}

function errorOf(row: Row): ErrorBody | null {
  return row.error === null ? null : (JSON.parse(String(row.error)) as ErrorBody);
}

function textOf(value: SqlValue | undefined): string | null {
  return value === null || value === undefined ? null : String(value);
}

function numberOf(value: SqlValue | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}

function listed(column: string): string {
  const most = LIMITS.runListedBytes;
  return `CASE WHEN octet_length(${column}) <= ${most} THEN ${column} ELSE substr(${column}, 1, ${most / 2}) END AS ${column},
    octet_length(${column}) AS ${column}_bytes`;
}
