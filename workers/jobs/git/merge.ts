/** Merges a session's files of an app and what `main` has: onto `main` to publish them, or into the session to bring it up to date. */
import type { MergeAppJob, MergeAppResult, UpdateAppJob, UpdateAppResult } from '../../../protocol/git-jobs.ts';
import { objectId } from '../../../storage/git/object.ts';
import { Repository } from '../../../storage/git/repository.ts';
import { filesOf } from '../../../storage/git/tree.ts';
import { syncTree } from '../../../storage/sync-tree.ts';
import { type AppFiles, readFolder, writeFolder } from './folder.ts';
import { type FileIds, markConflicts, mergeFiles } from './merge-files.ts';
import { mergeMarked, mergeText } from './merge-text.ts';
import { hasMarks } from './text.ts';

/** The result is written to `to` when there is no conflict. Throws the errors of archives, and `STORE_DAMAGED`. */
export async function mergeApp(job: MergeAppJob): Promise<MergeAppResult> {
  const { main, base, published, session, read, keep } = await open(job);
  const unresolved: string[] = [];
  for (const path of changedFiles(published, session)) {
    const id = session.get(path);
    if (id !== undefined && hasMarks(await read(id))) unresolved.push(path);
  }
  if (unresolved.length > 0) return { unresolved };
  const tools = { read, keep, mergeText };
  const { conflicts, files } = await mergeFiles({ base, ours: published, theirs: session }, tools);
  if (conflicts.length > 0) return { conflicts };
  await write(job.to, files, read);
  const without = (side: FileIds): string[] => [...files.keys()].filter((path) => !side.has(path)).sort();
  return {
    changed: changedFiles(published, files).length > 0,
    main,
    added: without(published),
    lacking: without(session),
  };
}

/** The session's files with what was published since are written to `to`. Throws the errors of archives, and `STORE_DAMAGED`. */
export async function updateApp(job: UpdateAppJob): Promise<UpdateAppResult> {
  const { main, base, published, session, read, keep } = await open(job);
  const sides = { base, ours: session, theirs: published };
  const merged = await mergeFiles(sides, { read, keep, mergeText });
  const files = await markConflicts(sides, merged, { read, keep, mergeMarked });
  await write(job.to, files, read);
  await syncTree(job.to);
  const inConflict = new Set(merged.conflicts);
  const taken = changedFiles(session, files).filter((path) => !inConflict.has(path));
  return { main, merged: taken, conflicts: merged.conflicts };
}

type Opened = {
  main: string;
  base: FileIds;
  published: FileIds;
  session: FileIds;
  /** Of the repository only what is needed is read: mostly that is what another session published meanwhile. */
  read: (id: string) => Promise<Buffer>;
  keep: (content: Buffer) => string;
};

async function open({ app, base, folder, ...job }: MergeAppJob): Promise<Opened> {
  const repository = new Repository(job.repository);
  const main = repository.main();
  const published = await idsAt(repository, main, app);
  const session = readFolder(folder);
  // Of an app that is not on main any more nobody's change can be in the way: all that the session has of it is new.
  const isGone = base === null || published.size === 0;
  const contents = new Map([...session.values()].map(({ id, content }) => [id, content]));
  return {
    main,
    base: isGone ? new Map() : await idsAt(repository, base, app),
    published,
    session: new Map([...session].map(([path, { id }]) => [path, id])),
    read: async (id) => contents.get(id) ?? repository.objects.readAs('blob', id),
    keep: (content) => {
      const id = objectId('blob', content);
      contents.set(id, content);
      return id;
    },
  };
}

async function write(to: string, files: FileIds, read: Opened['read']): Promise<void> {
  const merged: AppFiles = new Map();
  for (const [path, id] of files) merged.set(path, { id, content: await read(id) });
  writeFolder(to, merged);
}

/** Sorted paths of the files that one has and the other has not, or not the same. */
function changedFiles(before: FileIds, after: FileIds): string[] {
  const paths = new Set([...before.keys(), ...after.keys()]);
  return [...paths].filter((path) => before.get(path) !== after.get(path)).sort();
}

async function idsAt(repository: Repository, commit: string, app: string): Promise<Map<string, string>> {
  const tree = await repository.appTree(commit, app);
  return tree === null ? new Map() : filesOf(repository.objects, tree);
}
