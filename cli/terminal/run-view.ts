/** Runs of automations as people read them: a state with its colour, and one line for each thing that happens. */
import type { RunEvent, RunNode, RunRecord, RunState } from '../../protocol/runs.ts';
import type { Format, Style } from './style.ts';
import { formatClock, formatDuration } from './units.ts';

const STATES: Record<RunState, { sign: string; format: Format }> = {
  queued: { sign: '◌', format: 'dim' },
  running: { sign: '▶', format: 'blue' },
  ok: { sign: '✓', format: 'green' },
  error: { sign: '✗', format: 'red' },
  aborted: { sign: '■', format: 'yellow' },
  interrupted: { sign: '■', format: 'red' },
  skipped: { sign: '↷', format: 'yellow' },
};

/** `✓ ok`, `✗ error`. */
export function drawRunState(state: RunState): { text: string; format: Format } {
  const { sign, format } = STATES[state];
  return { text: `${sign} ${state}`, format };
}

/** How long it ran, or has been running. */
export function runTime({ startedAt, endedAt }: RunRecord, now: number): string {
  return startedAt === null ? '' : formatDuration((endedAt ?? now) - startedAt);
}

/** What came of it: its summary, or why it failed. */
export function outcome({ summary, error }: RunRecord): string {
  if (error) return `${error.code}: ${error.message}`;
  return summary ?? '';
}

/** `✓ svc_read {"app":"todos",…}  3 ms`. */
export function drawNode({ name, args, ok, error, startedAt, endedAt }: RunNode, style: Style): string {
  const sign = ok ? style('green', '✓') : style('red', '✗');
  const why = error ? `  ${style('red', `${error.code}: ${error.message}`)}` : '';
  const given = args === null || args === undefined ? '' : ` ${style('dim', shorten(JSON.stringify(args)))}`;
  return `${sign} ${style('cyan', name)}${given}  ${style('dim', formatDuration(endedAt - startedAt))}${why}`;
}

/** What fired a run: `cron 2026-01-31T08:00:00.000Z`, `webhook <slug>`, `manual`. */
export function drawTrigger({ trigger: { kind, origin } }: RunRecord): string {
  if (origin === null) return kind;
  return `${kind} ${typeof origin === 'number' ? new Date(origin).toISOString() : origin}`;
}

/** One line for what followers see of runs; null for what is not worth one. `refs` knows which run is whose. */
export function drawRunEvent(event: RunEvent, refs: Map<string, string>, style: Style): string | null {
  switch (event.type) {
    case 'run.start': {
      const { run } = event;
      refs.set(run.runId, run.ref);
      return line(run.startedAt ?? run.queuedAt, run.ref, `▶ ${drawTrigger(run)}  ${style('dim', run.runId)}`);
    }
    case 'node.end':
      return line(event.node.endedAt, refs.get(event.node.runId), `  ${drawNode(event.node, style)}`);
    case 'log':
      return line(logTime(event.line), refs.get(event.runId), `  ${style('dim', logText(event.line))}`);
    case 'run.end': {
      const { run } = event;
      refs.delete(run.runId);
      const { text, format } = drawRunState(run.state);
      const took = run.startedAt === null ? '' : `  ${style('dim', runTime(run, run.startedAt))}`;
      return line(run.endedAt ?? run.queuedAt, run.ref, `${style(format, text)}${took}  ${outcome(run)}`);
    }
    default:
      return null;
  }

  function line(at: number, ref: string | undefined, text: string): string {
    return `${style('dim', formatClock(at))}  ${style('bold', ref ?? '…')}  ${text}`.trimEnd();
  }
}

function logTime(line: unknown): number {
  const ts = (line as { ts?: unknown } | null)?.ts;
  const at = typeof ts === 'number' ? ts : Date.parse(String(ts));
  return Number.isNaN(at) ? Date.now() : at;
}

function logText(line: unknown): string {
  const { level = 'info', msg = '' } = (line ?? {}) as { level?: unknown; msg?: unknown };
  return `${level}  ${msg}`;
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}
