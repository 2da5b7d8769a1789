/** Keeps backups on schedule: checks their folder, brings a finished one into it, removes the oldest, and records what was made. */
import { createReadStream, createWriteStream } from 'node:fs';
import { access, constants, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { SvcError } from '../../protocol/errors.ts';
import type { BackupFailure, BackupFile, BackupSuccess } from '../../protocol/routes/operations/backups-rows.ts';
import { listOf, object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import {
  exists,
  inParallel,
  isThere,
  mkdirDurable,
  readShaped,
  syncDir,
  syncFile,
  writeFileAtomic,
} from '../files/atomic-file.ts';
import { BACKUP_EXTENSION } from './format.ts';

const CHUNK_BYTES = 256 * 1024;

const STATS_AT_ONCE = 16;

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
 * Moves an archive beside `file`, its later name. Resolves with the name that it has until then. Throws `BACKUP_FOLDER`,
 * `STORAGE_FULL`, or the signal's reason; no file is left then.
 */
export async function moveBackupBeside(archive: string, file: string, signal: AbortSignal): Promise<string> {
  const arriving = arrivingName(file);
  try {
    await move(archive, arriving, signal);
    return arriving;
  } catch (error) {
    await rm(arriving, { force: true }).catch(() => {});
    throw signal.aborted ? signal.reason : folderFault(error, dirname(file));
  }
}

/** Gives a backup its name, durably. Throws as `moveBackupBeside` does. */
export async function nameBackup(arrived: string, file: string): Promise<void> {
  try {
    await rename(arrived, file);
    await syncDir(dirname(file));
  } catch (error) {
    throw folderFault(error, dirname(file));
  }
}

async function move(from: string, to: string, signal: AbortSignal): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    if (!ELSEWHERE.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    const chunks = createReadStream(from, { highWaterMark: CHUNK_BYTES });
    await pipeline(chunks, createWriteStream(to, { flags: 'w', mode: 0o600 }), { signal });
  }
  await syncFile(to, 'r+');
}

function arrivingName(file: string): string {
  return join(dirname(file), `.${basename(file)}.tmp`);
}

/** Removes the oldest of these until `keep` are left; returns those. Files that are gone already do not count. */
export async function pruneBackups(files: string[], keep: number): Promise<string[]> {
  const found = await Promise.all(files.map((file) => exists(file).catch(() => true)));
  const there = files.filter((_file, n) => found[n]);
  await removeUnfinished(files.filter((_file, n) => !found[n]));
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

/** What a crash left of them before they had their names. */
export async function removeUnfinished(files: string[]): Promise<void> {
  for (const file of files) await rm(arrivingName(file), { force: true }).catch(() => {});
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

/** `keep` files stay; `dir` is relative to the data directory. */
export type BackupSchedule = { cron: string; keep: number; dir: string };

export type BackupRecord = {
  /** Null when no command set one; the configuration's is not stored here. */
  schedule: BackupSchedule | null;
  /** The last scheduled time that was handled, or when the schedule began; null before the first one. */
  doneUntil: number | null;
  lastSuccess: BackupSuccess | null;
  lastFailure: BackupFailure | null;
  /** The last one failed; their times do not tell, because a clock may have been set between. */
  failing: boolean;
  /** Absolute paths of the good ones, the oldest first, each noted before it gets its name. */
  files: string[];
  /** One whose databases were damaged: only the latest of these stays. */
  damagedFile: string | null;
  /** The folder that was used last. Where it is gone, it is not made again: its disk may not be mounted. */
  folder: string | null;
};

const RECORD = shape(object({ files: listOf(text) }));

const NEW: BackupRecord = {
  schedule: null,
  doneUntil: null,
  lastSuccess: null,
  lastFailure: null,
  failing: false,
  files: [],
  damagedFile: null,
  folder: null,
};

/** An empty record if the file is missing or damaged; calls `damaged` for the latter. */
export async function readBackupRecord(path: string, damaged: () => void): Promise<BackupRecord> {
  const stored = await readShaped(path, RECORD);
  if (stored === undefined) return { ...NEW };
  if (stored !== null) {
    const known = Object.entries(stored).filter(([key]) => key in NEW);
    const record = { ...NEW, ...Object.fromEntries(known) } as BackupRecord;
    // Older records have their times only.
    const { lastFailure, lastSuccess } = record;
    if (!('failing' in stored)) record.failing = lastFailure !== null && lastFailure.at >= (lastSuccess?.at ?? 0);
    return record;
  }
  damaged();
  return { ...NEW };
}

export async function writeBackupRecord(path: string, record: BackupRecord): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(record, null, 2)}\n`);
}
