/**
 * How a command fails: the errors it may throw, their exit codes (specification, "Exit codes"), and messages for faults of
 * files.
 */
import { type ErrorBody, SvcError } from '../protocol/errors.ts';
import { GatewayError } from '../protocol/http/gateway-error.ts';

export const EXIT = { ok: 0, failed: 1, usage: 2, unreachable: 3, refused: 64 } as const;

/** What to do next: a line or several. */
type Hint = string | readonly string[];

/** A failure on this side that the user can fix; `hint` says how. */
export class CommandError extends Error {
  readonly code: string = 'FAILED';
  readonly exitCode: number = EXIT.failed;
  readonly hint: Hint | undefined;

  constructor(message: string, hint: Hint | undefined) {
    super(message);
    this.hint = hint;
  }
}

/** The command line is wrong. The printed error also names the command whose help to read. */
export class UsageError extends CommandError {
  override readonly code = 'USAGE';
  override readonly exitCode = EXIT.usage;

  constructor(message: string, hint?: Hint) {
    super(message, hint);
  }
}

/** No gateway answers at the address. `sent`: it had taken the whole request, and may have done what that asks. */
export class UnreachableError extends CommandError {
  override readonly code = 'UNREACHABLE';
  override readonly exitCode = EXIT.unreachable;
  readonly sent: boolean;

  constructor(message: string, hint: Hint | undefined, sent = false) {
    super(message, hint);
    this.sent = sent;
  }
}

/** SQL that writes, whose answer did not come. */
export function sqlOutcomeUnknown(): SvcError {
  const message =
    'The gateway ended before it had answered. The statement may be stored or not: look before you repeat it.';
  return new SvcError('OUTCOME_UNKNOWN', message);
}

/**
 * 2 for a wrong command line, 3 when no gateway answers, 64 when the gateway refuses the caller (401 or 403: the token is
 * missing or wrong), 1 for every other failure.
 */
export function exitCodeOf(error: unknown): number {
  if (error instanceof CommandError) return error.exitCode;
  if (error instanceof GatewayError && (error.status === 401 || error.status === 403)) return EXIT.refused;
  return EXIT.failed;
}

/** The error as programs see it with `--json`: the gateway's own, or one with a code of the command line. */
export function errorBodyOf(error: unknown): ErrorBody {
  if (error instanceof GatewayError || error instanceof SvcError) return error.toBody();
  return { code: error instanceof CommandError ? error.code : 'FAILED', message: messageOf(error) };
}

/** A file error becomes a sentence, because the system's text only names its calls. */
export function messageOf(error: unknown): string {
  return fileFault(error) ?? (error instanceof Error ? error.message : String(error));
}

const REASONS: Record<string, string> = {
  EACCES: 'permission is denied',
  EPERM: 'permission is denied',
  EROFS: 'the disk is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota is used up',
  EFBIG: 'it would be too large',
  EIO: 'the disk reports a fault',
  ENOENT: 'there is no such file or folder',
  EEXIST: 'something else has this name',
  ENOTDIR: 'a folder in its path is a file',
  EISDIR: 'it is a folder',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'its links form a loop',
};

const PERMISSIONS = 'Name another place, or run the command as the user who owns this one.';
const ANOTHER = 'Name another place, then run the command again.';
const SPACE = 'Free some space, then run the command again.';
const PLACE = 'Check the path, then run the command again.';
const STEPS: Record<string, string> = {
  EACCES: PERMISSIONS,
  EPERM: PERMISSIONS,
  EROFS: 'Name another place, or mount the disk for writing.',
  ENOSPC: SPACE,
  EDQUOT: SPACE,
  EFBIG: SPACE,
  DATA_LOCKED: 'See what runs there: svc status',
  EIO: "See the system's log, and copy the data that can still be read.",
};

const DONE: Record<string, string> = {
  mkdir: 'made',
  mkdtemp: 'made',
  open: 'opened',
  scandir: 'listed',
  opendir: 'listed',
  read: 'read',
  write: 'written',
  unlink: 'removed',
  rmdir: 'removed',
  rm: 'removed',
};

/** `<path> cannot be opened: permission is denied.` Null for an error of another kind, or one that names no path. */
export function fileFault(error: unknown): string | null {
  const { code = '', syscall = '', path, dest } = error as NodeJS.ErrnoException & { dest?: string };
  const reason = isRefusedFolder(error) ? 'the folder above it takes no new folders' : REASONS[code];
  if (!(error instanceof Error) || reason === undefined || typeof path !== 'string') return null;
  return `${dest ?? path} cannot be ${DONE[syscall] ?? 'used'}: ${reason}.`;
}

/** The folder above it is there, and none can be made in it, as in `/proc`: see `makeFolder`. */
function isRefusedFolder(error: unknown): boolean {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' && syscall === 'mkdir';
}

/** What to do about a system error, or an unexpected one. */
export function systemStep(error: unknown): string {
  const { code = '' } = error as NodeJS.ErrnoException;
  if (isRefusedFolder(error)) return ANOTHER;
  return STEPS[code] ?? (fileFault(error) === null ? 'See what is wrong here: svc doctor' : PLACE);
}

/** The reason alone, for errors that name no path, or one that the user does not know. */
export function reasonOf({ code = '', message }: NodeJS.ErrnoException): string {
  return REASONS[code] ?? message;
}
