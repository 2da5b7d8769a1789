/** Arranges the files of an app as a tree, and finds what a draft changes in them. Pure. */
import type { CodeFile } from './code-workspace.ts';

export type Status = 'added' | 'changed' | 'deleted';
export type TreeFile = { name: string; path: string; status: Status | null };
/** The one at the top has the path ''. `isChanged`: something in it or below it is. */
export type TreeFolder = { name: string; path: string; folders: TreeFolder[]; files: TreeFile[]; isChanged: boolean };

/** Folders come before files, both by name. With `live`, the files of the live version, deleted files are among them. */
export function treeOf(files: readonly CodeFile[], live: readonly CodeFile[] | null): TreeFolder {
  const root: TreeFolder = { name: '', path: '', folders: [], files: [], isChanged: false };
  for (const [path, status] of statusesOf(files, live)) {
    const names = path.split('/');
    const name = names.pop() ?? '';
    let folder = root;
    folder.isChanged ||= status !== null;
    for (const part of names) {
      folder = folderIn(folder, part);
      folder.isChanged ||= status !== null;
    }
    folder.files.push({ name, path, status });
  }
  sort(root);
  return root;
}

/** By path; null for a file as it is in the live version, or where there is none to compare with. */
export function statusesOf(files: readonly CodeFile[], live: readonly CodeFile[] | null): Map<string, Status | null> {
  const before = new Map(live?.map(({ path, sha }) => [path, sha]));
  const statuses = new Map<string, Status | null>();
  for (const { path, sha } of files) {
    const was = before.get(path);
    statuses.set(path, live === null || was === sha ? null : was === undefined ? 'added' : 'changed');
  }
  for (const path of before.keys()) if (!statuses.has(path)) statuses.set(path, 'deleted');
  return statuses;
}

function folderIn(parent: TreeFolder, name: string): TreeFolder {
  const known = parent.folders.find((one) => one.name === name);
  if (known) return known;
  const path = parent.path === '' ? name : `${parent.path}/${name}`;
  const made: TreeFolder = { name, path, folders: [], files: [], isChanged: false };
  parent.folders.push(made);
  return made;
}

function sort({ folders, files }: TreeFolder): void {
  const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
  folders.sort(byName).forEach(sort);
  files.sort(byName);
}
