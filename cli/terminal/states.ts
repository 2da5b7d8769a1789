/** Draws states: of processes, apps and servers, and of runs. */
import type { RunState } from '../../protocol/automations/runs.ts';
import type { Format } from './style.ts';

type DrawnState = { text: string; format: Format };

const GOOD = new Set(['active', 'running', 'ready', 'up', 'live', 'connected']);
const BAD = new Set([
  'quarantined',
  'damaged',
  'failed',
  'failed_to_start',
  'stopped',
  'dead',
  'crashed',
  'unresponsive',
]);

const OF_RUNS: Record<RunState, { sign: string; format: Format }> = {
  queued: { sign: '◌', format: 'dim' },
  running: { sign: '▶', format: 'blue' },
  ok: { sign: '✓', format: 'green' },
  error: { sign: '✗', format: 'red' },
  aborted: { sign: '■', format: 'yellow' },
  interrupted: { sign: '■', format: 'red' },
  skipped: { sign: '↷', format: 'yellow' },
};

/** `● running`, `● no active version`: green when it is good, red when it is bad, else yellow. */
export function drawState(state: string): DrawnState {
  const format = GOOD.has(state) ? 'green' : BAD.has(state) ? 'red' : 'yellow';
  return { text: `● ${state.replaceAll('_', ' ')}`, format };
}

/** `✓ ok`, `✗ error`, with `more` behind it. */
export function drawRunState(state: RunState, more = ''): DrawnState {
  const { sign, format } = OF_RUNS[state];
  return { text: `${sign} ${state} ${more}`.trimEnd(), format };
}
