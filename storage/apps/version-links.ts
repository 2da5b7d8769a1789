/**
 * Finds the code that the folder of a version links to on the git store (specification, "Stores of code"), and puts it into the
 * folder's place when an app leaves the store: then the app's own folder has everything.
 */
import { readlink, realpath, rm, rmdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { exists, isMissing, moveDir, namesIn, renameDurable } from '../files/atomic-file.ts';
import type { AppPaths } from '../layout.ts';

/** Where a version's code really is; null when it is not a link, or a broken one. */
export async function linkedTo(path: string): Promise<string | null> {
  try {
    return await realpath(resolve(dirname(path), await readlink(path)));
  } catch (error) {
    // EINVAL: a folder, as an upload or a restore leaves it.
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'EINVAL') return null;
    throw error;
  }
}

/** Removes `<sha>/apps` and `<sha>`, as far as nothing is in them. */
export async function removeEmpty(apps: string): Promise<void> {
  for (const dir of [apps, dirname(apps)]) {
    try {
      await rmdir(dir);
    } catch {
      return;
    }
  }
}

const TAKEN = /^\.(.+)\.taken$/;

/**
 * Replaces the link of each version by its code, with all changes since it was stored. The app must not be in use. After a
 * crash, another call finishes the work.
 */
export async function takeLinkedCode({ versionsDir }: AppPaths): Promise<void> {
  for (const name of await namesIn(versionsDir)) {
    if (name.startsWith('.')) continue;
    const code = await linkedTo(join(versionsDir, name));
    // A folder cannot replace a link atomically, so it waits beside it.
    const taken = join(versionsDir, `.${name}.taken`);
    if (code === null || (await exists(taken))) continue;
    await moveDir(code, taken);
    // Only who took the code away removes the folders of its commit: those of others may be empty for a moment.
    await removeEmpty(dirname(code));
  }
  for (const name of await namesIn(versionsDir)) {
    const version = TAKEN.exec(name)?.[1];
    if (version === undefined) continue;
    await rm(join(versionsDir, version), { recursive: true, force: true });
    await renameDurable(join(versionsDir, name), join(versionsDir, version));
  }
}
