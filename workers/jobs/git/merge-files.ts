/** Three-way merge of the files of an app. */
import { asText } from './text.ts';

/** Path → id of the content. */
export type FileIds = ReadonlyMap<string, string>;
export type Sides = { base: FileIds; ours: FileIds; theirs: FileIds };

export type MergeTools = {
  read: (id: string) => Promise<Buffer>;
  /** Takes the content of a merged file and returns its id. */
  keep: (content: Buffer) => string;
  /** Null when the changes meet. */
  mergeText: (base: string, ours: string, theirs: string) => string | null;
};

/** How conflicts are settled, so that all of both sides can be seen. */
export type MarkTools = Pick<MergeTools, 'read' | 'keep'> & {
  mergeMarked: (base: string, ours: string, theirs: string) => string;
};

/** `conflicts` are sorted paths; `files` is the result when there are none. */
export async function mergeFiles(
  { base, ours, theirs }: Sides,
  tools: MergeTools,
): Promise<{ conflicts: string[]; files: Map<string, string> }> {
  const files = new Map<string, string>();
  const conflicts = new Set<string>();
  for (const path of new Set([...base.keys(), ...ours.keys(), ...theirs.keys()])) {
    const sides = { base: base.get(path), ours: ours.get(path), theirs: theirs.get(path) };
    const merged = await mergeFile(sides, tools);
    if (merged === null) conflicts.add(path);
    else if (merged !== undefined) files.set(path, merged);
  }
  // A path in conflict stays somewhere: what collides with it does so whatever is decided about it.
  for (const path of collisions([...files.keys(), ...conflicts])) conflicts.add(path);
  return { conflicts: [...conflicts].sort(), files };
}

/** The files of `ours` with what the merge made of them: texts in conflict hold both sides, all else in conflict stays as it is there. */
export async function markConflicts(
  { base, ours, theirs }: Sides,
  { conflicts, files }: { conflicts: string[]; files: ReadonlyMap<string, string> },
  { read, keep, mergeMarked }: MarkTools,
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
  { read, keep, mergeText }: MergeTools,
): Promise<string | null | undefined> {
  if (ours === theirs || base === theirs) return ours;
  if (base === ours) return theirs;
  if (base === undefined || ours === undefined || theirs === undefined) return null;
  const [o, a, b] = [asText(await read(base)), asText(await read(ours)), asText(await read(theirs))];
  if (o === null || a === null || b === null) return null;
  const text = mergeText(o, a, b);
  return text === null ? null : keep(Buffer.from(text));
}

/** Paths that cannot be there together: a file and a folder of one name, or names that differ in upper and lower case only. */
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
