/**
 * Reads and writes `backups.json`: the schedule set by a command, the results of the last backups on schedule, and their files.
 */
import { isRecord, readJson, writeFileAtomic } from '../files/atomic-file.ts';

/** `keep` files stay; `dir` is relative to the data directory. */
export type BackupSchedule = { cron: string; keep: number; dir: string };

/** `at` is when it was done, in milliseconds since the epoch; `ms` how long it took. */
export type BackupSuccess = { at: number; file: string; bytes: number; ms: number };

/** The message says what to do. */
export type BackupFailure = { at: number; message: string };

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
  const stored = await readJson(path, null);
  if (stored === undefined) return { ...NEW };
  if (isRecord(stored)) {
    const known = Object.keys(NEW).filter((key) => key in stored);
    const record = { ...NEW, ...Object.fromEntries(known.map((key) => [key, stored[key]])) } as BackupRecord;
    // Older records have their times only.
    const { lastFailure, lastSuccess } = record;
    if (!('failing' in stored)) record.failing = lastFailure !== null && lastFailure.at >= (lastSuccess?.at ?? 0);
    if (Array.isArray(record.files)) return record;
  }
  damaged();
  return { ...NEW };
}

export async function writeBackupRecord(path: string, record: BackupRecord): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(record, null, 2)}\n`);
}
