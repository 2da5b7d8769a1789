/** Copies SQLite files for backups while others write to them, and checks the copies. */
import { chmodSync, copyFileSync, statSync, writeFileSync } from 'node:fs';
import type Sqlite from 'better-sqlite3';
import { isDamage } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { openSqlite } from '../sqlite.ts';
import type { BackupDatabase } from './format.ts';

/** Pages copied between two looks at whether to go on: at 4 KiB each, some milliseconds. */
const STEP_PAGES = 2000;

/**
 * Copies the database page by page as it is at one moment, while others go on writing: the transaction that is held open keeps
 * the copy from starting over with each of their commits. `check` is called between steps; what it throws ends the copy. A file
 * that SQLite cannot read is copied byte for byte. `to` must not exist.
 */
export async function copyDatabase(from: string, to: string, check: () => void): Promise<void> {
  const db = openSqlite(from, { readonly: true, fileMustExist: true, timeout: LIMITS.readBusyMs });
  // Made here, because SQLite would let other users read it, and makes no file for an empty database.
  writeFileSync(to, '', { mode: 0o600, flag: 'wx' });
  try {
    db.exec('BEGIN');
    db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get();
    await db.backup(to, {
      progress: () => {
        check();
        return STEP_PAGES;
      },
    });
  } catch (error) {
    if (!isDamage(error)) throw error;
    copyFileSync(from, to);
    chmodSync(to, 0o600);
  } finally {
    db.close();
  }
}

/** Checks and counts the rows of a database that no one else has open. Does not change the file. */
export function inspectDatabase(file: string): Omit<BackupDatabase, 'path'> {
  let userVersion = 0;
  try {
    const db = openSqlite(file, { fileMustExist: true });
    try {
      userVersion = Number(db.pragma('user_version', { simple: true }));
      const integrity = String(db.pragma('integrity_check(1)', { simple: true }));
      return { userVersion, integrity, tables: integrity === 'ok' ? countRows(db) : [] };
    } finally {
      db.close();
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { userVersion, integrity: (error as Error).message, tables: [] };
  }
}

/** What SQLite says of a database that others may have open: `ok`, or the first thing that is wrong with it. Changes no file. */
export function quickCheck(file: string): string {
  // SQLite would take it for a new database, and delete the log beside it.
  if (statSync(file).size === 0) return 'it is empty';
  try {
    const db = openSqlite(file, { readonly: true, fileMustExist: true, timeout: LIMITS.readBusyMs });
    try {
      return String(db.pragma('quick_check(1)', { simple: true }));
    } finally {
      db.close();
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    return (error as Error).message;
  }
}

/** Virtual tables are left out: their rows are in other tables, or not in this file. */
function countRows(db: Sqlite.Database): BackupDatabase['tables'] {
  const names = db
    .prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow') ORDER BY name")
    .pluck()
    .all() as string[];
  return names.map((name) => {
    const count = db.prepare(`SELECT count(*) FROM main."${name.replaceAll('"', '""')}"`).pluck();
    return { name, rows: Number(count.get()) };
  });
}
