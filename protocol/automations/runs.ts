/** Types of runs of automations: the record of each, and the events that its followers get (specification, "Runs"). */
import type { ErrorBody } from '../errors.ts';
import type { INSIGHTS, NODE, RUN, RUN_EVENTS, RUN_SUMS, USAGE } from '../routes/automations/runs-rows.ts';
import type { Of } from '../shapes/schema.ts';

/** A run as the API gives it. Times are milliseconds since the epoch; `output` and `input` are JSON values, cut at 64 KiB. */
export type RunRecord = Of<typeof RUN>;
export type RunState = RunRecord['state'];
export type RunTrigger = RunRecord['trigger'];

/** Tokens and money that agents used in a run or node; `costUsd` is null where no agent reported a price. */
export type Usage = Of<typeof USAGE>;

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

/** Sums over runs that ended; `failed` are those in `error` or `interrupted`, and `runs` also has those aborted and skipped. */
export type RunSums = Of<typeof RUN_SUMS>;

/** What runs did in the last days. A day is one of UTC, `YYYY-MM-DD`; automations and models come with most runs first. */
export type Insights = Of<typeof INSIGHTS>;

/** The error of a node for a permission that an agent did not get. */
export const NOT_GRANTED: ErrorBody = { code: 'FORBIDDEN', message: 'It was not granted.' };

/** A step of a run. `output` and `args` are cut at 64 KiB. */
export type RunNode = Of<typeof NODE>;

/** An event of a run (SSE, `event:` is the type). */
export type RunEvent = Exclude<Of<(typeof RUN_EVENTS)[keyof typeof RUN_EVENTS]>, { type: 'missed' }>;

/** How a run ended, in a line: its summary, or why it failed. */
export function outcomeOf({ summary, error }: Pick<RunRecord, 'summary' | 'error'>): string {
  return error ? `${error.code}: ${error.message}` : (summary ?? '');
}
