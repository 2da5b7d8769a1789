/** Reads the databases of a data directory, whether or not its gateway runs. */
import type Database from 'better-sqlite3';
import { openSqlite } from '../storage/sqlite.ts';

export function reading<T>(path: string, read: (db: Database.Database) => T): T {
  const db = openSqlite(path, { readonly: true });
  try {
    return read(db);
  } finally {
    db.close();
  }
}

/** What SQLite finds wrong with the file, in sentences. */
export function unsound(path: string): string[] {
  const sound = reading(path, (db) => db.pragma('integrity_check', { simple: true }));
  return sound === 'ok' ? [] : [`${path}: integrity_check says ${String(sound)}.`];
}
