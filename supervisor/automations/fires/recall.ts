/** `ctx.state` and `ctx.runs`: what an automation keeps between its fires, and what it may know of them (decisions, section 6). */
import { parseRef } from '../../../protocol/automation.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { AskVerb } from '../../../protocol/frames.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { RUN_STATES, type RunRecord, type RunState } from '../../../protocol/runs.ts';
import type { LiveAutomation } from '../catalog.ts';
import type { Ledger, RunFilter } from './fire-request.ts';

type Arguments = Record<string, unknown>;

/** Answers a `state.…` ask; undefined where there is nothing to answer. Rejects as the ledger does, which checks what was given. */
export async function askState(
  state: Ledger['state'],
  { app, id }: LiveAutomation,
  verb: Extract<AskVerb, `state.${string}`>,
  { key, value }: Arguments,
): Promise<unknown> {
  if (verb === 'state.get') return await state.get({ app, id }, key);
  if (verb === 'state.set') return await state.set({ app, id }, key, value);
  return await state.delete({ app, id }, key);
}

/**
 * Runs of the automation, newest first, without the one that asks. `filter.ref` may name another of its own app or of an
 * app in `apps`. Rejects with `BAD_REQUEST` or `TOOL_REFUSED`.
 */
export async function askRuns(
  list: Ledger['list'],
  automation: LiveAutomation,
  runId: string,
  args: Arguments,
  limit?: number,
): Promise<RunRecord[]> {
  const { filter, limit: asked } = wantedRuns(automation, args.filter ?? {});
  const wanted = limit ?? asked;
  const runs = await list(filter, wanted + 1);
  return runs.filter((run) => run.runId !== runId).slice(0, wanted);
}

function wantedRuns(automation: LiveAutomation, filter: unknown): { filter: RunFilter; limit: number } {
  if (typeof filter !== 'object' || filter === null || Array.isArray(filter)) {
    throw new SvcError('BAD_REQUEST', 'The filter of ctx.runs must be an object.', { path: 'filter' });
  }
  const { ref = automation.ref, state, limit = LIMITS.listRows } = filter as Record<string, unknown>;
  const named = typeof ref === 'string' ? parseRef(ref) : null;
  if (!named) throw new SvcError('BAD_REQUEST', '"ref" must be "<app>/<automation>".', { path: 'filter.ref' });
  if (named.app !== automation.app && !automation.manifest.apps?.includes(named.app)) {
    throw new SvcError('TOOL_REFUSED', `"${automation.ref}" may not see runs of "${named.app}".`, {
      path: 'filter.ref',
    });
  }
  if (state !== undefined && !RUN_STATES.includes(state as RunState)) {
    throw new SvcError('BAD_REQUEST', `"state" must be one of ${RUN_STATES.join(', ')}.`, { path: 'filter.state' });
  }
  if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > LIMITS.listRowsMax) {
    throw new SvcError('BAD_REQUEST', `"limit" must be a whole number from 1 to ${LIMITS.listRowsMax}.`, {
      path: 'filter.limit',
    });
  }
  return {
    filter: { ref: named, ...(state === undefined ? {} : { state: state as RunState }) },
    limit: limit as number,
  };
}
