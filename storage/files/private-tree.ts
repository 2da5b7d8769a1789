/**
 * Makes a data directory private to its owner: finds files and folders that other users can open, and removes that permission.
 */
import { chmodSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Permission bits of everybody but the owner. */
const OTHERS = 0o077;

/** Files that our processes create are private, also those of libraries such as SQLite. Threads cannot set this. */
export const PRIVATE_UMASK = 0o077;

/** Paths in and including `root` that others can open; links are not followed. */
export function openToOthers(root: string): string[] {
  const stats = lstatSync(root, { throwIfNoEntry: false });
  if (stats === undefined || stats.isSymbolicLink()) return [];
  const below = stats.isDirectory() ? entries(root).flatMap((name) => openToOthers(join(root, name))) : [];
  return (stats.mode & OTHERS) === 0 ? below : [root, ...below];
}

/** Leaves only the owner's permissions on `path`; ignores one that is gone. */
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
