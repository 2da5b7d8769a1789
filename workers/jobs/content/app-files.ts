/** Reads the files of an app from a folder or the repository, and writes them, by the rules for archives. */
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  type Stats,
} from 'node:fs';
import { join } from 'node:path';
import { SvcError } from '../../../protocol/errors.ts';
import { ArchiveRules, entryTypeError } from '../../../protocol/rules/archive-rules.ts';
import type { GitFile } from '../../../protocol/wire/git-jobs.ts';
import { isMissing } from '../../../storage/files/atomic-file.ts';
import { isMomentary } from '../../../storage/files/folder-changes.ts';
import { objectId } from '../../../storage/git/object.ts';
import type { ObjectStore } from '../../../storage/git/object-store.ts';
import type { ExtractedFile } from './extracted.ts';
import { makeFolder, writeNewFile } from './files.ts';

/** `path` is relative with `/`. */
export type AppFile = { path: string; content: Buffer };

/** Path → content and its id in git. */
export type GitFiles = Map<string, { id: string; content: Buffer }>;

/** Follows no link, and does not wait for a pipe. */
const PLAINLY = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Reads the folder, sorted by path. Throws the errors of archives, with the file in `path`. A file that goes meanwhile is left out. */
export function readFolder(folder: string): AppFile[] {
  const rules = new ArchiveRules('The app');
  const files: AppFile[] = [];
  const visit = (below: string): void => {
    for (const entry of readdirSync(join(folder, below), { withFileTypes: true })) {
      if (isNothing(entry, join(folder, below))) continue;
      const path = below === '' ? entry.name : `${below}/${entry.name}`;
      try {
        const found = lstatSync(join(folder, path));
        const type = typeOf(found);
        rules.admit({ path, type, size: found.size });
        if (type === 'Directory') visit(path);
        else files.push({ path, content: readPlain(folder, path) });
      } catch (error) {
        if (!isMissing(error) && !isLink(error)) throw error;
      }
    }
  };
  visit('');
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Git has no empty folders. Sandboxes of agents make some, with names that are not permitted. */
function isNothing(entry: Dirent, parent: string): boolean {
  if (isMomentary(entry)) return true;
  if (!entry.isDirectory()) return false;
  try {
    return readdirSync(join(parent, entry.name)).length === 0;
  } catch (error) {
    if (isMissing(error)) return true;
    throw error;
  }
}

function typeOf(found: Stats): string {
  if (found.isDirectory()) return 'Directory';
  if (found.isFile()) return 'File';
  return found.isSymbolicLink() ? 'SymbolicLink' : 'special';
}

export function hashed(file: AppFile): AppFile & ExtractedFile {
  const { content } = file;
  return { ...file, bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}

export function gitFiles(files: AppFile[]): GitFiles {
  return new Map(files.map(({ path, content }) => [path, { id: objectId('blob', content), content }]));
}

/** Its type may have changed since the check. */
function readPlain(folder: string, path: string): Buffer {
  const fd = openSync(join(folder, path), PLAINLY);
  try {
    if (!fstatSync(fd).isFile()) throw entryTypeError(path, 'special', 'The app');
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

function isLink(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === 'ELOOP';
}

/** Reads these files of the repository, path → id, by the same rules. */
export async function readFiles(objects: ObjectStore, ids: Map<string, string>): Promise<GitFiles> {
  const files: GitFiles = new Map();
  for (const [path, id] of ids) files.set(path, { id, content: await objects.readAs('blob', id) });
  return files;
}

/** Writes the files into a folder that is empty or missing. Names that could lead elsewhere are refused before. */
export function writeFolder(to: string, files: GitFiles): GitFile[] {
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
export function listed(files: GitFiles): GitFile[] {
  return [...files]
    .map(([path, { id, content }]) => ({ path, size: content.length, sha: id }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}
