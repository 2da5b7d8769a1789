/** Locks a data directory for one gateway: a lock file with the identity of the process that holds it. */
import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { isDiskFull } from '../../protocol/errors.ts';
import { makeFolder } from '../files/make-folder.ts';
import { compareIdentity, identityOf, type ProcessIdentity } from './process-identity.ts';

export class DataLockedError extends Error {
  readonly code = 'DATA_LOCKED';
  readonly pid: number;

  constructor(pid: number) {
    super(`The data directory is in use by another gateway (pid ${pid}). Stop it, or use another --data-dir.`);
    this.name = 'DataLockedError';
    this.pid = pid;
  }
}

export type DataLock = { release(): void };

/** Tries of taking a lock over while others do the same. */
const TRIES = 5;

/** Takes the lock, also from a dead process. Throws `DataLockedError`. Synchronous: it comes before everything. */
export function acquireDataLock(path: string): DataLock {
  const identity = identityOf(process.pid);
  let mine = JSON.stringify(identity);
  makeFolder(dirname(path));
  const written = `${path}.${randomUUID()}.tmp`;
  let place = (): boolean => created(() => linkSync(written, path));
  try {
    try {
      writeFileSync(written, mine, { mode: 0o600, flag: 'wx' });
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      // A broken link whose target names the holder: up to 59 bytes need no block on the disk.
      mine = `${identity.pid} ${identity.startedAs ?? ''}`;
      place = () => created(() => symlinkSync(mine, path));
    }
    for (let tries = 1; !place(); tries++) {
      const found = readLock(path);
      const holder = parseIdentity(found);
      if (holder !== null && (tries > TRIES || compareIdentity(holder) !== 'gone'))
        throw new DataLockedError(holder.pid);
      if (found !== null) removeStale(path, found);
    }
  } finally {
    rmSync(written, { force: true });
  }
  return {
    release() {
      if (readLock(path) === mine) rmSync(path, { force: true });
    },
  };
}

/** The process that holds the lock and runs, or may run; null when there is none. */
export function lockHolder(path: string): number | null {
  const holder = parseIdentity(readLock(path));
  return holder === null || compareIdentity(holder) === 'gone' ? null : holder.pid;
}

/** False when the name is taken. A link appears with its whole content: no lock is ever seen empty. */
function created(link: () => void): boolean {
  try {
    link();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Moves the dead holder's lock away. If another gateway took the name meanwhile, its lock is put back. */
function removeStale(path: string, stale: string): void {
  const aside = `${path}.${randomUUID()}.tmp`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  if (readLock(aside) !== stale) created(() => linkSync(aside, path));
  rmSync(aside, { force: true });
}

function readLock(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

function parseIdentity(text: string | null): ProcessIdentity | null {
  if (text === null) return null;
  const [, pid, startedAs] = /^(\d+) (\S*)$/.exec(text) ?? [];
  if (pid !== undefined) return { pid: Number(pid), startedAs: startedAs || null };
  try {
    const value = JSON.parse(text) as ProcessIdentity | null;
    return typeof value?.pid === 'number' ? { pid: value.pid, startedAs: value.startedAs ?? null } : null;
  } catch {
    return null;
  }
}
