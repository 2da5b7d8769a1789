/** Names the states of a run (specification, "Runs"). */

/**
 * `queued → running → ok | error | aborted`; `skipped` instead of `queued` when an earlier run was still going; `interrupted`
 * when the gateway stopped in the middle.
 */
export const RUN_STATES = ['queued', 'running', 'ok', 'error', 'aborted', 'interrupted', 'skipped'] as const;
