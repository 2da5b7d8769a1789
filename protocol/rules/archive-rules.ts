/** Checks the names, types and sizes of an app's files: in an upload, a draft or the repository. */
import { SvcError } from '../errors.ts';
import { STATIC_TYPES } from '../http/media-types.ts';
import { LIMITS } from '../limits.ts';

/** Where the command line notes in an app folder which version its files are from; no part of the app. */
export const ORIGIN_FILE = '.svc-app';

/** Whether an entry of an archive is that note, which is left out. */
export function isOriginNote(path: string): boolean {
  return path === ORIGIN_FILE || path === `./${ORIGIN_FILE}`;
}

/** What may be stored: what may be served, TypeScript and JSX, migrations, and text for people. */
export const STORED_EXTENSIONS: ReadonlySet<string> = new Set([
  ...Object.keys(STATIC_TYPES),
  '.ts',
  '.tsx',
  '.jsx',
  '.sql',
  '.md',
  '.txt',
]);

const FILE_TYPES = new Set(['File', 'OldFile']);

/** An entry as its header says: `type` in the words of the tar package, `size` in bytes. */
type ArchiveEntry = { path: string; type: string; size: number };

/** Where an entry goes, relative with `/`; the top folder itself is the empty path. */
type AdmittedEntry = { kind: 'file' | 'folder'; path: string };

/** The subject of error messages: an archive that was sent, or a folder of an app. */
type Subject = 'The archive' | 'The app';

/** Checks the entries of one archive in their order, each before its content is read; also the files of a folder. */
export class ArchiveRules {
  readonly #subject: Subject;
  #entries = 0;
  #bytes = 0;
  /** Names of files and of all folders above them, by the name with its case folded. */
  readonly #names = new Map<string, AdmittedEntry>();

  /** `subject` is what messages are about. */
  constructor(subject: Subject = 'The archive') {
    this.#subject = subject;
  }

  /** Throws the archive's error, with the entry in `path`. */
  admit({ path, type, size }: ArchiveEntry): AdmittedEntry {
    this.#entries++;
    if (this.#entries > LIMITS.archiveEntries) throw this.#tooMany(path);
    const kind = FILE_TYPES.has(type) ? 'file' : type === 'Directory' ? 'folder' : null;
    if (kind === null) throw entryTypeError(path, type, this.#subject);
    const name = safeName(path);
    if (name === '' && kind === 'file') throw pathError(path, 'it has no name');
    if (kind === 'file') this.#admitFile(path, name, size);
    if (name !== '') this.#claim(path, { kind, path: name });
    return { kind, path: name };
  }

  /** Counts an entry that is not taken: skipping costs time too. */
  pass(path: string): void {
    this.#entries++;
    if (this.#entries > LIMITS.archiveEntries) throw this.#tooMany(path);
  }

  #admitFile(path: string, name: string, size: number): void {
    const extension = /[^/](\.[^./]+)$/.exec(name)?.[1]?.toLowerCase() ?? '';
    if (!STORED_EXTENSIONS.has(extension)) {
      const what = extension === '' ? 'a name without an extension' : `the extension ${extension}`;
      throw new SvcError(
        'ARCHIVE_EXTENSION',
        `Apps may not hold files with ${what}. Allowed: ${[...STORED_EXTENSIONS].join(' ')}.`,
        { path },
      );
    }
    if (size > LIMITS.archiveFileBytes) {
      throw new SvcError(
        'ARCHIVE_TOO_LARGE',
        `${this.#subject} has a file of more than ${LIMITS.archiveFileBytes} bytes.`,
        { path },
      );
    }
    this.#bytes += size;
    if (this.#bytes > LIMITS.archiveTotalBytes) {
      throw new SvcError('ARCHIVE_TOO_LARGE', `${this.#subject} holds more than ${LIMITS.archiveTotalBytes} bytes.`, {
        path,
      });
    }
  }

  #tooMany(path: string): SvcError {
    const most = LIMITS.archiveEntries;
    return new SvcError('ARCHIVE_TOO_LARGE', `${this.#subject} has more than ${most} entries, folders included.`, {
      path,
    });
  }

  /**
   * Reserves the name and those of the folders above it, so that it means the same on every file system. A folder counts as an
   * entry where only paths name it: a few long paths would make a hundred times as many.
   */
  #claim(path: string, entry: AdmittedEntry): void {
    const segments = entry.path.split('/');
    for (let depth = 1; depth <= segments.length; depth++) {
      const name = segments.slice(0, depth).join('/');
      const claim: AdmittedEntry = depth === segments.length ? entry : { kind: 'folder', path: name };
      const folded = name.normalize('NFC').toLowerCase();
      const taken = this.#names.get(folded);
      if (taken === undefined) {
        if (this.#names.size === LIMITS.archiveEntries) throw this.#tooMany(path);
        this.#names.set(folded, claim);
      } else if (claim.kind === 'file')
        throw pathError(path, 'the name is there twice (upper and lower case count as the same)');
      else if (taken.kind === 'file') throw pathError(path, `"${taken.path}" is a file and cannot be a folder too`);
      else if (taken.path !== name)
        throw pathError(path, `it differs from "${taken.path}" in upper and lower case only`);
    }
  }
}

export function pathError(path: string, reason: string): SvcError {
  return new SvcError('ARCHIVE_PATH', `The name of an entry is not permitted: ${reason}.`, { path });
}

export function entryTypeError(path: string, type: string, subject: Subject = 'The archive'): SvcError {
  return new SvcError(
    'ARCHIVE_ENTRY_TYPE',
    `${subject} has an entry of type ${type}; only files and folders are taken.`,
    { path },
  );
}

/** The name without `./` and doubled slashes. Throws `ARCHIVE_PATH` when it could mean another place. */
function safeName(path: string): string {
  if (path.includes('\0')) throw pathError(path, 'it holds a NUL');
  if (path.includes('\\')) throw pathError(path, 'it holds a backslash');
  if (path.includes('\uFFFD')) throw pathError(path, 'it is not UTF-8');
  if (path.startsWith('/')) throw pathError(path, 'it is absolute');
  if (/^(?:\.\/)*[A-Za-z]:/.test(path)) throw pathError(path, 'it starts with a drive letter');
  const segments = path.split('/').filter((segment) => segment !== '' && segment !== '.');
  if (segments.includes('..')) throw pathError(path, 'it holds ".."');
  if (segments.some(isGitName)) throw pathError(path, 'git keeps that name for itself');
  if (segments.length > LIMITS.archiveDepth) throw pathError(path, `it lies deeper than ${LIMITS.archiveDepth} levels`);
  const name = segments.join('/');
  if (Buffer.byteLength(name) > LIMITS.archiveNameBytes)
    throw pathError(path, `it is longer than ${LIMITS.archiveNameBytes} bytes`);
  return name;
}

/**
 * Names that `git fsck` and `git clone` refuse to see in a tree, as they are written on every file system: case, dots and
 * spaces at the end, streams, short names (`GIT~1`), and characters that macOS passes over.
 */
function isGitName(segment: string): boolean {
  const plain = segment.replace(/[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g, '');
  return /^(?:\.git|\.gitmodules|\.gitattributes)[. ]*(?::.*)?$|^gi[0-9a-z]{1,4}~\d+[. ]*$/i.test(plain);
}
