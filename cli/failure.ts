/** How a command fails: the errors it may throw, and the exit code of each (decisions, section 9). */
import { type ErrorBody, SvcError } from '../protocol/errors.ts';
import { fileFault } from './dev/file-fault.ts';

export const EXIT = { ok: 0, failed: 1, usage: 2, unreachable: 3, refused: 64 } as const;

/** What to do next, a line or several. */
export type Hint = string | readonly string[] | undefined;

/** The command line itself is wrong. `command` names whose help would tell. */
export class UsageError extends Error {
  readonly command: string | undefined;
  readonly hint: Hint;

  constructor(message: string, extra: { command?: string; hint?: Hint } = {}) {
    super(message);
    this.name = 'UsageError';
    this.command = extra.command;
    this.hint = extra.hint;
  }
}

/** No gateway answers at the address. */
export class UnreachableError extends Error {
  readonly hint: Hint;

  constructor(message: string, hint?: Hint) {
    super(message);
    this.name = 'UnreachableError';
    this.hint = hint;
  }
}

/** The session that a command worked on, and its app, whether they were named or found. */
export type SessionSubject = { session: string; app: string | undefined };

/** The gateway answered with an error. */
export class GatewayError extends Error {
  readonly status: number;
  readonly body: ErrorBody;
  readonly about: SessionSubject | undefined;

  constructor(status: number, body: ErrorBody, about?: SessionSubject) {
    super(body.message);
    this.name = 'GatewayError';
    this.status = status;
    this.body = body;
    this.about = about;
  }
}

/** Something on this side failed, in a way that the user can do something about. */
export class CommandError extends Error {
  readonly hint: Hint;

  constructor(message: string, hint?: Hint) {
    super(message);
    this.name = 'CommandError';
    this.hint = hint;
  }
}

/**
 * 2 for a wrong command line, 3 when no gateway answers, 64 when the gateway refuses the caller (401 or 403: the token is
 * missing or wrong), 1 for every other failure.
 */
export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return EXIT.usage;
  if (error instanceof UnreachableError) return EXIT.unreachable;
  if (error instanceof GatewayError && (error.status === 401 || error.status === 403)) return EXIT.refused;
  return EXIT.failed;
}

/** The error as programs see it with `--json`: the gateway's own envelope member, or one with a code of the command line. */
export function errorBodyOf(error: unknown): ErrorBody {
  if (error instanceof GatewayError) return error.body;
  if (error instanceof SvcError) return error.toBody();
  const message = messageOf(error);
  if (error instanceof UsageError) return { code: 'USAGE', message };
  if (error instanceof UnreachableError) return { code: 'UNREACHABLE', message };
  return { code: 'FAILED', message };
}

/** What is said of an error: faults of files in a sentence, for the system names only its own calls. */
export function messageOf(error: unknown): string {
  return fileFault(error) ?? (error instanceof Error ? error.message : String(error));
}
