/** Makes a folder durable that was written with plain calls; for programs that nobody waits on, as it is synchronous. */
import { spawnSync } from 'node:child_process';
import { closeSync, fsyncSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** From this many files on, one flush of the whole file system costs less than one for each of them. */
const FLUSH_ALL_FILES = 200;

/** Makes everything in the folder durable: contents and names. */
export function syncTree(dir: string): void {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  if (files.length >= FLUSH_ALL_FILES && syncFileSystem(dir)) return;
  for (const path of files) sync(path, 'r+');
  // Windows has no handle for a folder; its file system journals names itself.
  if (process.platform === 'win32') return;
  for (const entry of entries) if (entry.isDirectory()) sync(join(entry.parentPath, entry.name), 'r');
  sync(dir, 'r');
}

/** syncfs(2), which Node does not offer but every Linux has a program for. */
function syncFileSystem(dir: string): boolean {
  return process.platform === 'linux' && spawnSync('sync', ['-f', dir], { stdio: 'ignore' }).status === 0;
}

function sync(path: string, flags: string): void {
  const fd = openSync(path, flags);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
