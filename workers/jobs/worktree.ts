/** Reads the files of an app that somebody works on, under the rules of archives. No link is followed. */
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  type Dirent,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { isMissing } from '../../storage/atomic-file.ts';
import { ArchiveRules, entryTypeError } from './archive-rules.ts';
import type { ExtractedFile } from './extract.ts';

export type WorktreeFile = ExtractedFile & { content: Buffer };

/** Swap files and unfinished copies. No name like these could be published. */
const MOMENTARY = /^\..*\.(?:tmp|sw[a-z])$|~$|^4913$/;

/** What editors and our own writing put beside a file for a moment. Locks are links that lead nowhere. */
export function isMomentary(entry: Dirent): boolean {
  if (entry.isDirectory()) return false;
  return MOMENTARY.test(entry.name) || (entry.isSymbolicLink() && entry.name.startsWith('.#'));
}

/** Not through a link, and without waiting for whoever writes to a pipe. */
const PLAINLY = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** The files, sorted by path; none when there is no such folder. Throws the errors of archives, with the file in `path`. One that goes meanwhile is left out. */
export function readWorktree(folder: string): WorktreeFile[] {
  const rules = new ArchiveRules('The app');
  const files: WorktreeFile[] = [];
  const visit = (below: string): void => {
    for (const entry of readdirSync(join(folder, below), { withFileTypes: true })) {
      if (isMomentary(entry)) continue;
      const path = below === '' ? entry.name : `${below}/${entry.name}`;
      try {
        const found = lstatSync(join(folder, path));
        if (found.isDirectory()) {
          rules.admit({ path, type: 'Directory', size: 0 });
          visit(path);
        } else {
          const type = found.isFile() ? 'File' : found.isSymbolicLink() ? 'SymbolicLink' : 'special';
          rules.admit({ path, type, size: found.size });
          files.push(fileOf(path, readPlain(folder, path)));
        }
      } catch (error) {
        if (!isMissing(error) && !isLink(error)) throw error;
      }
    }
  };
  if (existsSync(folder)) visit('');
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function fileOf(path: string, content: Buffer): WorktreeFile {
  return { path, content, bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}

/** It may have become something else since it was looked at. */
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
