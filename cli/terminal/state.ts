/** The colour of a state: what is well, what is on its way, what is wrong. */
import type { Format } from './style.ts';

const WELL = new Set(['active', 'running', 'ready', 'up', 'live', 'connected']);
const WRONG = new Set(['quarantined', 'failed', 'failed_to_start', 'stopped', 'dead', 'crashed', 'unresponsive']);

export function stateFormat(state: string): Format {
  if (WELL.has(state)) return 'green';
  return WRONG.has(state) ? 'red' : 'yellow';
}

/** `● running`, `● no active version`. */
export function drawState(state: string): { text: string; format: Format } {
  return { text: `● ${state.replaceAll('_', ' ')}`, format: stateFormat(state) };
}
