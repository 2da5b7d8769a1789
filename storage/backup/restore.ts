/** Puts a backup into an empty place: all of it, verified, or nothing. */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, statfsSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { type BackupDatabase, type BackupManifest, invalidBackup } from '../../protocol/backup.ts';
import { SvcError } from '../../protocol/errors.ts';
import { syncDir } from '../atomic-file.ts';
import { syncTree } from '../sync-tree.ts';
import { inspectDatabase } from './database.ts';
import { readBackup } from './read.ts';

/** What rename(2) says when the target is a mount point. */
const IS_MOUNTED = new Set(['EBUSY', 'EXDEV']);

/**
 * Restores into `target`, which is missing or empty; answers the manifest. Everything is unpacked beside it and checked:
 * every checksum, every database by SQLite's own check and by the number of rows of each table. Only then it gets its name.
 * Throws `RESTORE_TARGET`, `INVALID_BACKUP`, `BACKUP_TOO_LARGE`, Node's own error, or the signal's reason; nothing is left
 * then.
 */
export async function restoreBackup(file: string, target: string, signal?: AbortSignal): Promise<BackupManifest> {
  const place = resolve(target);
  checkTarget(place);
  checkRoom(file, place);
  const made = mkdirSync(dirname(place), { recursive: true, mode: 0o700 });
  const arriving = join(dirname(place), `.${basename(place)}.${randomUUID()}.tmp`);
  try {
    mkdirSync(arriving, { mode: 0o700 });
    const manifest = await readBackup(file, arriving, signal);
    for (const database of manifest.databases) {
      signal?.throwIfAborted();
      checkDatabase(arriving, database);
    }
    await syncTree(arriving);
    signal?.throwIfAborted();
    putInPlace(arriving, place);
    await syncDir(dirname(place));
    return manifest;
  } catch (error) {
    rmSync(arriving, { recursive: true, force: true });
    if (made !== undefined) removeEmpty(dirname(place), made);
    throw error;
  }
}

/** What is unpacked is larger than the archive. Throws `STORAGE_FULL`. */
function checkRoom(file: string, place: string): void {
  let there = dirname(place);
  while (!existsSync(there)) there = dirname(there);
  const { bavail, bsize } = statfsSync(there);
  const [needed, free] = [statSync(file).size, bavail * bsize];
  if (needed > free)
    throw new SvcError(
      'STORAGE_FULL',
      `The backup needs at least ${needed} bytes of disk space, but only ${free} are free. Nothing was written; free some space, or restore to another disk.`,
    );
}

function checkTarget(place: string): void {
  let names: string[];
  try {
    names = readdirSync(place);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return;
    if (code !== 'ENOTDIR') throw error;
    throw new SvcError('RESTORE_TARGET', 'The target is a file; name a directory.');
  }
  if (names.length > 0) throw targetNotEmpty();
}

/** A file whose checksum is right and which SQLite reads otherwise was never what the manifest says. */
function checkDatabase(folder: string, { path, ...wanted }: BackupDatabase): void {
  const found = inspectDatabase(join(folder, path));
  if (found.integrity !== wanted.integrity) throw invalidBackup(`SQLite says of a database: ${found.integrity}`, path);
  if (found.userVersion !== wanted.userVersion)
    throw invalidBackup(`a database has had ${found.userVersion} migrations instead of ${wanted.userVersion}`, path);
  const rows = new Map(found.tables.map((table) => [table.name, table.rows]));
  for (const table of wanted.tables) {
    if (rows.get(table.name) !== table.rows)
      throw invalidBackup(`the table "${table.name}" has ${rows.get(table.name)} rows instead of ${table.rows}`, path);
  }
  if (rows.size !== wanted.tables.length) throw invalidBackup('a database has other tables than it should', path);
}

/** Renaming replaces an empty directory, and fails when something has come into it meanwhile. */
function putInPlace(arriving: string, place: string): void {
  try {
    renameSync(arriving, place);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    if (code === 'ENOTEMPTY' || code === 'EEXIST') throw targetNotEmpty();
    if (!IS_MOUNTED.has(code)) throw error;
    throw new SvcError('RESTORE_TARGET', 'The directory is a mount point; restore to a directory inside it.');
  }
}

/** The folders that were made above the target, as far as nothing else is in them. */
function removeEmpty(deepest: string, first: string): void {
  try {
    for (let folder = deepest; folder.startsWith(first); folder = dirname(folder)) rmdirSync(folder);
  } catch {
    // Somebody else's file keeps it.
  }
}

function targetNotEmpty(): SvcError {
  return new SvcError('RESTORE_TARGET', 'The directory is not empty. Restore to an empty or missing directory.');
}
