/**
 * Opens a database that was made before, and never makes a new one in its place (specification, "Damaged data"). For the
 * processes that have databases open: they must not open such a file themselves, because closing it would end SQLite's locks on
 * it.
 */
import type Sqlite from 'better-sqlite3';
import { DataLost, EMPTY, statExisting } from './existing-file.ts';
import { openSqlite } from './sqlite.ts';

/** Throws `DataLost` where there is no database, or one without tables that had no migration, and SQLite's errors. */
export function openExisting(file: string, options: Sqlite.Options): Sqlite.Database {
  statExisting(file);
  const db = openSqlite(file, { ...options, fileMustExist: true });
  try {
    if (Number(db.pragma('user_version', { simple: true })) > 0 || holdsAnything(db)) return db;
    throw new DataLost(EMPTY);
  } catch (error) {
    db.close();
    throw error;
  }
}

export function holdsAnything(db: Sqlite.Database): boolean {
  return db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get() !== undefined;
}
