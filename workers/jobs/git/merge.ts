/** Merges a workspace's files of an app with `main`: onto `main` to publish them, or into the workspace to update it. */
import type { MergeAppJob, MergeAppResult, UpdateAppResult } from '../../../protocol/wire/git-jobs.ts';
import { fingerprint } from '../../../storage/authoring/workspace-records.ts';
import { syncTree } from '../../../storage/files/atomic-file.ts';
import {
  type Contents,
  changedFiles,
  type FileIds,
  markConflicts,
  mergeFiles,
} from '../../../storage/git/merge-files.ts';
import { hasMarks } from '../../../storage/git/merge-text.ts';
import { objectId } from '../../../storage/git/object.ts';
import { filesOf, Repository } from '../../../storage/git/repository.ts';
import { type GitFiles, gitFiles, readFolder, writeFolder } from '../content/app-files.ts';

/** The result is written to `to` when there is no conflict. Throws the errors of archives, and `STORE_DAMAGED`. */
export async function mergeApp(job: MergeAppJob): Promise<MergeAppResult> {
  const { main, base, published, workspace, read, keep } = await open(job);
  const unresolved: string[] = [];
  for (const path of changedFiles(published, workspace)) {
    const id = workspace.get(path);
    if (id !== undefined && hasMarks(await read(id))) unresolved.push(path);
  }
  if (unresolved.length > 0) return { unresolved };
  const { conflicts, files } = await mergeFiles({ base, ours: published, theirs: workspace }, { read, keep });
  if (conflicts.length > 0) return { conflicts };
  await write(job.to, files, read);
  const without = (side: FileIds): string[] => [...files.keys()].filter((path) => !side.has(path)).sort();
  return {
    changed: changedFiles(published, files).length > 0,
    main,
    added: without(published),
    lacking: without(workspace),
    sent: {
      files: fingerprint([...workspace].map(([path, sha]) => ({ path, sha }))),
      same: changedFiles(workspace, files).length === 0,
    },
  };
}

/** The workspace's files with what was published since are written to `to`. Throws the errors of archives, and `STORE_DAMAGED`. */
export async function updateApp(job: MergeAppJob): Promise<UpdateAppResult> {
  const { main, base, published, workspace, read, keep } = await open(job);
  const sides = { base, ours: workspace, theirs: published };
  const merged = await mergeFiles(sides, { read, keep });
  const files = await markConflicts(sides, merged, { read, keep });
  await write(job.to, files, read);
  await syncTree(job.to);
  const inConflict = new Set(merged.conflicts);
  const taken = changedFiles(workspace, files).filter((path) => !inConflict.has(path));
  return { main, merged: taken, conflicts: merged.conflicts };
}

type Opened = Contents & { main: string; base: FileIds; published: FileIds; workspace: FileIds };

async function open({ app, base, folder, ...job }: MergeAppJob): Promise<Opened> {
  const repository = new Repository(job.repository);
  const main = repository.main();
  const published = await idsAt(repository, main, app);
  const workspace = gitFiles(readFolder(folder));
  // When the app is no longer on main there is no conflict: all files of the workspace are new.
  const isGone = base === null || published.size === 0;
  const contents = new Map([...workspace.values()].map(({ id, content }) => [id, content]));
  return {
    main,
    base: isGone ? new Map() : await idsAt(repository, base, app),
    published,
    workspace: new Map([...workspace].map(([path, { id }]) => [path, id])),
    read: async (id) => contents.get(id) ?? repository.objects.readAs('blob', id),
    keep: (content) => {
      const id = objectId('blob', content);
      contents.set(id, content);
      return id;
    },
  };
}

async function write(to: string, files: FileIds, read: Opened['read']): Promise<void> {
  const merged: GitFiles = new Map();
  for (const [path, id] of files) merged.set(path, { id, content: await read(id) });
  writeFolder(to, merged);
}

async function idsAt(repository: Repository, commit: string, app: string): Promise<Map<string, string>> {
  const tree = await repository.appTree(commit, app);
  return tree === null ? new Map() : filesOf(repository.objects, tree);
}
