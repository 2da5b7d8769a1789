/** Makes a folder durable that was written with plain calls. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { inParallel } from './in-parallel.ts';

/** From this many files on, one flush of the whole file system costs less than one for each of them. */
const FLUSH_ALL_FILES = 200;
/** Files that are flushed at a time: the disk writes them together. */
export const SYNCS_AT_ONCE = 32;

/** Makes everything in the folder durable: contents and names. */
export async function syncTree(dir: string): Promise<void> {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  if (files.length >= FLUSH_ALL_FILES && syncFileSystem(dir)) return;
  await inParallel(files, SYNCS_AT_ONCE, (path) => syncFile(path, 'r+'));
  const folders = entries.filter((entry) => entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name));
  await inParallel([...folders, dir], SYNCS_AT_ONCE, (path) => syncFile(path, 'r'));
}

/** Under Node's permission model only a `FileHandle` is flushed: `fsync` of a descriptor is refused. */
export async function syncFile(path: string, flags: 'r' | 'r+'): Promise<void> {
  const file = await open(path, flags);
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** syncfs(2), which Node does not offer but every Linux has a program for. The jobs process may start none. */
function syncFileSystem(dir: string): boolean {
  if (process.platform !== 'linux' || process.permission?.has('child') === false) return false;
  return spawnSync('sync', ['-f', dir], { stdio: 'ignore' }).status === 0;
}
