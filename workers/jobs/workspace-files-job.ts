/**
 * Lists, reads, writes and removes the files of an app in a workspace, by the rules for archives (specification, "Workspaces").
 * Other programs may edit the folder at the same time. No link is followed.
 */
import { createHash } from 'node:crypto';
import { lstatSync, readFileSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import { ArchiveRules, entryTypeError, pathError } from '../../protocol/rules/archive-rules.ts';
import type { GitFile } from '../../protocol/wire/git-jobs.ts';
import type { FileConditions, WorkspaceFilesJob, WorkspaceFilesResult } from '../../protocol/wire/jobs.ts';
import {
  inParallel,
  isMissing,
  mkdirDurable,
  removeDurable,
  SYNCS_AT_ONCE,
  syncDir,
  syncFile,
  writeFileAtomic,
} from '../../storage/files/atomic-file.ts';
import { isMomentary } from '../../storage/files/folder-changes.ts';
import { listTreeSync, pathOf } from '../../storage/files/list-tree.ts';
import { removeEmpty } from '../../storage/files/remove-empty.ts';
import { extractArchive } from './content/archive.ts';

const SUBJECT = 'The app';

export async function workspaceFiles(job: WorkspaceFilesJob): Promise<WorkspaceFilesResult[WorkspaceFilesJob['work']]> {
  switch (job.work) {
    case 'list':
      return list(job.folder);
    case 'read':
      return read(job.folder, job.path);
    case 'put':
      return put(job.folder, job.path, job.bytes, job.conditions);
    case 'putAll':
      return putAll(job.folder, job.archive, job.unpackTo);
    case 'archive':
      return archive(job.folder, job.to);
    case 'diff':
      return (await import('./git/diff.ts')).diffFolders(job);
    case 'delete':
      return remove(job.folder, job.path, job.conditions);
  }
}

/** Sorted by path. Leaves out files that are removed meanwhile. */
function list(folder: string): GitFile[] {
  return plainFiles(folder).flatMap((path) => {
    const bytes = bytesOf(folder, path);
    return bytes === null ? [] : [{ path, ...identify(bytes) }];
  });
}

function read(folder: string, path: string): GitFile & { bytes: Uint8Array } {
  const bytes = bytesOf(folder, path);
  if (bytes === null) throw unknownFile(path);
  return { path, ...identify(bytes), bytes };
}

async function put(
  folder: string,
  path: string,
  bytes: Uint8Array,
  conditions: FileConditions,
): Promise<WorkspaceFilesResult['put']> {
  const name = admit(folder, path, bytes.length);
  const before = bytesOf(folder, name);
  checkConditions(name, before, conditions);
  const file = { path: name, ...identify(bytes) };
  if (before !== null && identify(before).sha === file.sha) return { file, created: false };
  try {
    await mkdirDurable(dirname(join(folder, name)));
    await writeFileAtomic(join(folder, name), bytes);
  } catch (error) {
    removeEmpty(folder, dirname(name));
    throw error;
  }
  return { file, created: before === null };
}

/**
 * Puts all files of a gzipped tar archive, or none when one of them is refused. The folder is listed once, and the disk flushes
 * many files at a time. After a crash each file is old or new. `unpackTo` is a new folder on the same file system.
 */
async function putAll(folder: string, archive: string, unpackTo: string): Promise<GitFile[]> {
  const unpacked = await extractArchive(archive, unpackTo);
  const files = unpacked.map(({ path }) => ({ path, ...identify(readFileSync(join(unpackTo, path))) }));
  checkFiles(folder, files);
  const changed = files.filter(({ path, sha }) => {
    const before = bytesOf(folder, path);
    return before === null || identify(before).sha !== sha;
  });
  await inParallel(changed, SYNCS_AT_ONCE, ({ path }) => syncFile(join(unpackTo, path), 'r+'));
  const parents = new Set(changed.map(({ path }) => dirname(path)));
  try {
    for (const parent of parents) await mkdirDurable(join(folder, parent));
    for (const { path } of changed) renameSync(join(unpackTo, path), join(folder, path));
  } catch (error) {
    for (const parent of parents) removeEmpty(folder, parent);
    throw error;
  }
  await inParallel(parents, SYNCS_AT_ONCE, (parent) => syncDir(join(folder, parent)));
  return files;
}

/** Without owners and times, as `svc push` makes one. */
async function archive(folder: string, to: string): Promise<WorkspaceFilesResult['archive']> {
  const { create } = await import('tar');
  // A name that begins with "@" would mean an archive whose entries are taken.
  const names = plainFiles(folder).map((path) => (path.startsWith('@') ? `./${path}` : path));
  const options = { cwd: folder, gzip: true, portable: true, noMtime: true, noDirRecurse: true, mode: 0o600 };
  await create({ ...options, file: to }, names);
  return { files: names.length };
}

async function remove(folder: string, path: string, conditions: FileConditions): Promise<{ path: string }> {
  const before = bytesOf(folder, path);
  if (before === null && conditions.ifMatch === undefined) throw unknownFile(path);
  checkConditions(path, before, conditions);
  await removeDurable(join(folder, path));
  removeEmpty(folder, dirname(path));
  return { path };
}

/** The file's normalized name, if it may stand beside the existing files. */
function admit(folder: string, path: string, size: number): string {
  const alone = new ArchiveRules(SUBJECT).admit({ path, type: 'File', size }).path;
  // It could not be found again under the name that was sent.
  if (alone !== path) throw pathError(path, 'it is no plain relative name');
  checkFiles(folder, [{ path, size }]);
  return path;
}

/** Checks the files together with the existing ones, as an archive of all of them. */
function checkFiles(folder: string, files: { path: string; size: number }[]): void {
  const rules = new ArchiveRules(SUBJECT);
  const own = new Set(files.map(({ path }) => path));
  for (const other of plainFiles(folder)) {
    if (own.has(other)) continue;
    try {
      rules.admit({ path: other, type: 'File', size: lstatSync(join(folder, other)).size });
    } catch (error) {
      // Publishing refuses files that another program put there.
      if (!(error instanceof SvcError) && !isMissing(error)) throw error;
    }
  }
  for (const { path, size } of files) rules.admit({ path, type: 'File', size });
}

/** Null for a missing file. Throws for a link, or a path behind one. */
export function bytesOf(folder: string, path: string): Buffer | null {
  const segments = path.split('/');
  if (segments.some((segment) => segment === '' || segment === '.' || segment === '..' || /[\\\0]/.test(segment)))
    throw pathError(path, 'it is no plain relative name');
  try {
    for (let depth = 1; depth <= segments.length; depth++) {
      const found = lstatSync(join(folder, ...segments.slice(0, depth)));
      const isLast = depth === segments.length;
      if (found.isSymbolicLink()) throw entryTypeError(path, 'SymbolicLink', SUBJECT);
      if (isLast ? !found.isFile() : !found.isDirectory()) return null;
    }
    return readFileSync(join(folder, path));
  } catch (error) {
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'ENAMETOOLONG') return null;
    throw error;
  }
}

