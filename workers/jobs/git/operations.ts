/** Implements the jobs on the repository of the git store; each opens it and closes it again. */
import { statSync } from 'node:fs';
import { LIMITS } from '../../../protocol/limits.ts';
import type { GitJob, GitOperations } from '../../../protocol/wire/git-jobs.ts';
import { exists, syncTree } from '../../../storage/files/atomic-file.ts';
import { readBundle, writeBundle } from '../../../storage/git/bundle.ts';
import {
  commitTree,
  listVersions,
  nextNumber,
  retire,
  revive,
  settle,
  tagOnly,
  versionNumbers,
} from '../../../storage/git/git-versions.ts';
import { PACK_LIMITS, packLoose } from '../../../storage/git/packing.ts';
import { HEADS } from '../../../storage/git/refs.ts';
import { create, filesOf, openRepository, Repository, writeTree } from '../../../storage/git/repository.ts';
import { takeAll, writeNew } from '../../../storage/git/transfer.ts';
import { gitFiles, listed, readFiles, readFolder, writeFolder } from '../content/app-files.ts';

type Result = GitOperations[keyof GitOperations]['result'];
type Operations = {
  [O in keyof GitOperations]: (job: GitOperations[O]['job']) => Promise<GitOperations[O]['result']>;
};

export const git: Operations = {
  async openRepository({ repository, author, at, existing = false }) {
    return { main: await openRepository(repository, { author, at }, existing) };
  },

  async commitApp({ app, folder, message, author, at, always = false, ...job }) {
    const repository = new Repository(job.repository);
    const main = repository.main();
    const tree = folder === null ? null : await putFolder(repository, main, app, folder);
    return commitTree(repository, { main, app, tree, message, by: { author, at }, always });
  },

  async commitTree({ app, from, message, author, at, ...job }) {
    const repository = new Repository(job.repository);
    const tree = await repository.appTree(await repository.resolve(from), app);
    return commitTree(repository, { main: repository.main(), app, tree, message, by: { author, at } });
  },

  async settle({ repository, app, commit, tag, author, at }) {
    return { main: await settle(new Repository(repository), { app, commit, tag, by: { author, at } }) };
  },

  async tagOnly({ repository, commit, tag, author, at }) {
    await tagOnly(new Repository(repository), commit, tag, { author, at });
  },

  listVersions: ({ repository, app, ...page }) => listVersions(new Repository(repository), app, page),

  nextNumber: async ({ repository, app }) => ({ number: nextNumber(new Repository(repository), app) }),

  retire: async ({ repository, app, tag }) => ({ retired: await retire(new Repository(repository), app, tag) }),

  versionNumbers: async ({ repository, app }) => ({ numbers: versionNumbers(new Repository(repository), app) }),

  revive: async ({ repository, app, numbers }) => ({ revived: await revive(new Repository(repository), app, numbers) }),

  async checkout({ app, from, to, durable = false, ...job }) {
    const repository = new Repository(job.repository);
    const commit = await repository.resolve(from);
    const tree = await repository.appTree(commit, app);
    if (tree === null) return { commit: null, files: [] };
    const files = await readFiles(repository.objects, await filesOf(repository.objects, tree));
    writeFolder(to, files);
    if (durable) await syncTree(to);
    return { commit, files: listed(files) };
  },

  async treeOf({ app, from, ...job }) {
    const repository = new Repository(job.repository);
    const commit = await repository.resolve(from);
    const tree = await repository.appTree(commit, app);
    if (tree === null) return { commit, files: null };
    return { commit, files: listed(await readFiles(repository.objects, await filesOf(repository.objects, tree))) };
  },

  // Loaded on use, as they bring more packages.
  mergeApp: async (job) => (await import('./merge.ts')).mergeApp(job),
  updateApp: async (job) => (await import('./merge.ts')).updateApp(job),
  diffApp: async (job) => (await import('./diff.ts')).diffApp(job),

  async branch({ repository, name, to }) {
    const { refs } = new Repository(repository);
    const ref = HEADS + name;
    if (to === null) await refs.remove([ref]);
    else await refs.put(ref, to);
  },

  async branches({ repository, prefix, branches }) {
    const { refs } = new Repository(repository);
    const there = refs.list(HEADS + prefix);
    const wanted = new Map(Object.entries(branches).map(([name, to]) => [HEADS + prefix + name, to]));
    for (const [ref, to] of wanted) if (there.get(ref) !== to) await refs.set(ref, to, there.get(ref) ?? null);
    const leaving = [...there.keys()].filter((ref) => !wanted.has(ref));
    if (leaving.length > 0) await refs.remove(leaving);
  },

  async exportBundle({ repository, to }) {
    const written = await writeBundle(new Repository(repository), to);
    return { ...written, bytes: statSync(to).size };
  },

  async importBundle({ repository: path, from }) {
    const read = await readBundle(new Repository(path), path, from);
    // Opened again: its refs and objects have changed.
    const repository = new Repository(path);
    const apps: { id: string; tag: string | null }[] = [];
    for (const id of await repository.appIds(read.main))
      apps.push({ id, tag: await tagOnMain(repository, read.main, id) });
    return { ...read, apps };
  },

  writeObjects: async ({ repository, tips, known, to }) => ({
    ids: await writeNew(new Repository(repository), tips, known, to),
  }),

  async takeObjects({ repository, from }) {
    if (!(await exists(repository))) await create(repository);
    return { taken: await takeAll(new Repository(repository).objects, from) };
  },

  packLoose: ({ repository }) => packLoose(repository, PACK_LIMITS),
};

export function runGit(job: GitJob): Promise<Result> {
  const operation = git[job.operation] as (job: GitJob) => Promise<Result>;
  return operation(job);
}

/** The folder's tree. Does not check files again that `main` has. */
async function putFolder(repository: Repository, main: string, app: string, folder: string): Promise<string> {
  const { objects } = repository;
  const before = await repository.appTree(main, app);
  const known = new Set(before === null ? [] : (await filesOf(objects, before)).values());
  const ids = new Map<string, string>();
  for (const [path, { id, content }] of gitFiles(readFolder(folder))) {
    if (!known.has(id) || !(await objects.has(id))) await objects.put('blob', content);
    ids.set(path, id);
  }
  return writeTree(objects, ids);
}

/** The newest tag with the files that `main` has of the app. */
async function tagOnMain(repository: Repository, main: string, app: string): Promise<string | null> {
  const tree = await repository.appTree(main, app);
  const { versions } = await listVersions(repository, app, { limit: LIMITS.listRowsMax, before: null });
  for (const { tag, commit } of versions) if ((await repository.appTree(commit, app)) === tree) return tag;
  return null;
}
