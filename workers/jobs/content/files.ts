/** Writes files in a job thread, where synchronous calls are the fastest and nothing else waits for the loop. */
import { closeSync, copyFileSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ORIGIN_FILE } from '../../../protocol/rules/archive-rules.ts';
import { listTreeSync, pathOf } from '../../../storage/files/list-tree.ts';

/** Opens a file that must not exist. Most lie in a folder that is there already: asking first would cost as much as the file. */
export function openNew(path: string): number {
  try {
    return openSync(path, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    makeFolder(dirname(path));
    return openSync(path, 'wx', 0o600);
  }
}

export function writeNewFile(path: string, content: string | Uint8Array): void {
  const fd = openNew(path);
  try {
    writeFileSync(fd, content);
  } finally {
    closeSync(fd);
  }
}

export function makeFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
}

/** All but the note of a folder's origin. `cpSync` checks every folder above the two, which this process may not read. */
export function copyFiles(from: string, to: string): void {
  for (const entry of listTreeSync(from)) {
    if (!entry.isFile() || entry.name === ORIGIN_FILE) continue;
    const path = pathOf(entry);
    const copy = join(to, path.slice(from.length));
    makeFolder(dirname(copy));
    copyFileSync(path, copy);
  }
}
