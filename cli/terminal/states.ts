/** Draws states: of processes, apps and servers, and of runs. */
import type { RunState } from '../../protocol/automations/runs.ts';
import { type Tone, toneOf } from '../../protocol/text/states.ts';
import type { Format } from './style.ts';

type DrawnState = { text: string; format: Format };

const FORMATS: Record<Tone, Format> = { good: 'green', bad: 'red', passing: 'yellow', other: 'yellow' };

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
  return { text: `● ${state.replaceAll('_', ' ')}`, format: FORMATS[toneOf(state)] };
}

/** `✓ ok`, `✗ error`, with `more` behind it. */
export function drawRunState(state: RunState, more = ''): DrawnState {
  const { sign, format } = OF_RUNS[state];
  return { text: `${sign} ${state} ${more}`.trimEnd(), format };
}
