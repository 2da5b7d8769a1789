/**
 * Trees: the folders of a commit. They are read and made from the bytes that were checked against the id, not by isomorphic-git,
 * which would change modes that it does not expect.
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { damagedObject } from './object.ts';
import type { ObjectStore } from './object-store.ts';

const FILE_MODE = '100644';
const FOLDER_MODE = '40000';
/** What git writes for files, with and without a bit that apps have no use for. */
const FILE_MODES = new Set([FILE_MODE, '100755', '100664']);
/** Deeper folders are not made by anything that keeps to the rules for names. */
const MAX_DEPTH = 128;

export type TreeEntry = { mode: string; name: string; id: string };

export function parseTree(id: string, content: Buffer): TreeEntry[] {
  const entries: TreeEntry[] = [];
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at);
    const end = content.indexOf(0, space);
    if (space < 0 || end < 0 || end + 21 > content.length) throw damagedObject(id, 'is no whole tree');
    entries.push({
      mode: content.toString('latin1', at, space),
      name: content.toString('utf8', space + 1, end),
      id: content.toString('hex', end + 1, end + 21),
    });
    at = end + 21;
  }
  return entries;
}

/** In the order of git, which sorts a folder as if its name ended with a slash. */
export function serializeTree(entries: TreeEntry[]): Buffer {
  const keyed = entries.map((entry) => ({
    entry,
    key: Buffer.from(entry.mode === FOLDER_MODE ? `${entry.name}/` : entry.name),
  }));
  keyed.sort((a, b) => a.key.compare(b.key));
  return Buffer.concat(
    keyed.flatMap(({ entry }) => [Buffer.from(`${entry.mode} ${entry.name}\0`), Buffer.from(entry.id, 'hex')]),
  );
}

export async function readTree(objects: ObjectStore, id: string): Promise<TreeEntry[]> {
  return parseTree(id, await objects.readAs('tree', id));
}

/** The id of the folder of this name; null when there is none, or a file. */
export function folderIn(entries: TreeEntry[], name: string): string | null {
  return entries.find((entry) => entry.name === name && entry.mode === FOLDER_MODE)?.id ?? null;
}

/** A new tree: the entries with the folder of this name replaced, or removed when `id` is null. */
export function withFolder(
  objects: ObjectStore,
  entries: TreeEntry[],
  name: string,
  id: string | null,
): Promise<string> {
  const others = entries.filter((entry) => entry.name !== name);
  const own = id === null ? [] : [{ mode: FOLDER_MODE, name, id }];
  return objects.put('tree', serializeTree([...others, ...own]));
}

/**
 * Path → id of the content of every file below the tree. Rejects with `ARCHIVE_ENTRY_TYPE` for links and the like, with
 * `ARCHIVE_PATH` for what lies too deep, and with `ARCHIVE_TOO_LARGE`: a few trees that name each other again and again have more
 * files than any disk.
 */
export async function filesOf(objects: ObjectStore, tree: string): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  let entries = 0;
  const walk = async (id: string, prefix: string, depth: number): Promise<void> => {
    if (depth > MAX_DEPTH)
      throw new SvcError('ARCHIVE_PATH', `The repository has a folder nested deeper than ${MAX_DEPTH} levels here.`, {
        path: prefix.slice(0, LIMITS.archiveNameBytes),
      });
    for (const { mode, name, id: child } of await readTree(objects, id)) {
      const path = prefix + name;
      if (++entries > LIMITS.archiveEntries)
        throw new SvcError('ARCHIVE_TOO_LARGE', `The app has more than ${LIMITS.archiveEntries} entries.`, { path });
      if (mode === FOLDER_MODE) await walk(child, `${path}/`, depth + 1);
      else if (FILE_MODES.has(mode)) files.set(path, child);
      else
        throw new SvcError('ARCHIVE_ENTRY_TYPE', 'The repository has a link here; only files are allowed.', { path });
    }
  };
  await walk(tree, '', 0);
  return files;
}

/** Writes the trees of these files, path → id of the content; returns the id of the topmost. */
export function writeTree(objects: ObjectStore, files: Map<string, string>): Promise<string> {
  const root: Folder = { files: new Map(), folders: new Map() };
  for (const [path, id] of files) {
    const segments = path.split('/');
    const name = segments.pop()!;
    let folder = root;
    for (const segment of segments) {
      let next = folder.folders.get(segment);
      if (next === undefined) {
        next = { files: new Map(), folders: new Map() };
        folder.folders.set(segment, next);
      }
      folder = next;
    }
    folder.files.set(name, id);
  }
  return writeFolder(objects, root);
}

type Folder = { files: Map<string, string>; folders: Map<string, Folder> };

async function writeFolder(objects: ObjectStore, { files, folders }: Folder): Promise<string> {
  const entries: TreeEntry[] = [...files].map(([name, id]) => ({ mode: FILE_MODE, name, id }));
  for (const [name, folder] of folders)
    entries.push({ mode: FOLDER_MODE, name, id: await writeFolder(objects, folder) });
  return objects.put('tree', serializeTree(entries));
}
