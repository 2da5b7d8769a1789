/** Does long work on a database in a thread: copies the log into the file, and runs migrations after a backup. */
import {
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type Sqlite from 'better-sqlite3';
import { isDamage, isDiskFault, isDiskFull, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { MigrationFile } from '../../protocol/wire/frames.ts';
import { holdsAnything } from '../../storage/data-file.ts';
import { openSqlite } from '../../storage/sqlite.ts';

function openToMigrate(file: string): Sqlite.Database {
  const db = openSqlite(file);
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = FULL');
  return db;
}

/** Copies the write-ahead log of `file` into it, as far as readers let it, while others go on writing. */
export async function checkpoint(file: string): Promise<void> {
  const db = openSqlite(file, { fileMustExist: true });
  try {
    db.pragma('wal_checkpoint(PASSIVE)');
  } finally {
    db.close();
  }
}

/**
 * Applies the files whose number is above `PRAGMA user_version`, in order, in one transaction; returns their numbers. A
 * database that is not empty is copied to `backupTo` first, even when no file is given. Without such files it makes durable
 * what was committed, because after a crash the log may hold commits that never reached the disk. Throws `MIGRATION_FAILED`
 * with the file in `path`, or `STORAGE_FULL`; the data is then unchanged (specification, "Migrations").
 */
export async function migrate(
  file: string,
  files: MigrationFile[],
  backupTo: string | null,
  clone: Clone = cloneFile,
): Promise<number[]> {
  let db = openToMigrate(file);
  try {
    const version = Number(db.pragma('user_version', { simple: true }));
    const pending = files.filter(({ name }) => migrationNumber(name) > version);
    const holdsData = holdsAnything(db);
    if (pending.length === 0) {
      makeDurable(db);
      if (files.length === 0 && backupTo !== null && holdsData)
        backUp(backupTo, (to) => Boolean(db.prepare('VACUUM INTO ?').run(to)));
      return [];
    }
    if (holdsData) checkRoom(db, file, backupTo !== null);
    if (backupTo !== null && holdsData) {
      let isCopied = false;
      if (emptyLog(db)) {
        // Closing the file anywhere in this process would end SQLite's locks on it, so SQLite closes it first.
        db.close();
        isCopied = backUp(backupTo, (to) => cloned(clone, file, to));
        db = openToMigrate(file);
      }
      if (!isCopied) backUp(backupTo, (to) => Boolean(db.prepare('VACUUM INTO ?').run(to)));
    }
    apply(db, pending);
    truncateLog(db);
    return pending.map(({ name }) => migrationNumber(name));
  } catch (error) {
    if (isDiskFull(error)) throw new SvcError('STORAGE_FULL', 'The disk is full; the migration was rolled back.');
    throw error;
  } finally {
    db.close();
  }
}

function makeDurable(db: Sqlite.Database): void {
  const [{ log, checkpointed }] = db.pragma('wal_checkpoint(PASSIVE)') as [{ log: number; checkpointed: number }];
  if (log === checkpointed) return;
  // A reader needs the log; the flush of one more commit flushes all of it.
  const version = db.pragma('user_version', { simple: true });
  db.transaction(() => db.pragma(`user_version = ${version}`)).immediate();
}

/** `0003_add-index.sql` → 3. */
function migrationNumber(name: string): number {
  return Number.parseInt(name, 10);
}

function apply(db: Sqlite.Database, pending: MigrationFile[]): void {
  // As SQLite advises for changing schemas: with enforcement on, dropping a table to rebuild it would delete the rows that refer
  // to it. The result of the migrations is checked instead.
  db.pragma('foreign_keys = OFF');
  let current = pending[0] as MigrationFile;
  db.exec('BEGIN IMMEDIATE');
  try {
    for (current of pending) {
      db.exec(textOf(current));
      if (!db.inTransaction) throw new Error('It ended the transaction that all migrations share.');
      db.pragma(`user_version = ${migrationNumber(current.name)}`);
    }
    const [violation] = db.pragma('foreign_key_check') as { table: string; parent: string }[];
    if (violation)
      throw new Error(`A row of "${violation.table}" refers to a row of "${violation.parent}" that is not there.`);
    db.exec('COMMIT');
  } catch (error) {
    if (db.inTransaction) db.exec('ROLLBACK');
    // The disk failed, not the migration.
    if (isDiskFull(error) || isDiskFault(error) || isDamage(error)) throw error;
    const name = current.name;
    throw new SvcError('MIGRATION_FAILED', `${name}: ${(error as Error).message}`, { path: `migrations/${name}` });
  }
}

function textOf({ path }: MigrationFile): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new Error('The file cannot be read.');
  }
}

/** Room for the copy, and for the log of a migration that writes every page. Throws `STORAGE_FULL`. */
function checkRoom(db: Sqlite.Database, file: string, copies: boolean): void {
  const pages =
    Number(db.pragma('page_count', { simple: true })) - Number(db.pragma('freelist_count', { simple: true }));
  const needed = pages * Number(db.pragma('page_size', { simple: true })) * (copies ? 2 : 1);
  const { bavail, bsize } = statfsSync(dirname(file));
  const free = bavail * bsize;
  if (needed <= free) return;
  throw new SvcError(
    'STORAGE_FULL',
    `The migration needs up to ${megabytes(needed)} of disk${copies ? ', half of it for a copy of the data before' : ''}, and ${megabytes(free)} are free. Nothing was begun; free some space and try again.`,
  );
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Empties the log, which may be as large as the database. A reader may prevent that; the writer then cuts the log later. */
function truncateLog(db: Sqlite.Database): void {
  try {
    db.pragma(`busy_timeout = ${LIMITS.truncateLogMs}`);
    db.pragma('wal_checkpoint(TRUNCATE)');
  } catch {
    // The log holds the commit.
  }
}

/** Makes a file that shares the blocks of another until one changes. Throws where the file system cannot. */
type Clone = (from: string, to: string) => void;

function cloneFile(from: string, to: string): void {
  copyFileSync(from, to, constants.COPYFILE_FICLONE_FORCE);
}

/** Whether the file now holds everything: the log is empty, and there is no reader of it. */
function emptyLog(db: Sqlite.Database): boolean {
  try {
    const [{ busy }] = db.pragma('wal_checkpoint(TRUNCATE)') as [{ busy: number }];
    return busy === 0;
  } catch {
    // The next step meets the same failure and reports it.
    return false;
  }
}

/** Whether `clone` made a copy, which takes no room and no time. */
function cloned(clone: Clone, file: string, to: string): boolean {
  try {
    clone(file, to);
    return true;
  } catch {
    rmSync(to, { force: true });
    return false;
  }
}

/** `make` writes the copy, and says whether it did. The copy gets its name once all of it is on the disk. */
function backUp(to: string, make: (to: string) => boolean): boolean {
  mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
  const unfinished = `${to}.tmp`;
  // Left over from a crash: only one copy of a database is made at a time.
  for (const name of readdirSync(dirname(to))) if (name.endsWith('.tmp')) rmSync(join(dirname(to), name));
  try {
    if (!make(unfinished)) return false;
    sync(unfinished);
    renameSync(unfinished, to);
    sync(dirname(to));
    return true;
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw error;
  }
}

function sync(path: string): void {
  const handle = openSync(path, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
