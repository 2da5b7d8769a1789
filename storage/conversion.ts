/**
 * Moves the apps of a data directory from the tarball backend to a git store, with their versions. The store is made beside its
 * place; the rename into its place decides, then `finishConversion` names versions by their tags, also after a crash.
 */
import { readFile, rm } from 'node:fs/promises';
import { relative, sep } from 'node:path';
import { versionTag } from '../protocol/ids.ts';
import type { VersionSummary } from '../protocol/manifest.ts';
import { isRecord } from '../protocol/shapes/shape.ts';
import type { GitAuthor } from '../protocol/wire/git-jobs.ts';
import { openJournal } from './apps/earlier-notes.ts';
import { listIntents } from './apps/journal.ts';
import { writeStoreMark } from './apps/linked-code.ts';
import { readEntries } from './apps/registry.ts';
import { listVersions, readCurrent, storedVersions, writeCurrent } from './apps/versions.ts';
import { exists, readJson, removeDurable, renameDurable, writeFileAtomic } from './files/atomic-file.ts';
import { listTree, pathOf } from './files/list-tree.ts';
import { commitTree, settle } from './git/git-versions.ts';
import { openRepository, Repository, writeTree } from './git/repository.ts';
import { type AppPaths, CodeStorePaths, type Layout } from './layout.ts';

/** By app: the id of each version on the tarball backend → its tag. */
type Renamed = Record<string, Record<string, string>>;

/** Thrown when a gateway was interrupted: a start on the tarball backend repairs that. */
export class NotSettledError extends Error {}

/**
 * `layout` names the new store, whose place is empty; no other process uses the directory. Returns how many apps and versions
 * moved. Rejects with `NotSettledError` where a gateway was interrupted; a failure before the rename leaves the directory
 * unchanged.
 */
export async function convertToGit(
  layout: Layout,
  paths: CodeStorePaths,
  author: GitAuthor,
): Promise<{ apps: number; versions: number }> {
  const making = new CodeStorePaths(`${paths.dir}.tmp`);
  await rm(making.dir, { recursive: true, force: true });
  try {
    const entries = await readEntries(layout.registry);
    if (entries === null) throw new NotSettledError('The list of apps is missing or damaged.');
    await openJournal(layout);
    for (const id of await listIntents(layout)) throw cutOff(id);
    await openRepository(making.repository, { author, at: Date.now() });
    const repository = new Repository(making.repository);
    const renamed: Renamed = {};
    for (const id of [...entries.keys()].sort()) {
      renamed[id] = await commitVersions(repository, id, layout.app(id), author);
    }
    await writeFileAtomic(making.conversion, `${JSON.stringify(renamed)}\n`);
    await renameDurable(making.dir, paths.dir);
    await finishConversion(layout, paths);
    const versions = Object.values(renamed).reduce((sum, ids) => sum + Object.keys(ids).length, 0);
    return { apps: entries.size, versions };
  } catch (error) {
    await rm(making.dir, { recursive: true, force: true });
    throw error;
  }
}

function cutOff(id: string): NotSettledError {
  return new NotSettledError(`A change of "${id}" was cut off.`);
}

/** Continues a conversion whose store is in place; does nothing without one. */
export async function finishConversion(layout: Layout, paths: CodeStorePaths): Promise<void> {
  if (!(await exists(paths.conversion))) return;
  const renamed = (await readJson(paths.conversion)) as Renamed;
  await writeStoreMark(layout, paths.dir);
  for (const [id, versions] of Object.entries(renamed)) await renameVersions(layout.app(id), versions);
  await removeDurable(paths.conversion);
}

/** Commits and tags the versions, the oldest first; `main` then has the one that is live. */
async function commitVersions(
  repository: Repository,
  id: string,
  app: AppPaths,
  author: GitAuthor,
): Promise<Record<string, string>> {
  const current = await readCurrent(app);
  if (current === 'damaged') throw cutOff(id);
  const renamed: Record<string, string> = {};
  const live = { tree: null as string | null, message: `Remove ${id}\n`, at: Date.now() };
  const versions = (await listVersions(app)).reverse();
  if (versions.length < (await storedVersions(app)).length)
    throw new NotSettledError(`What was prepared of a version of "${id}" is damaged.`);
  for (const [i, version] of versions.entries()) {
    const tag = versionTag(id, i + 1);
    const title = `${version.name} ${version.version}`;
    const by = { author, at: version.uploadedAt };
    const tree = await putFiles(repository, app.version(version.versionId).code);
    const message = `${version.message ?? title}\n\nVersion: ${tag}\n`;
    const { commit } = await commitTree(repository, {
      main: repository.main(),
      app: id,
      tree,
      message,
      by,
      always: true,
    });
    await settle(repository, { app: id, commit, tag: { name: tag, message: title, info: infoOf(version) }, by });
    renamed[version.versionId] = tag;
    if (version.versionId === current?.activeVersion)
      Object.assign(live, { tree, message: `Activate ${tag}\n`, at: current.activatedAt });
  }
  const by = { author, at: live.at };
  const order = { main: repository.main(), app: id, tree: live.tree, message: live.message, by };
  const { commit, unchanged } = await commitTree(repository, order);
  if (!unchanged) await settle(repository, { app: id, commit, tag: null, by });
  return renamed;
}

function infoOf({ sha256, version, uploadedAt, files, bytes, by }: VersionSummary) {
  const at = new Date(uploadedAt).toISOString();
  return { sha256, version, uploadedAt: at, files, bytes, ...(by !== undefined && { by }) };
}

/** The id of the folder's tree. */
async function putFiles(repository: Repository, folder: string): Promise<string> {
  const files = new Map<string, string>();
  for (const entry of await listTree(folder)) {
    if (!entry.isFile()) continue;
    const path = pathOf(entry);
    const id = await repository.objects.put('blob', await readFile(path));
    files.set(relative(folder, path).split(sep).join('/'), id);
  }
  return writeTree(repository.objects, files);
}

/** The files show which steps were done. */
async function renameVersions(app: AppPaths, versions: Record<string, string>): Promise<void> {
  for (const [versionId, tag] of Object.entries(versions)) {
    const [from, to] = [app.version(versionId), app.version(tag)];
    if (await exists(from.prepared)) {
      const summary = await readJson(from.summary, null);
      if (isRecord(summary)) await writeFileAtomic(from.summary, JSON.stringify({ ...summary, versionId: tag }));
      await renameDurable(from.prepared, to.prepared);
    }
    if (await exists(from.code)) await renameDurable(from.code, to.code);
  }
  const current = await readCurrent(app);
  if (current === null || current === 'damaged') return;
  const activeVersion = versions[current.activeVersion];
  if (activeVersion !== undefined) await writeCurrent(app, { ...current, activeVersion });
}
