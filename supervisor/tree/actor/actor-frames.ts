/** What an actor sends is not believed, for app code runs in its thread: the checks of its frames, and its errors. Pure. */
import { type ErrorBody, errorFromBody, type InputIssue, type SvcError } from '../../../protocol/errors.ts';
import type { ErrorFrame, LogFrame, ResultFrame } from '../../../protocol/frames.ts';
import { LIMITS } from '../../../protocol/limits.ts';

export function isResult([, , status, body, handlerMs]: ResultFrame): boolean {
  const valid = Number.isInteger(status) && status >= 200 && status <= 599;
  return valid && body instanceof Uint8Array && typeof handlerMs === 'number';
}

export function isFailure([, , error, handlerMs, wrote = false]: ErrorFrame): boolean {
  if (typeof error?.code !== 'string' || typeof error.message !== 'string') return false;
  if (typeof handlerMs !== 'number' || typeof wrote !== 'boolean') return false;
  const { path, issues } = error;
  return (path === undefined || typeof path === 'string') && (issues === undefined || isIssueList(issues));
}

export function isLogLine([, line, callId]: LogFrame): boolean {
  return typeof line === 'string' && (callId === undefined || Number.isSafeInteger(callId));
}

function isIssueList(issues: unknown): boolean {
  if (!Array.isArray(issues) || issues.length > LIMITS.inputIssues) return false;
  return issues.every((issue: Partial<InputIssue> | null) => {
    const { path, message, keyword } = issue ?? {};
    return typeof path === 'string' && typeof message === 'string' && typeof keyword === 'string';
  });
}

/** Codes that an actor may answer with; anything else it says is a fault of its handler. */
const ACTOR_CODES = new Set([
  'INVALID_INPUT',
  'HANDLER_ERROR',
  'UNKNOWN_QUERY',
  'UNKNOWN_ACTION',
  'BAD_REQUEST',
  'STORAGE_FULL',
  'INTERNAL',
]);

/** The error of a failed call, as its caller gets it. */
export function hostError(body: ErrorBody): SvcError {
  return errorFromBody(ACTOR_CODES.has(body.code) ? body : { ...body, code: 'HANDLER_ERROR' });
}
