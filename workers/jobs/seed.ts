/** Gives a draft a copy of the live data to work on. */
import { existsSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import Sqlite from 'better-sqlite3';
import type { SeedJob, SeedResult } from '../../protocol/drafts.ts';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { crashPoint } from '../../storage/crash-point.ts';
import { syncFile } from '../../storage/sync-tree.ts';

/** What SQLite keeps beside a database. */
const COMPANIONS = ['-wal', '-shm', '-journal'];

/** The live data is only read, as it is at one moment, while others go on writing. */
export async function seed({ from, to }: SeedJob): Promise<SeedResult> {
  const unfinished = `${to}.tmp`;
  remove(unfinished);
  try {
    const userVersion = existsSync(from) ? await copy(from, unfinished) : null;
    crashPoint('seed.copied');
    // What is left of the log of the old data would be taken for that of the new.
    remove(to);
    crashPoint('seed.cleared');
    if (userVersion !== null) renameSync(unfinished, to);
    await syncFile(dirname(to), 'r');
    crashPoint('seed.placed');
    return { userVersion: userVersion ?? 0 };
  } catch (error) {
    remove(unfinished);
    throw error;
  }
}

/** Null when there is nothing in it. */
async function copy(from: string, to: string): Promise<number | null> {
  // Made here, because SQLite would let others read it.
  writeFileSync(to, '', { mode: 0o600 });
  try {
    using(new Sqlite(from, { readonly: true, fileMustExist: true, timeout: LIMITS.readBusyMs }), (db) =>
      db.prepare('VACUUM INTO ?').run(to),
    );
    if (statSync(to).size === 0) {
      remove(to);
      return null;
    }
    // SQLite leaves it to whoever wants the copy to outlive a power cut.
    await syncFile(to, 'r+');
    return using(new Sqlite(to, { readonly: true }), (db) => Number(db.pragma('user_version', { simple: true })));
  } catch (error) {
    if (isDiskFull(error)) throw error;
    throw new SvcError('INTERNAL', `The live data cannot be copied: ${(error as Error).message}.`, { cause: error });
  }
}

function using<T>(db: Sqlite.Database, work: (db: Sqlite.Database) => T): T {
  try {
    return work(db);
  } finally {
    db.close();
  }
}

function remove(file: string): void {
  for (const suffix of ['', ...COMPANIONS]) rmSync(file + suffix, { force: true });
}
