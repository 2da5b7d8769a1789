/** Makes folders. */
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder, and those above it that are missing. Returns the uppermost one that it made; undefined when the folder was there.
 * Throws Node's error, which names the folder that cannot be made. One level at a time: Node's `recursive` never ends where no folder
 * can be made, as in `/proc`.
 */
export function makeFolder(folder: string, mode = 0o700): string | undefined {
  try {
    mkdirSync(folder, { mode });
    return folder;
  } catch (error) {
    // Also when another process has just made it.
    if (existsSync(folder) && statSync(folder).isDirectory()) return undefined;
    const above = dirname(folder);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || existsSync(above)) throw error;
    const uppermost = makeFolder(above, mode);
    const made = makeFolder(folder, mode);
    return uppermost ?? made;
  }
}
