/** What is stored, read without the gateway: databases, and the repository of the git store. */
import { execFileSync } from 'node:child_process';
import type Database from 'better-sqlite3';
import { openSqlite } from '../../storage/sqlite.ts';

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

/** What a command of git says of the repository. */
export function git(repository: string, ...args: string[]): string {
  return execFileSync('git', ['-C', repository, ...args], { encoding: 'utf8' });
}
