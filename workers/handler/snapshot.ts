/**
 * A database as it stands, read as a whole into memory: how it can be read when the disk has no room for the index of its log,
 * which SQLite makes before the first read of a file. Only while there is no log, so that the file is all there is.
 */
import { readFileSync, statSync } from 'node:fs';
import Sqlite from 'better-sqlite3';
import { LIMITS } from '../../protocol/limits.ts';

/** Where a file of SQLite says with which kind of log it is written, and read: 2 stands for a write-ahead log, 1 for none. */
const LOG_KINDS = [18, 19];

export class Snapshot {
  readonly db: Sqlite.Database;
  readonly #file: string;
  readonly #state: string;

  private constructor(file: string, state: string, db: Sqlite.Database) {
    this.#file = file;
    this.#state = state;
    this.db = db;
  }

  /** Null when the file is too large, has a log, or is being changed. Throws SQLite's errors. */
  static take(file: string): Snapshot | null {
    const state = stateOf(file);
    if (state === null) return null;
    const bytes = readFileSync(file);
    if (stateOf(file) !== state) return null;
    for (const at of LOG_KINDS) if (bytes[at] === 2) bytes[at] = 1;
    const db = new Sqlite(bytes);
    db.pragma('query_only = ON');
    db.defaultSafeIntegers(true);
    return new Snapshot(file, state, db);
  }

  /** Whether the file is still what was read. */
  get isCurrent(): boolean {
    return stateOf(this.#file) === this.#state;
  }
}

/** Differs after every change; null where no snapshot can be taken. Whoever writes has a log that is not empty. */
function stateOf(file: string): string | null {
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false });
  const found = statSync(file, { throwIfNoEntry: false, bigint: true });
  if (found === undefined || (log?.size ?? 0) > 0 || found.size > LIMITS.databaseSnapshotBytes) return null;
  return `${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}`;
}
