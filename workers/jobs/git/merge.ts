/** Merges a session's files of an app with `main`: onto `main` to publish them, or into the session to update it. */
import type { MergeAppJob, MergeAppResult, UpdateAppResult } from '../../../protocol/wire/git-jobs.ts';
import { fingerprint } from '../../../storage/authoring/sessions.ts';
import { syncTree } from '../../../storage/files/atomic-file.ts';
import { objectId } from '../../../storage/git/object.ts';
import { filesOf, Repository } from '../../../storage/git/repository.ts';
import { type GitFiles, gitFiles, readFolder, writeFolder } from '../content/app-files.ts';
import { asText, hasMarks, mergeMarked, mergeText } from './merge-text.ts';

/** The result is written to `to` when there is no conflict. Throws the errors of archives, and `STORE_DAMAGED`. */
export async function mergeApp(job: MergeAppJob): Promise<MergeAppResult> {
  const { main, base, published, session, read, keep } = await open(job);
  const unresolved: string[] = [];
  for (const path of changedFiles(published, session)) {
    const id = session.get(path);
    if (id !== undefined && hasMarks(await read(id))) unresolved.push(path);
  }
  if (unresolved.length > 0) return { unresolved };
  const { conflicts, files } = await mergeFiles({ base, ours: published, theirs: session }, { read, keep });
  if (conflicts.length > 0) return { conflicts };
  await write(job.to, files, read);
  const without = (side: FileIds): string[] => [...files.keys()].filter((path) => !side.has(path)).sort();
  return {
    changed: changedFiles(published, files).length > 0,
    main,
    added: without(published),
    lacking: without(session),
    sent: {
      files: fingerprint([...session].map(([path, sha]) => ({ path, sha }))),
      same: changedFiles(session, files).length === 0,
    },
  };
}

/** The session's files with what was published since are written to `to`. Throws the errors of archives, and `STORE_DAMAGED`. */
export async function updateApp(job: MergeAppJob): Promise<UpdateAppResult> {
  const { main, base, published, session, read, keep } = await open(job);
  const sides = { base, ours: session, theirs: published };
  const merged = await mergeFiles(sides, { read, keep });
  const files = await markConflicts(sides, merged, { read, keep });
  await write(job.to, files, read);
  await syncTree(job.to);
  const inConflict = new Set(merged.conflicts);
  const taken = changedFiles(session, files).filter((path) => !inConflict.has(path));
  return { main, merged: taken, conflicts: merged.conflicts };
}

type Opened = Contents & { main: string; base: FileIds; published: FileIds; session: FileIds };

async function open({ app, base, folder, ...job }: MergeAppJob): Promise<Opened> {
  const repository = new Repository(job.repository);
  const main = repository.main();
  const published = await idsAt(repository, main, app);
  const session = gitFiles(readFolder(folder));
  // When the app is no longer on main there is no conflict: all files of the session are new.
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
  const merged: GitFiles = new Map();
  for (const [path, id] of files) merged.set(path, { id, content: await read(id) });
  writeFolder(to, merged);
}

/** Sorted paths of the files that differ. */
function changedFiles(before: FileIds, after: FileIds): string[] {
  const paths = new Set([...before.keys(), ...after.keys()]);
  return [...paths].filter((path) => before.get(path) !== after.get(path)).sort();
}

async function idsAt(repository: Repository, commit: string, app: string): Promise<Map<string, string>> {
  const tree = await repository.appTree(commit, app);
  return tree === null ? new Map() : filesOf(repository.objects, tree);
}

/** Path → id of the content. */
type FileIds = ReadonlyMap<string, string>;
type Sides = { base: FileIds; ours: FileIds; theirs: FileIds };

type Contents = {
  /** Reads only the needed objects: mostly what another session published meanwhile. */
  read: (id: string) => Promise<Buffer>;
  /** Takes the content of a merged file and returns its id. */
  keep: (content: Buffer) => string;
};

/** `conflicts` are sorted paths; `files` is the result when there are none. */
async function mergeFiles(
  { base, ours, theirs }: Sides,
  contents: Contents,
): Promise<{ conflicts: string[]; files: Map<string, string> }> {
  const files = new Map<string, string>();
  const conflicts = new Set<string>();
  for (const path of new Set([...base.keys(), ...ours.keys(), ...theirs.keys()])) {
    const sides = { base: base.get(path), ours: ours.get(path), theirs: theirs.get(path) };
    const merged = await mergeFile(sides, contents);
    if (merged === null) conflicts.add(path);
    else if (merged !== undefined) files.set(path, merged);
  }
  // A path in conflict stays on one side at least, so that collisions with it count.
  for (const path of collisions([...files.keys(), ...conflicts])) conflicts.add(path);
  return { conflicts: [...conflicts].sort(), files };
}

/**
 * The files of `ours` with what the merge made of them: texts in conflict hold both sides, other files in conflict stay
 * unchanged.
 */
async function markConflicts(
  { base, ours, theirs }: Sides,
  { conflicts, files }: { conflicts: string[]; files: ReadonlyMap<string, string> },
  { read, keep }: Contents,
): Promise<Map<string, string>> {
  const marked = new Map(files);
  for (const path of conflicts) {
    const [left, right] = [ours.get(path), theirs.get(path)];
    if (left === undefined) marked.delete(path);
    else marked.set(path, left);
    if (left === undefined || right === undefined) continue;
    const before = base.get(path);
    const o = before === undefined ? '' : asText(await read(before));
    const [a, b] = [asText(await read(left)), asText(await read(right))];
    if (o !== null && a !== null && b !== null) marked.set(path, keep(Buffer.from(mergeMarked(o, a, b))));
  }
  return marked;
}

/** The id that wins; undefined: the file is gone; null: a conflict. */
async function mergeFile(
  { base, ours, theirs }: Record<'base' | 'ours' | 'theirs', string | undefined>,
  { read, keep }: Contents,
): Promise<string | null | undefined> {
  if (ours === theirs || base === theirs) return ours;
  if (base === ours) return theirs;
  if (base === undefined || ours === undefined || theirs === undefined) return null;
  const [o, a, b] = [asText(await read(base)), asText(await read(ours)), asText(await read(theirs))];
  if (o === null || a === null || b === null) return null;
  const text = mergeText(o, a, b);
  return text === null ? null : keep(Buffer.from(text));
}

/** Paths that cannot coexist: a file and a folder of one name, or names that differ only in case. */
function collisions(paths: string[]): Set<string> {
  const found = new Set<string>();
  const taken = new Map<string, { name: string; isFile: boolean; path: string }>();
  for (const path of paths) {
    const segments = path.split('/');
    for (let depth = 1; depth <= segments.length; depth++) {
      const name = segments.slice(0, depth).join('/');
      const isFile = depth === segments.length;
      const folded = name.normalize('NFC').toLowerCase();
      const other = taken.get(folded);
      if (other === undefined) taken.set(folded, { name, isFile, path });
      else if (other.path !== path && (other.name !== name || other.isFile || isFile)) found.add(path).add(other.path);
    }
  }
  return found;
}
