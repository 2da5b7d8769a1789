/** Fills a new folder so that it appears with all its files, or not at all. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** `target` is missing or empty. `fill` gets another folder; after it succeeds, the content moves to `target`. */
export async function fillFolder(target: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const isThere = existsSync(target);
  // An existing folder is kept, not replaced: it may be a mount, a link, or the current folder of a shell.
  const place = isThere ? target : nearestFolder(dirname(target));
  const unfinished = mkdtempSync(join(place, `.${basename(target)}.tmp-`));
  try {
    // It has the mode of new folders here; only the owner may open the folder above it.
    const filled = join(unfinished, 'filled');
    mkdirSync(filled);
    await fill(filled);
    if (isThere) for (const name of readdirSync(filled)) renameSync(join(filled, name), join(target, name));
    else {
      mkdirSync(dirname(target), { recursive: true });
      renameSync(filled, target);
    }
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/** The folder itself, or the first above it that exists. */
function nearestFolder(folder: string): string {
  return existsSync(folder) ? folder : nearestFolder(dirname(folder));
}
