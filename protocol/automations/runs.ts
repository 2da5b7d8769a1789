/** Types of runs of automations: the record of each, and the events that its followers get (specification, "Runs"). */
import type { ErrorBody } from '../errors.ts';

/**
 * `queued → running → ok | error | aborted`; `skipped` instead of `queued` when an earlier run was still going; `interrupted`
 * when the gateway stopped in the middle.
 */
export const RUN_STATES = ['queued', 'running', 'ok', 'error', 'aborted', 'interrupted', 'skipped'] as const;
export type RunState = (typeof RUN_STATES)[number];

/** What fired a run. `failure` is another automation's `onFailure`, `chat` a message to an agent. */
export type RunTriggerKind = 'cron' | 'webhook' | 'manual' | 'failure' | 'chat';

/**
 * `origin` says which fire it was: the scheduled time of a cron fire (milliseconds since the epoch), the slug of a webhook, the id of
 * the run that failed, of the window or conversation of a message; null for one by hand.
 */
export type RunTrigger = { kind: RunTriggerKind; origin: string | number | null };

/** Tokens and money that agents used in a run or node; `costUsd` is null where no agent reported a price. */
export type Usage = {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  costUsd: number | null;
};

/** The amounts of a `Usage`, which add up. */
export const USAGE_MEMBERS = [
  'inputTokens',
  'outputTokens',
  'cacheReadTokens',
  'cacheWriteTokens',
  'costUsd',
] as const satisfies (keyof Usage)[];

export function noUsage(): Usage {
  return { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd: null };
}

/** Adds what was used to `sum`. */
export function addUsage(sum: Usage, used: Partial<Usage>): void {
  for (const member of USAGE_MEMBERS) {
    const amount = used[member];
    if (typeof amount === 'number') sum[member] = (sum[member] ?? 0) + amount;
  }
}

/** The `automation` of runs of kind `chat`. No automation can have this id. */
export const CHAT_RUNS = '_chat';

/** A run as the API gives it. Times are milliseconds since the epoch; `output` and `input` are JSON values, cut at 64 KiB. */
export type RunRecord = {
  runId: string;
  kind: 'automation' | 'chat';
  ref: string;
  app: string;
  automation: string;
  trigger: RunTrigger;
  parentRunId: string | null;
  state: RunState;
  input: unknown;
  output: unknown;
  summary: string | null;
  error: ErrorBody | null;
  queuedAt: number;
  startedAt: number | null;
  endedAt: number | null;
  usage: Usage;
  pinned: boolean;
};

/** Sums over runs that ended; `failed` are those in `error` or `interrupted`, and `runs` also has those aborted and skipped. */
export type RunSums = {
  runs: number;
  ok: number;
  failed: number;
  inputTokens: number;
  outputTokens: number;
  /** Of those whose agent reported a price; null where none did. */
  costUsd: number | null;
};

/** What runs did in the last days. A day is one of UTC, `YYYY-MM-DD`; automations and models come with most runs first. */
export type Insights = {
  totals: RunSums;
  byDay: (RunSums & { day: string })[];
  byAutomation: (RunSums & { ref: string })[];
  byModel: (RunSums & { model: string })[];
  recent: RunRecord[];
};

/** The error of a node for a permission that an agent did not get. */
export const NOT_GRANTED: ErrorBody = { code: 'FORBIDDEN', message: 'It was not granted.' };

/**
 * A step of a run: a call of `ctx.tool` or `ctx.agent`, a request of `ctx.fetch`, or a permission that an agent asked for; in a chat,
 * a tool of the agent. `ordinal` counts from 1. `output` and `args` are cut at 64 KiB. The name of a request is its method and
 * address, without the query; its output is `{ status }`.
 */
export type RunNode = {
  runId: string;
  ordinal: number;
  /** Calls that ran at the same time share one. */
  batchId: number;
  kind: 'tool' | 'agent' | 'fetch' | 'permission';
  name: string;
  args: unknown;
  output: unknown;
  ok: boolean;
  error: ErrorBody | null;
  startedAt: number;
  endedAt: number;
  usage: Usage;
};

/** The events that followers of a run get, in this order; `run.end` is the last (SSE, `event:` is the type). */
export type RunEvent =
  | { type: 'run.start'; run: RunRecord }
  | ({ type: 'node.start' } & Pick<RunNode, 'runId' | 'ordinal' | 'batchId' | 'kind' | 'name' | 'args' | 'startedAt'>)
  | { type: 'node.delta'; runId: string; ordinal: number; delta: string }
  | { type: 'node.end'; node: RunNode }
  | { type: 'log'; runId: string; line: unknown }
  | { type: 'run.end'; run: RunRecord };