/** Sorted; without links, other special files, and files that are being written. */
export function plainFiles(folder: string): string[] {
  return listTreeSync(folder)
    .filter((entry) => entry.isFile() && !isMomentary(entry))
    .map((entry) => pathOf(entry).slice(folder.length + 1))
    .sort();
}

function checkConditions(path: string, before: Uint8Array | null, { ifMatch, ifNoneMatch }: FileConditions): void {
  const tag = before === null ? null : `"${identify(before).sha}"`;
  const named = (header: string) => header.trim() === '*' || header.split(',').some((one) => one.trim() === tag);
  if (ifMatch !== undefined && (tag === null || !named(ifMatch))) {
    const now = tag === null ? 'is not there any more' : 'was changed since';
    throw new SvcError('PRECONDITION_FAILED', `The file ${now}; read it again, then write.`, { path });
  }
  if (ifNoneMatch !== undefined && tag !== null && named(ifNoneMatch))
    throw new SvcError('PRECONDITION_FAILED', 'There is a file of this name already; read it first.', { path });
}

/** The id is that of a git blob, so that it is the same in the repository. */
function identify(bytes: Uint8Array): { size: number; sha: string } {
  return { size: bytes.length, sha: createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex') };
}

function unknownFile(path: string): SvcError {
  return new SvcError('NOT_FOUND', 'The app has no file of this name in the workspace.', { path: path.slice(0, 300) });
}
