/** Opens the configured backend, and refuses one that the data directory's apps do not use. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { isAppId } from '../../../protocol/ids.ts';
import { readStoreMark, writeStoreMark } from '../../../storage/apps/linked-code.ts';
import { readEntries } from '../../../storage/apps/registry.ts';
import { finishConversion } from '../../../storage/conversion.ts';
import { exists, isMissing } from '../../../storage/files/atomic-file.ts';
import { CodeStorePaths, type Layout } from '../../../storage/layout.ts';
import { type Config, ConfigError } from '../../config.ts';
import { ArchiveStore, type CodeStore } from './code-store.ts';
import { GitStore, type RepositoryAccess } from './git-store.ts';

/** Default place of a git store, relative to the data directory. */
export const GIT_STORE = 'code-store';

/**
 * The store that a data directory has: the folder of its git store, or null for the tarball backend. Undefined for a directory in
 * which no gateway has run.
 */
export async function storeIn(layout: Layout): Promise<string | null | undefined> {
  const found = (await readStoreMark(layout))?.root ?? (await defaultStore(layout));
  if (found !== null) return found;
  // The mark of a git store is older than the profile, which each start writes.
  return (await exists(layout.profile)) || (await holdsApps(layout)) ? null : undefined;
}

/** Rejects with a `ConfigError`, before it writes anything, when the apps are on the other backend or in another git store. */
export async function checkStore(layout: Layout): Promise<void> {
  const paths = layout.codeStore;
  if (paths !== null) await finishConversion(layout, paths);
  const mark = await readStoreMark(layout);
  const marked = mark?.root ?? null;
  if (paths === null) {
    const found = marked ?? (await defaultStore(layout));
    if (found === null) return;
    throw new ConfigError(
      `The apps of this data directory are on the git store ${found}. Leave --store out, or set "appsStoreRoot".`,
      'appsStoreRoot',
    );
  }
  if (marked === null && (await holdsApps(layout))) {
    throw new ConfigError(
      'The apps of this data directory are not on a git store but on the tarball backend. Move them with "svc convert --store git", or leave "appsStoreRoot" and --store git out.',
      'appsStoreRoot',
    );
  }
  if (marked !== null && marked !== paths.dir && !(await exists(paths.repository))) {
    throw new ConfigError(
      `The apps of this data directory are on the git store ${marked}, and "appsStoreRoot" names ${paths.dir}, where there is none. Set it to ${marked}, or move the store there.`,
      'appsStoreRoot',
    );
  }
  if (marked !== paths.dir || mark?.isWhole === false) await writeStoreMark(layout, paths.dir);
}

export function openStore({
  layout,
  config,
  repository,
  log,
}: {
  layout: Layout;
  config: Config;
  /** Null on the tarball backend. */
  repository: RepositoryAccess | null;
  log: Logger;
}): CodeStore {
  const paths = layout.codeStore;
  if (paths === null || repository === null) return new ArchiveStore(layout);
  return new GitStore({ layout, paths, ...repository, author: config.commitAuthor, log });
}

/** Whether an app was ever registered here, as far as the files say. */
async function holdsApps(layout: Layout): Promise<boolean> {
  const entries = await readEntries(layout.registry);
  if (entries !== null) return entries.size > 0;
  try {
    return (await readdir(layout.appsDir)).some(isAppId);
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** A store in its usual place whose mark is gone. */
async function defaultStore(layout: Layout): Promise<string | null> {
  const paths = new CodeStorePaths(join(layout.dataDir, GIT_STORE));
  return (await exists(paths.repository)) ? paths.dir : null;
}
