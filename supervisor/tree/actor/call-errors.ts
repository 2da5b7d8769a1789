/** Makes the errors for callers when an app cannot take their call, or ended while it ran. */
import { SvcError } from '../../../protocol/errors.ts';
import { appOfKey, isDraftKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { RetireReason } from '../../../protocol/wire/frames.ts';

export function stoppingError(): SvcError {
  return new SvcError('OVERLOADED', 'The gateway is stopping; try again in a moment.', {
    headers: { 'retry-after': '2' },
  });
}

export function removedError(): SvcError {
  return new SvcError('UNKNOWN_APP', 'The app was removed.');
}

export function mailboxFull(name: string, waiting: number): SvcError {
  return new SvcError('OVERLOADED', `${waiting} calls are already waiting for "${name}"; try again in a second.`, {
    headers: { 'retry-after': '1' },
  });
}

export function crashingCall(name: string): SvcError {
  return new SvcError(
    'HANDLER_ERROR',
    `This call crashed "${name}" twice, so it is refused until the app gets a new version or is restarted.`,
  );
}

/** `key` is the actor's; `why` it is out of service; `lastExit` is why its last thread ended. */
export function quarantinedError(key: string, app: string, why: string, lastExit: string | null): SvcError {
  const advice = isDraftKey(key)
    ? 'Change a file of the draft: it then starts again.'
    : `Upload or activate another version, or restart it with POST /svc/_apps/${app}/restart.`;
  return new SvcError(
    'QUARANTINED',
    `"${appOfKey(key)}" is out of service: ${why} (${lastExit ?? 'unknown reason'}). ${advice}`,
  );
}

/** `lastExit` is why the thread that ran it ended, if one did; `hostTrouble` why its host process does not run, if that is so. */
export function timedOutWaiting(
  tool: string,
  allowedMs: number,
  lastExit: string | null,
  hostTrouble: string | null,
): SvcError {
  const state = lastExit === null ? 'it had not started' : `the thread that ran it had ended (${lastExit})`;
  const why = hostTrouble === null ? '' : ` The app's handler host does not run: ${hostTrouble}.`;
  return new SvcError('HANDLER_ERROR', `${timedOut(tool, allowedMs)}; ${state}.${why}`);
}

/** The call waited for the result of another one. */
export function timedOutShared(tool: string, allowedMs: number): SvcError {
  return new SvcError('HANDLER_ERROR', `${timedOut(tool, allowedMs)}; it waited for the run of an equal call.`);
}

export function timedOut(tool: string, allowedMs: number): string {
  return `"${tool}" timed out after ${Math.round(allowedMs / 100) / 10} s`;
}

export function cancelled(tool: string): string {
  return `"${tool}" was cancelled.`;
}

export function threadEnded(tool: string, reason: RetireReason): string {
  return `The app's thread ended while "${tool}" ran (${WHY[reason]}).`;
}

export const CRASH_LOOP = `it crashed too often, more than ${LIMITS.restartIntensity} restarts in ${LIMITS.restartWindowMs / 1000} s`;

export const DID_HARM = `it held up other apps more than ${LIMITS.harmTimes} times in ${LIMITS.harmWindowMs / 60_000} min`;

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
  moved: 'another node has its data now',
  replaced: 'its data was fetched anew',
};
