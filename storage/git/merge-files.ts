/** Merges the files of an app three ways, by their ids in git: what the jobs and the command line have in common. Pure but for `read` and `keep`. */
import { asText, mergeMarked, mergeText } from './merge-text.ts';

/** Path → id of the content. */
export type FileIds = ReadonlyMap<string, string>;
export type Sides = { base: FileIds; ours: FileIds; theirs: FileIds };

export type Contents = {
  /** Reads only the needed objects: mostly what another workspace published meanwhile. */
  read: (id: string) => Promise<Buffer>;
  /** Takes the content of a merged file and returns its id. */
  keep: (content: Buffer) => string;
};

/** Sorted paths of the files that differ. */
export function changedFiles(before: FileIds, after: FileIds): string[] {
  const paths = new Set([...before.keys(), ...after.keys()]);
  return [...paths].filter((path) => before.get(path) !== after.get(path)).sort();
}

/** `conflicts` are sorted paths; `files` is the result when there are none. */
export async function mergeFiles(
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
export async function markConflicts(
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
