/** What an error means to a draft that follows a folder: whether it passes, ends it, or is about one file. */
import { CommandError, GatewayError, UnreachableError } from '../failure.ts';
import { reasonOf } from './file-fault.ts';

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

/** What the system refused about a file of the folder, which is named as its author does. */
export function refusedBySystem(path: string, done: 'read' | 'written', error: unknown): CommandError {
  const cause = error as NodeJS.ErrnoException;
  // The file itself is replaced: what is there already is in the place of a folder above it.
  const reason = cause.code === 'EEXIST' ? 'a file is where its folder should be' : reasonOf(cause);
  return new CommandError(`${path} cannot be ${done}: ${reason}.`);
}
