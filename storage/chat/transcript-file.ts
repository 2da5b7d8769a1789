/** Opens the transcripts of chat windows, and reports what is damaged. */
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { isMissing, syncDir } from '../files/atomic-file.ts';

/** A link is not followed, and a pipe not waited for. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const APPEND = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;

/** What stands in the place of a transcript, by the error code of opening it. */
const DAMAGES: Record<string, string> = {
  EISDIR: 'a folder is in its place',
  ELOOP: 'a link is in its place',
  ENXIO: 'it is no file',
  EACCES: 'the gateway may not use it',
  EPERM: 'the gateway may not use it',
  EIO: 'the disk failed on it',
};

/** `WINDOW_DAMAGED` when the transcript itself cannot be used; else the same error. */
export function ofDamage(error: unknown): unknown {
  const why = DAMAGES[(error as NodeJS.ErrnoException | null)?.code ?? ''];
  return why === undefined ? error : damaged(why, error);
}

function damaged(why: string, cause?: unknown): SvcError {
  const message = `The transcript of the window cannot be read: ${why}. Delete the window, or use another one.`;
  return new SvcError('WINDOW_DAMAGED', message, { cause });
}

/** Follows no link, and waits for no pipe. Null when there is none. Rejects with `WINDOW_DAMAGED`. */
export async function openTranscript(path: string): Promise<FileHandle | null> {
  let file: FileHandle;
  try {
    file = await open(path, READ);
  } catch (error) {
    if (isMissing(error)) return null;
    throw ofDamage(error);
  }
  const found = await file.stat();
  if (found.isFile()) return file;
  await file.close();
  throw damaged(found.isDirectory() ? 'a folder is in its place' : 'it is no file');
}

/** For more lines at its end; with `isNew` its folder is made. Rejects with `WINDOW_DAMAGED`, `UNKNOWN_APP`. */
export async function appendTranscript(path: string, isNew: boolean): Promise<FileHandle> {
  try {
    if (isNew) await makeFolder(dirname(path));
    return await open(path, APPEND, 0o600);
  } catch (error) {
    throw ofDamage(ofRemoved(error));
  }
}

/** Why it cannot be read; null when it can, or when there is none. */
export async function damageOf(path: string): Promise<SvcError | null> {
  try {
    await (await openTranscript(path))?.close();
    return null;
  } catch (error) {
    return damageIn(error);
  }
}

/** Throws errors that are not damage. */
export function damageIn(error: unknown): SvcError {
  if (error instanceof SvcError && error.code === 'WINDOW_DAMAGED') return error;
  throw error;
}

/** The size of a file; null for anything else. */
export async function sizeOf(path: string): Promise<number | null> {
  const found = await lstat(path);
  return found.isFile() ? found.size : null;
}

export function ofRemoved(error: unknown): unknown {
  return isMissing(error) ? new SvcError('UNKNOWN_APP', 'The app was removed.') : error;
}

/** Does not make the folders above it: if they are missing, the app was removed. */
async function makeFolder(dir: string): Promise<void> {
  try {
    await mkdir(dir, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw error;
  }
  await syncDir(dirname(dir));
}
