/** Checks the folder for backups on schedule, moves a finished backup into it, removes the oldest ones. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { access, constants, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { SvcError } from '../../protocol/errors.ts';
import { inParallel, isMissing, isThere, mkdirDurable, syncDir, syncFile } from '../files/atomic-file.ts';
import { BACKUP_EXTENSION, invalidBackup } from './format.ts';

const CHUNK_BYTES = 256 * 1024;

const STATS_AT_ONCE = 16;

/** A backup in a folder. `file` is its path; a `damaged` one has a database that was damaged when it was made. */
export type BackupFile = { name: string; file: string; bytes: number; madeAt: number; damaged: boolean };

/** On another file system than the archive, which must then be copied. */
const ELSEWHERE = new Set(['EXDEV', 'EPERM', 'ENOTSUP']);

/** Makes the folder if `mayMake`, and a file in it for a moment. Throws `BACKUP_FOLDER` or `STORAGE_FULL` with what to do. */
export async function checkFolder(folder: string, mayMake: boolean): Promise<void> {
  // A fixed name: the next backup replaces what a crash left.
  const trial = join(folder, '.svc-backup.tmp');
  try {
    if (mayMake) await mkdirDurable(folder);
    if (!(await stat(folder)).isDirectory()) throw Object.assign(new Error('no folder'), { code: 'ENOTDIR' });
    await access(folder, constants.W_OK | constants.X_OK);
    const file = await open(trial, 'w', 0o600);
    await file.close();
    await rm(trial, { force: true });
  } catch (error) {
    throw folderFault(error, folder);
  }
}

/** A name that no file in the folder has, from the time in milliseconds: `svc-20260131T030000Z.svc-backup.tar.gz`. */
export async function freeName(folder: string, takenAt: number, isDamaged: boolean): Promise<string> {
  const stamp = new Date(takenAt).toISOString().replace(/[-:]|\.\d+/g, '');
  for (let n = 1; ; n++) {
    const name = `svc-${stamp}${n === 1 ? '' : `-${n}`}${isDamaged ? '.damaged' : ''}${BACKUP_EXTENSION}`;
    if (!(await isThere(join(folder, name)))) return join(folder, name);
  }
}

/**
 * Moves a verified archive to `file`, durably and atomically. A copy on another disk is verified again. Throws `BACKUP_FOLDER`,
 * `STORAGE_FULL`, `INVALID_BACKUP`, or the signal's reason, and then leaves no file.
 */
export async function placeBackup(archive: string, file: string, signal: AbortSignal): Promise<void> {
  const folder = dirname(file);
  try {
    await syncFile(archive, 'r+');
    await rename(archive, file);
  } catch (error) {
    if (!ELSEWHERE.has((error as NodeJS.ErrnoException).code ?? '')) throw folderFault(error, folder);
    await copyBackup(archive, file, signal);
  }
  await syncDir(folder).catch((error: unknown) => {
    throw folderFault(error, folder);
  });
}

async function copyBackup(archive: string, file: string, signal: AbortSignal): Promise<void> {
  const arriving = arrivingName(file);
  try {
    const wanted = await copyWithSum(archive, arriving, signal);
    await syncFile(arriving, 'r+');
    if ((await sumOf(arriving, signal)) !== wanted)
      throw invalidBackup(`what was written to ${dirname(file)} reads differently; check that disk`);
    await rename(arriving, file);
  } catch (error) {
    await rm(arriving, { force: true }).catch(() => {});
    if (signal.aborted) throw signal.reason;
    throw error instanceof SvcError ? error : folderFault(error, dirname(file));
  }
}

function arrivingName(file: string): string {
  return join(dirname(file), `.${basename(file)}.tmp`);
}

async function copyWithSum(from: string, to: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  const summed = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      hash.update(chunk);
      yield chunk;
    }
  };
  await pipeline(chunksOf(from), summed, createWriteStream(to, { flags: 'w', mode: 0o600 }), { signal });
  return hash.digest('hex');
}

async function sumOf(file: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of chunksOf(file)) {
    signal.throwIfAborted();
    hash.update(chunk as Buffer);
  }
  return hash.digest('hex');
}

function chunksOf(file: string) {
  return createReadStream(file, { highWaterMark: CHUNK_BYTES });
}

/** Removes the oldest of these until `keep` are left; returns those. Files that are gone already do not count. */
export async function pruneBackups(files: string[], keep: number): Promise<string[]> {
  const there = await present(files);
  const old = there.slice(0, Math.max(0, there.length - keep));
  for (const file of old) await rm(file, { force: true });
  return there.slice(old.length);
}

/** The existing ones, newest first. */
export async function listBackups(files: string[]): Promise<BackupFile[]> {
  const rows: BackupFile[] = [];
  await inParallel(files, STATS_AT_ONCE, async (file) => {
    const stats = await stat(file).catch(() => null);
    if (stats === null) return;
    const name = basename(file);
    const isDamaged = name.endsWith(`.damaged${BACKUP_EXTENSION}`);
    rows.push({ name, file, bytes: stats.size, madeAt: Math.floor(stats.mtimeMs), damaged: isDamaged });
  });
  return rows.sort((a, b) => b.madeAt - a.madeAt || (a.name < b.name ? 1 : -1));
}

/** Files with their final names. A crash may have left an unfinished copy under another. */
async function present(files: string[]): Promise<string[]> {
  const found: string[] = [];
  for (const file of files) {
    const isPresent = await stat(file).then(
      () => true,
      (error: unknown) => !isMissing(error),
    );
    if (isPresent) found.push(file);
    else await rm(arrivingName(file), { force: true }).catch(() => {});
  }
  return found;
}

/** What to do, by the system's error code. */
function folderFault(error: unknown, folder: string): SvcError {
  const { code = '', message } = error as NodeJS.ErrnoException;
  const fault = (text: string) => new SvcError('BACKUP_FOLDER', text, { cause: error });
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new SvcError(
      'STORAGE_FULL',
      `There is no room for the backup in ${folder}. Free some space there, keep fewer, or name a folder on another disk.`,
      { cause: error },
    );
  if (code === 'EROFS') return fault(`${folder} is on a disk that is mounted read-only. Mount it for writing.`);
  if (code === 'EACCES' || code === 'EPERM')
    return fault(
      `The gateway may not write to ${folder}. Give that folder to its user (chown), let its service write there, or name another.`,
    );
  if (code === 'ENOENT')
    return fault(`The folder ${folder} is gone. Is its disk mounted? If it was removed, make it again.`);
  if (code === 'ENOTDIR' || code === 'EEXIST') return fault(`${folder} is not a folder. Name another.`);
  return fault(`The folder ${folder} cannot be used: ${message}.`);
}
