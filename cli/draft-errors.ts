/** What an error means to a draft that follows a folder: whether it passes, ends it, or is about one file. */
import { CommandError, GatewayError, UnreachableError } from './failure.ts';

/** What keeps one file from being the same on both sides; the others are. */
export type FileFault = { path: string; error: unknown };

/** The gateway is stopping, starting, or elsewhere. */
export function isPassing(error: unknown): boolean {
  return error instanceof UnreachableError || (error instanceof GatewayError && error.body.code === 'OVERLOADED');
}

/** No file can be sent any more: the session was closed, or the token is refused. */
export function isFinal(error: unknown): boolean {
  if (!(error instanceof GatewayError)) return false;
  return error.status === 401 || error.status === 403 || error.body.code === 'UNKNOWN_SESSION';
}

/** The fault that an error at work on a file is; null when it is not about that file alone. */
export function faultOf(path: string, error: unknown): FileFault | null {
  if (error instanceof CommandError) return { path, error };
  if (!(error instanceof GatewayError) || isPassing(error) || isFinal(error)) return null;
  return { path, error: new GatewayError(error.status, { path, ...error.body }) };
}

/** What the system refused about a file of the folder, in words that name it as its author does. */
export function refusedBySystem(path: string, done: 'read' | 'written', error: unknown): CommandError {
  const { code = '', message } = error as NodeJS.ErrnoException;
  const reason = REASONS[code];
  return new CommandError(
    `${path} cannot be ${done}: ${reason === undefined ? code || message : `${reason} (${code})`}.`,
  );
}

const REASONS: Record<string, string> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EISDIR: 'it is a folder',
  EEXIST: 'a file is where its folder should be',
  ENOTDIR: 'a file is where its folder should be',
};
