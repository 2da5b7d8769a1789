/**
 * Lists everything below a folder, and enters no link: the `recursive` of Node's own `readdir` does from Node 22 on, so a link in an
 * app's folder would bring in files of the machine.
 */
import { type Dirent, readdirSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

const WITH_TYPES = { withFileTypes: true } as const;

export function pathOf({ parentPath, name }: Dirent): string {
  return join(parentPath, name);
}

/** Files, folders, links and special files, those of upper folders first. Rejects for a folder that is missing or goes meanwhile. */
export async function listTree(folder: string): Promise<Dirent[]> {
  const entries = await readdir(folder, WITH_TYPES);
  for (const entry of entries) {
    if (entry.isDirectory()) for (const below of await readdir(pathOf(entry), WITH_TYPES)) entries.push(below);
  }
  return entries;
}

/** The same at once, for processes that may block. */
export function listTreeSync(folder: string): Dirent[] {
  const entries = readdirSync(folder, WITH_TYPES);
  for (const entry of entries) {
    if (entry.isDirectory()) for (const below of readdirSync(pathOf(entry), WITH_TYPES)) entries.push(below);
  }
  return entries;
}
