/** Who may open what is in a data directory: its owner and nobody else. Finds files and folders that others can open, and closes them. */
import { chmodSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Permission bits of everybody but the owner. */
const OTHERS = 0o077;

/** What our processes create is the owner's, also where a library creates it, such as SQLite. Threads cannot set this. */
export const PRIVATE_UMASK = 0o077;

/** `root` and what lies in it, as far as others can open it; links are not followed. */
export function openToOthers(root: string): string[] {
  const stats = lstatSync(root, { throwIfNoEntry: false });
  if (stats === undefined || stats.isSymbolicLink()) return [];
  const below = stats.isDirectory() ? entries(root).flatMap((name) => openToOthers(join(root, name))) : [];
  return (stats.mode & OTHERS) === 0 ? below : [root, ...below];
}

/** Takes the permissions of everybody but the owner away from `path`; one that has gone meanwhile is not missed. */
export function closeToOthers(path: string): void {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats !== undefined && !stats.isSymbolicLink()) chmodSync(path, stats.mode & 0o7700);
}

/** A folder may go while others work in the directory. */
function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
