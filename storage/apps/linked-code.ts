/**
 * Keeps the files of the git store beside its repository: the mark that says where it is, and the code of versions, in a
 * folder named after the commit that published it. The version's own folder is a link to it; code without a link is unused.
 */
import { realpath, rename, rm, symlink } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, sep } from 'node:path';
import { isAppId } from '../../protocol/ids.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';
import {
  clearPlace,
  isThere,
  mkdirDurable,
  moveDir,
  namesIn,
  readIfWhole,
  renameDurable,
  syncDir,
  writeFileAtomic,
} from '../files/atomic-file.ts';
import { isObjectId } from '../git/object.ts';
import type { AppPaths, CodeStorePaths, Layout, VersionPaths } from '../layout.ts';
import { linkedTo, removeEmpty } from './version-links.ts';
import { removeVersion } from './versions.ts';

/** The absolute `appsStoreRoot`, and whether the mark says it: one that is damaged stands for the usual place. Null without a mark. */
export async function readStoreMark(layout: Layout): Promise<{ root: string; isWhole: boolean } | null> {
  const mark = await readIfWhole(layout.storeMark);
  if (mark === undefined) return null;
  // Only editing by hand damages it: it still shows that there is a store.
  const named = isRecord(mark) ? mark.appsStoreRoot : undefined;
  const isWhole = typeof named === 'string' && named !== '';
  const root = isWhole ? named : 'code-store';
  return { root: isAbsolute(root) ? root : join(layout.dataDir, root), isWhole };
}

export async function writeStoreMark(layout: Layout, root: string): Promise<void> {
  await mkdirDurable(layout.appsDir);
  const inside = relative(layout.dataDir, root);
  // A data directory can be moved as a whole.
  const isInside = inside !== '' && !inside.startsWith('..') && !isAbsolute(inside);
  const mark = { appsStoreRoot: isInside ? inside : root };
  await clearPlace(layout.storeMark);
  await writeFileAtomic(layout.storeMark, `${JSON.stringify(mark)}\n`);
}

/** Puts a staged version into place, its code at `at`; all or nothing after a crash. */
export async function installLinked(app: AppPaths, versionId: string, staged: VersionPaths, at: string): Promise<void> {
  const target = app.version(versionId);
  for (const dir of [app.preparedDir, app.versionsDir, dirname(at)]) await mkdirDurable(dir);
  for (const left of [target.prepared, at]) await rm(left, { recursive: true, force: true });
  try {
    await renameDurable(staged.prepared, target.prepared);
    await moveDir(staged.code, at);
    await link(target.code, at);
  } catch (error) {
    // No link leads to it yet: otherwise it would stay until the next start.
    await removeCode(at);
    throw error;
  }
}

/** The commit whose code the version's own folder leads to; null when it leads to none. */
export async function commitOf(app: AppPaths, versionId: string, store: CodeStorePaths): Promise<string | null> {
  const code = await linkedTo(app.version(versionId).code);
  if (code === null) return null;
  const [commit = ''] = relative(await realpath(store.mainDir), code).split(sep);
  return isObjectId(commit) ? commit : null;
}

/** Removes a version and its code, which is gone as a whole from the first step on. */
export async function removeLinked(
  app: AppPaths,
  versionId: string,
  { store, tmpDir }: { store: CodeStorePaths; tmpDir: string },
): Promise<void> {
  const link = app.version(versionId).code;
  const code = await linkedTo(link);
  try {
    await removeVersion(app, versionId, tmpDir);
  } finally {
    const isUnused = code?.startsWith(await realpath(store.mainDir)) && !(await isThere(link));
    if (code !== null && isUnused) await removeCode(code);
  }
}

/** Removes the code that no version of a registered app leads to: before anything is served, while nothing adds to it. */
export async function sweepMaterialized(layout: Layout, store: CodeStorePaths): Promise<void> {
  const used = new Map<string, Set<string>>();
  for (const sha of await namesIn(store.mainDir)) {
    const apps = join(store.mainDir, sha, 'apps');
    for (const id of await namesIn(apps)) {
      const known = used.get(id) ?? (await linkedCode(layout, id));
      used.set(id, known);
      if (known.has(await realpath(join(apps, id)))) continue;
      await removeCode(join(apps, id));
    }
    await removeEmpty(apps);
  }
}

/** Removes the code of a removed app. */
export async function removeMaterialized(store: CodeStorePaths, id: string): Promise<void> {
  for (const sha of await namesIn(store.mainDir)) {
    const code = join(store.mainDir, sha, 'apps', id);
    // The folder of another commit is empty for a moment while the code of its app moves there or away.
    if (await isThere(code)) await removeCode(code);
  }
}

async function linkedCode(layout: Layout, id: string): Promise<Set<string>> {
  const linked = new Set<string>();
  if (!isAppId(id)) return linked;
  const { versionsDir } = layout.app(id);
  for (const name of await namesIn(versionsDir)) {
    const code = await linkedTo(join(versionsDir, name));
    if (code !== null) linked.add(code);
  }
  return linked;
}

/** The link appears atomically, and stays right when the data directory is moved as a whole. */
async function link(path: string, to: string): Promise<void> {
  // A fixed name: the next try replaces what a crash left.
  const temporary = join(dirname(path), `.${basename(path)}.tmp`);
  await rm(temporary, { recursive: true, force: true });
  await symlink(relative(await realpath(dirname(path)), await realpath(to)), temporary);
  await rename(temporary, path);
  await syncDir(dirname(path));
}

/** `<sha>/apps/<id>`, and the folders above it that are then empty. */
async function removeCode(code: string): Promise<void> {
  await rm(code, { recursive: true, force: true });
  await removeEmpty(dirname(code));
}
