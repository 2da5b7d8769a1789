/** The plain files of an app: reads a folder that is to be committed, and writes what is in the repository. */
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SvcError } from '../../../protocol/errors.ts';
import type { GitFile } from '../../../protocol/git-jobs.ts';
import { objectId } from '../../../storage/git/object.ts';
import type { ObjectStore } from '../../../storage/git/object-store.ts';
import { ArchiveRules, entryTypeError } from '../archive-rules.ts';
import { makeFolder, writeNewFile } from '../files.ts';
import { isMomentary } from '../worktree.ts';

/** Path inside the app → the file's content and its id. */
export type AppFiles = Map<string, { id: string; content: Buffer }>;

/** Reads the folder by the rules for archives. Throws their errors, with the file in `path`. */
export function readFolder(folder: string): AppFiles {
  const rules = new ArchiveRules('The app');
  const files: AppFiles = new Map();
  const walk = (prefix: string): void => {
    for (const entry of readdirSync(join(folder, prefix), { withFileTypes: true })) {
      if (isMomentary(entry)) continue;
      const path = prefix + entry.name;
      if (entry.isDirectory()) {
        rules.admit({ path, type: 'Directory', size: 0 });
        walk(`${path}/`);
      } else if (entry.isFile()) {
        const file = join(folder, path);
        rules.admit({ path, type: 'File', size: lstatSync(file).size });
        const content = readFileSync(file);
        files.set(path, { id: objectId('blob', content), content });
      } else throw entryTypeError(path, entry.isSymbolicLink() ? 'SymbolicLink' : 'other', 'The app');
    }
  };
  walk('');
  return files;
}

/** Reads these files of the repository, path → id, by the same rules. */
export async function readFiles(objects: ObjectStore, ids: Map<string, string>): Promise<AppFiles> {
  const files: AppFiles = new Map();
  for (const [path, id] of ids) files.set(path, { id, content: await objects.readAs('blob', id) });
  return files;
}

/** Writes the files into a folder that is empty or missing. A name that could mean another place is refused before. */
export function writeFolder(to: string, files: AppFiles): GitFile[] {
  const rules = new ArchiveRules('The app');
  for (const [path, { content }] of files) {
    if (rules.admit({ path, type: 'File', size: content.length }).path !== path) {
      throw new SvcError('ARCHIVE_PATH', 'The repository has a file whose name is not permitted.', { path });
    }
  }
  makeFolder(to);
  for (const [path, { content }] of files) writeNewFile(join(to, path), content);
  return listed(files);
}

/** Sorted by path. */
export function listed(files: AppFiles): GitFile[] {
  return [...files]
    .map(([path, { id, content }]) => ({ path, size: content.length, sha: id }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}
