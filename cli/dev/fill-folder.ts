/** Fills a folder all at once, or not at all. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** `target` is missing or empty, and stays so when `fill` fails; what `fill` writes into the folder it gets comes there when it is done. */
export async function fillFolder(target: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const isThere = existsSync(target);
  // A folder that is there is kept, not replaced: it may be a mount, a link, or where somebody's shell is.
  const place = isThere ? target : nearestFolder(dirname(target));
  const unfinished = mkdtempSync(join(place, `.${basename(target)}.tmp-`));
  try {
    // With the rights that new folders have here; the one above is its owner's only.
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
