/** What callers are told when an app cannot take their call, or ended while it ran. */
import { SvcError } from '../../protocol/errors.ts';
import type { RetireReason } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';

export function stoppingError(): SvcError {
  return new SvcError('OVERLOADED', 'The gateway is stopping; try again in a moment.', {
    headers: { 'retry-after': '2' },
  });
}

export function removedError(): SvcError {
  return new SvcError('UNKNOWN_APP', 'The app was removed.');
}

export function mailboxFull(app: string, waiting: number): SvcError {
  return new SvcError('OVERLOADED', `${waiting} calls wait for "${app}" already; try again in a second.`, {
    headers: { 'retry-after': '1' },
  });
}

export function poisonousCall(app: string): SvcError {
  return new SvcError(
    'HANDLER_ERROR',
    `The same call took "${app}" down twice, so it is refused until the app's version changes or it is restarted.`,
  );
}

/** `lastExit` is why its last thread ended. */
export function quarantinedError(app: string, started: boolean, lastExit: string | null): SvcError {
  const what = started ? 'crashed too often' : 'does not start';
  return new SvcError(
    'QUARANTINED',
    `"${app}" ${what} (${lastExit ?? 'unknown reason'}). Upload or activate another version, or restart it with POST /svc/_apps/${app}/restart.`,
  );
}

export function timedOutWaiting(tool: string, allowedMs: number): SvcError {
  return new SvcError('HANDLER_ERROR', `${timedOut(tool, allowedMs)}; it had not started.`);
}

export function timedOut(tool: string, allowedMs: number): string {
  return `"${tool}" timed out after ${Math.round(allowedMs / 100) / 10} s`;
}

export function threadEnded(tool: string, reason: RetireReason): string {
  return `The app's thread ended while "${tool}" ran (${WHY[reason]}).`;
}

export const CRASH_LOOP = `more than ${LIMITS.restartIntensity} restarts in ${LIMITS.restartWindowMs / 1000} s`;

const WHY: Record<RetireReason, string> = {
  idle: 'it was idle',
  evicted: 'it made room for another app',
  superseded: 'another version took over',
  deadline: 'it did not react after a call had timed out',
  memory: 'it ran out of memory',
  crash: 'it crashed',
  unresponsive: 'it did not answer',
  shutdown: 'the gateway was stopping',
  removed: 'the app was removed',
};
