/** The operations on the repository of the git store; each opens it, and closes it again. */
import type {
  BranchesJob,
  BranchJob,
  CheckoutJob,
  CheckoutResult,
  CommitAppJob,
  CommitResult,
  CommitTreeJob,
  ListVersionsJob,
  ListVersionsResult,
  MainResult,
  NextNumberJob,
  NextNumberResult,
  OpenRepositoryJob,
  PackLooseJob,
  PackLooseResult,
  ReadBlobJob,
  ReadBlobResult,
  RetireJob,
  RetireResult,
  SettleJob,
  TagOnlyJob,
  TreeOfJob,
  TreeOfResult,
} from '../../../protocol/git-jobs.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { openRepository as open } from '../../../storage/git/create.ts';
import { packLoose as pack } from '../../../storage/git/packing.ts';
import { Repository } from '../../../storage/git/repository.ts';
import { settle as settleNames, tagOnly as tagCommit } from '../../../storage/git/settle.ts';
import { filesOf, writeTree } from '../../../storage/git/tree.ts';
import { commitTree as makeCommit } from '../../../storage/git/version-commit.ts';
import { listVersions as list, nextNumber as next, retire as setAside } from '../../../storage/git/versions.ts';
import { syncTree } from '../../../storage/sync-tree.ts';
import { listed, readFiles, readFolder, writeFolder } from './folder.ts';

export async function openRepository({ repository, author, at }: OpenRepositoryJob): Promise<MainResult> {
  return { main: await open(repository, { author, at }) };
}

export async function commitApp(job: CommitAppJob): Promise<CommitResult> {
  const { app, folder, message, author, at, always = false } = job;
  const repository = new Repository(job.repository);
  const main = repository.main();
  const tree = folder === null ? null : await putFolder(repository, main, app, folder);
  return makeCommit(repository, { main, app, tree, message, by: { author, at }, always });
}

/** The folder's tree. What `main` has of the app already is not looked at twice. */
async function putFolder(repository: Repository, main: string, app: string, folder: string): Promise<string> {
  const { objects } = repository;
  const before = await repository.appTree(main, app);
  const known = new Set(before === null ? [] : (await filesOf(objects, before)).values());
  const ids = new Map<string, string>();
  for (const [path, { id, content }] of readFolder(folder)) {
    if (!known.has(id) || !(await objects.has(id))) await objects.put('blob', content);
    ids.set(path, id);
  }
  return writeTree(objects, ids);
}

export async function commitTree(job: CommitTreeJob): Promise<CommitResult> {
  const { app, from, message, author, at } = job;
  const repository = new Repository(job.repository);
  const tree = await repository.appTree(await repository.resolve(from), app);
  return makeCommit(repository, { main: repository.main(), app, tree, message, by: { author, at } });
}

export async function settle(job: SettleJob): Promise<MainResult> {
  const { app, commit, tag, author, at } = job;
  const repository = new Repository(job.repository);
  return { main: await settleNames(repository, { app, commit, tag, by: { author, at } }) };
}

export async function tagOnly({ commit, tag, author, at, ...job }: TagOnlyJob): Promise<MainResult> {
  const repository = new Repository(job.repository);
  await tagCommit(repository, commit, tag, { author, at });
  return { main: repository.main() };
}

export function listVersions({ app, limit, before, ...job }: ListVersionsJob): Promise<ListVersionsResult> {
  return list(new Repository(job.repository), app, { limit, before });
}

export async function nextNumber({ app, ...job }: NextNumberJob): Promise<NextNumberResult> {
  const repository = new Repository(job.repository);
  return { number: next(repository, app) };
}

export async function retire({ app, tag, ...job }: RetireJob): Promise<RetireResult> {
  const repository = new Repository(job.repository);
  return { retired: await setAside(repository, app, tag) };
}

export async function checkout({ app, from, to, durable = false, ...job }: CheckoutJob): Promise<CheckoutResult> {
  const repository = new Repository(job.repository);
  const commit = await repository.resolve(from);
  const tree = await repository.appTree(commit, app);
  if (tree === null) return { commit: null, files: [] };
  const files = await readFiles(repository.objects, await filesOf(repository.objects, tree));
  const written = writeFolder(to, files);
  if (durable) await syncTree(to);
  return { commit, files: written };
}

export async function treeOf({ app, from, ...job }: TreeOfJob): Promise<TreeOfResult> {
  const repository = new Repository(job.repository);
  const commit = await repository.resolve(from);
  const tree = await repository.appTree(commit, app);
  if (tree === null) return { commit, files: null };
  return { commit, files: listed(await readFiles(repository.objects, await filesOf(repository.objects, tree))) };
}

export async function readBlob({ sha, ...job }: ReadBlobJob): Promise<ReadBlobResult> {
  return { content: await new Repository(job.repository).objects.readAs('blob', sha) };
}

export async function branch({ name, to, ...job }: BranchJob): Promise<MainResult> {
  const repository = new Repository(job.repository);
  const ref = `refs/heads/${name}`;
  if (to === null) await repository.refs.remove([ref]);
  else await repository.refs.put(ref, to);
  return { main: repository.main() };
}

export async function branches({ prefix, branches: wanted, ...job }: BranchesJob): Promise<MainResult> {
  const repository = new Repository(job.repository);
  const there = repository.refs.list(`refs/heads/${prefix}`);
  const refs = new Map(Object.entries(wanted).map(([name, to]) => [`refs/heads/${prefix}${name}`, to]));
  for (const [ref, to] of refs) if (there.get(ref) !== to) await repository.refs.set(ref, to, there.get(ref) ?? null);
  const leaving = [...there.keys()].filter((ref) => !refs.has(ref));
  if (leaving.length > 0) await repository.refs.remove(leaving);
  return { main: repository.main() };
}

export function packLoose({ repository }: PackLooseJob): Promise<PackLooseResult> {
  return pack(repository, {
    looseObjects: LIMITS.gitLooseObjects,
    packObjects: LIMITS.gitPackObjects,
    packBytes: LIMITS.gitPackBytes,
    objectBytes: LIMITS.gitPackedObjectBytes,
    joinedPacks: LIMITS.gitJoinedPacks,
    joinedBytes: LIMITS.gitJoinedPackBytes,
  });
}
